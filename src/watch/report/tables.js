// Facts, tables, samples and warnings.

function facts(run) {
  const about = run.facts ?? {}, machine = run.environment;
  const evals = run.evals.loss;
  const text = !("train_examples" in about);
  const best = run.best && `${lossText(run.best.loss)} at step ${grouped(run.best.step)}`;
  return [
    ["best validation loss", best],
    ["last validation loss", evals.length > 0 && lossText(evals.at(-1))],
    ["last training loss", run.steps.loss.length > 0 && lossText(run.train_loss)],
    ["perplexity at the best", run.best && text && short(Math.exp(run.best.loss))],
    ["steps", known(run.max_steps) ? `${grouped(run.step)} of ${grouped(run.max_steps)}` : grouped(run.step)],
    ["target tokens", grouped(run.tokens)],
    ["time", durationText(run.seconds)],
    ["parameters", known(run.parameters) && grouped(run.parameters)],
    ["training text", about.train_tokens > 0 && `${grouped(about.train_tokens)} tokens`],
    ["validation text", about.val_tokens > 0 && `${grouped(about.val_tokens)} tokens`],
    ["training examples", !text && (about.train_examples > 0 ? grouped(about.train_examples) : "without end")],
    ["validation examples", !text && grouped(about.val_examples)],
    ["data fingerprint", about.data_fingerprint],
    ["vocabulary", about.vocab_size > 0 && `${grouped(about.vocab_size)} tokens`],
    ["started", timeText(run.started)],
    ["processor", machine.cpu],
    ["level, threads, precision", about.isa && `${about.isa}, ${about.threads}, ${about.precision}`],
    ["program", machine.version && `quern ${machine.version} (commit ${machine.commit})`],
  ].filter(([, value]) => value);
}

function showFacts(run) {
  byId("facts").append(element("dl", {}, ...facts(run).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, String(value))))));
}

/**
 * A table that its headings sort. A column is {name, value(row), text(value)}; numbers stand right, what is not
 * known stays at the end either way.
 */
function sortableTable(columns, rows, sortedBy) {
  const body = element("tbody");
  const numeric = (column) => rows.some((row) => typeof column.value(row) === "number");
  const heads = columns.map((column, i) => element("th", {scope: "col", className: numeric(column) ? "number" : ""},
    element("button", {type: "button", onclick: () => sort(i)}, column.name)));
  const cell = (column, j, row) => element(j === 0 ? "th" : "td",
    {...(j === 0 ? {scope: "row"} : {}), className: numeric(column) ? "number" : ""},
    (column.text ?? String)(column.value(row)));
  let current = -1, falling = false;
  const sort = (i) => {
    falling = i === current && !falling;
    current = i;
    heads.forEach((head, j) => head.setAttribute("aria-sort", j !== i ? "none" : falling ? "descending" : "ascending"));
    const of = columns[i].value, missing = (row) => (of(row) ?? null) === null;
    const sorted = [...rows].sort((a, b) => missing(a) || missing(b) || !falling
      ? compareValues(of(a), of(b)) : compareValues(of(b), of(a)));
    body.replaceChildren(...sorted.map((row) => element("tr", {}, ...columns.map((column, j) => cell(column, j, row)))));
  };
  sort(sortedBy);
  return element("div", {className: "table"}, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body));
}

function showSummary(runs, differing) {
  const fieldColumns = differing.filter((field) => field !== "run.name").map((field) => ({
    name: field, value: (run) => run.config[field], text: (value) => String(value ?? "\u2013")}));
  byId("summary").append(element("h2", {}, "Runs"), sortableTable([
    {name: "run", value: (run) => run.name},
    {name: "best val loss", value: (run) => run.best?.loss ?? null, text: lossText},
    ...fieldColumns,
    {name: "status", value: (run) => run.status},
    {name: "at step", value: (run) => run.best?.step ?? null, text: grouped},
    {name: "last train loss", value: (run) => run.train_loss ?? null, text: lossText},
    {name: "steps", value: (run) => run.step, text: grouped},
    {name: "tokens", value: (run) => run.tokens, text: grouped},
    {name: "time", value: (run) => run.seconds, text: durationText},
    {name: "parameters", value: (run) => run.parameters ?? null, text: grouped},
  ], runs, 1));
  byId("summary").hidden = false;
}

function showEvaluations(run) {
  const names = Object.keys(run.evals).filter((name) => !["tokens", "seconds"].includes(name));
  const rows = run.evals.step.map((_, i) => Object.fromEntries(names.map((name) => [name, run.evals[name][i]])));
  if (rows.length === 0) return;
  const columns = names.map((name) => ({
    name: name === "loss" ? "validation loss" : name.replaceAll("_", " "),
    value: (row) => row[name], text: name === "step" ? grouped : lossText}));
  byId("evaluations").append(element("details", {}, element("summary", {},
    element("h2", {}, `Evaluations (${shareText(rows.length, run.evals_made)})`)), sortableTable(columns, rows, 0)));
  byId("evaluations").hidden = false;
}

/** Samples by step, a slider through them. */
function showSamples(runs) {
  const all = runs.flatMap((run) => run.samples.map((sample) => ({...sample, run})))
    .sort((a, b) => a.step - b.step);
  if (all.length === 0) return;
  const made = runs.reduce((sum, run) => sum + run.samples_made, 0);
  const slider = element("input", {type: "range", min: 0, max: all.length - 1, value: all.length - 1, id: "sample"});
  slider.setAttribute("aria-label", "which sample");
  const step = element("output", {}), text = element("pre", {tabIndex: 0});
  const show = () => {
    const sample = all[slider.value];
    step.textContent = `step ${grouped(sample.step)}` + (runs.length > 1 ? `, ${sample.run.name}` : "");
    slider.setAttribute("aria-valuetext", step.textContent);
    text.replaceChildren(element("span", {className: "prompt"}, sample.prompt), sample.text);
  };
  slider.addEventListener("input", show);
  show();
  byId("samples").append(element("h2", {}, `Samples (${shareText(all.length, made)})`),
    element("div", {className: "row"}, slider, step), text);
  byId("samples").hidden = false;
}

function showWarnings(runs) {
  const notes = runs.flatMap((run) => [
    ...run.anomalies.map((a) => ({...a, text: `${a.kind}${a.action === "none" ? "" : `, ${a.action}`}: ${a.text}`})),
    ...run.warnings,
  ].sort((a, b) => a.step - b.step).map((note) => ({...note, run})));
  if (notes.length === 0) return;
  const made = runs.reduce((sum, run) => sum + run.anomalies_made + run.warnings_made, 0);
  byId("warnings").append(element("h2", {}, `Warnings (${shareText(notes.length, made)})`),
    element("ul", {className: "notes"}, ...notes.map((note) => element("li", {},
      `${runs.length > 1 ? `${note.run.name}, ` : ""}step ${grouped(note.step)}: ${note.text}`))));
  byId("warnings").hidden = false;
}

/** One run: every field by section, those that were given marked. */
function showConfig(run) {
  const fields = Object.entries(run.config);
  if (fields.length === 0) return;
  const sections = [...new Set(fields.map(([path]) => path.includes(".") ? path.split(".")[0] : ""))];
  const tables = sections.map((section) => element("table", {}, element("caption", {}, section || "config"),
    element("tbody", {}, ...fields
      .filter(([path]) => (path.includes(".") ? path.split(".")[0] : "") === section)
      .map(([path, value]) => {
        const given = run.given.includes(path);
        return element("tr", {className: given ? "given" : ""},
          element("th", {scope: "row"}, (given ? "\u25cf " : "") + path.slice(section ? section.length + 1 : 0)),
          element("td", {}, String(value)));
      }))));
  byId("config").append(element("details", {open: true},
    element("summary", {}, element("h2", {}, "Config")),
    element("p", {className: "quiet"}, "\u25cf given by the user; all else is a default or follows from the data"),
    element("div", {className: "fields"}, ...tables)));
  byId("config").hidden = false;
}

/** Several runs: the fields in which they differ alone. */
function showDifferences(runs, differing) {
  const head = ["field", ...runs.map((run) => run.name)].map((name) => element("th", {scope: "col"}, name));
  const rows = differing.map((field) => element("tr", {}, element("th", {scope: "row"}, field),
    ...runs.map((run) => element("td", {}, String(run.config[field] ?? "\u2013")))));
  byId("config").append(element("h2", {}, "What the configs differ in"), rows.length === 0
    ? element("p", {}, "The configs are equal.")
    : element("div", {className: "table"}, element("table", {},
      element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows))));
  byId("config").hidden = false;
}

function showCommands(runs) {
  const lines = runs.map((run) => run.command).filter((line) => line);
  if (lines.length === 0) return;
  const text = lines.join("\n");
  const copied = element("span", {className: "quiet", role: "status"});
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    copied.textContent = "copied";
  };
  byId("command").append(element("h2", {}, lines.length > 1 ? "Train these again" : "Train this again"),
    element("pre", {tabIndex: 0}, text),
    element("div", {className: "row"}, element("button", {type: "button", onclick: copy}, "Copy"), copied));
  byId("command").hidden = false;
}
