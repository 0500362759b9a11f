// Which figures there are, and what each draws of a run. A line has
//   key    what it is, the same in every run     label  for the legend of a single run
//   kind   "faint", "line", "marks" or "area"    points

const has = (name) => (run) => name in run.steps && run.steps[name].some(known);

/** Every step faint, and the moving average over it. */
function rawAndSmoothed(name, label) {
  return (run) => {
    const line = {key: name, label, kind: "line", points: smoothed(run, name)};
    if (view.span <= 1 && !run.means) return [line];
    return [{key: `${name} raw`, label: "each step", kind: "faint", points: pointsOf(run.steps, run.steps[name])}, line];
  };
}

function lossLines(run) {
  const lines = rawAndSmoothed("loss", "training")(run);
  if (run.evals.step.length > 0) {
    lines.push({key: "val", label: "validation", kind: "marks", points: pointsOf(run.evals, run.evals.loss)});
  }
  return lines;
}

/** Levels of the loss: what no model can pass, and what a model that knows nothing has. */
function lossLevels(run) {
  const levels = [];
  if (known(run.facts?.entropy_floor)) levels.push({label: "entropy of the text", y: run.facts.entropy_floor});
  if (run.facts?.vocab_size > 1 && !("train_examples" in run.facts)) {
    levels.push({label: "ln V, a uniform guess", y: Math.log(run.facts.vocab_size)});
  }
  return levels;
}

function clipLevel(run) {
  const clip = run.config["optim.grad_clip"];
  return known(clip) && clip > 0 ? [{label: "clipped above", y: clip}] : [];
}

/** Where a step's time goes, stacked; in a comparison the whole step. */
function phaseLines(run) {
  const phases = ["data", "forward", "backward", "optimizer"].filter((phase) => has(`${phase}_ms`)(run));
  if (!view.alone || phases.length === 0) return rawAndSmoothed("ms", "a step")(run);
  return phases.map((phase) => ({key: phase, label: phase, kind: "area", points: smoothed(run, `${phase}_ms`)}));
}

const plainLine = (name) => (run) =>
  [{key: name, label: "", kind: "line", points: pointsOf(run.steps, run.steps[name])}];

const figures = [
  {id: "loss", title: "Loss", unit: "nats per target token", wide: true, log: true, marks: true,
    shown: has("loss"), lines: lossLines, levels: lossLevels, text: lossText},
  {id: "lr", title: "Learning rate", unit: "", log: true, shown: has("lr"), lines: plainLine("lr"), text: short},
  {id: "grad_norm", title: "Gradient norm", unit: "before clipping", log: true, marks: true, robust: true,
    shown: has("grad_norm"), lines: rawAndSmoothed("grad_norm", "smoothed"), levels: clipLevel, text: short},
  {id: "update_ratio", title: "Update to weights", unit: "norm of a step's change over that of the weights", log: true,
    shown: has("update_ratio"), lines: rawAndSmoothed("update_ratio", "smoothed"), text: short},
  {id: "gap", title: "Generalisation gap", unit: "validation loss less training loss just before it",
    shown: (run) => gapPoints(run).length > 0, text: lossText,
    lines: (run) => [{key: "gap", label: "", kind: "marks", points: gapPoints(run)}]},
  {id: "tokens_per_second", title: "Speed", unit: "target tokens per second", robust: true, tick: tickText,
    shown: has("tokens_per_second"), lines: rawAndSmoothed("tokens_per_second", "smoothed"), text: compact},
  {id: "phases", title: "Time of a step", unit: "milliseconds", zero: true, robust: true, shown: has("ms"), lines: phaseLines,
    text: short},
  {id: "rss", title: "Memory", unit: "of the process", zero: true, shown: has("rss"), lines: plainLine("rss"),
    text: bytesText, tick: bytesText, bytes: true},
];

/** One more figure for each metric that a task has. */
function metricFigures(runs) {
  const fixed = ["step", "tokens", "seconds", "loss"];
  const names = new Set(runs.flatMap((run) => Object.keys(run.evals)).filter((name) => !fixed.includes(name)));
  return [...names].map((name) => ({
    id: `metric-${name}`, title: name.replaceAll("_", " "), unit: "on the validation split", text: short,
    shown: (run) => name in run.evals,
    lines: (run) => [{key: name, label: "", kind: "marks", points: pointsOf(run.evals, run.evals[name])}],
  }));
}

/** The levels that all runs which know one agree on. */
function commonLevels(figure, runs) {
  const all = runs.map((run) => figure.levels?.(run) ?? []);
  return all.flat().filter((level, i, list) => list.findIndex((other) => other.label === level.label) === i &&
    list.every((other) => other.label !== level.label || other.y === level.y));
}

/** Events that stand at a step: what each is called, how it is drawn, and where. */
function eventMarks(run) {
  const at = (steps) => xsOfSteps(run, steps);
  const anomalies = (kind) => run.anomalies.filter((a) => a.kind === kind).map((a) => a.step);
  return [
    {label: "checkpoint", sign: "\u2575", xs: at(run.checkpoints)},
    {label: "resumed", sign: "\u2506", tone: "quiet", through: true, xs: at(run.resumes)},
    {label: "spike", sign: "\u25b2", tone: "bad", xs: at(anomalies("spike"))},
    {label: "not finite", sign: "\u2715", tone: "bad", xs: at(anomalies("nonfinite"))},
  ].filter((mark) => mark.xs.length > 0);
}
