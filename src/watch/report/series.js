// Points {x, y} from a run's columns.

/** What the curves show: set by the controls, read by everything that draws. */
const view = {
  runs: [],        // the runs that are drawn
  alone: false,    // the page is of a single run
  span: 1,         // steps that smoothing averages over
  axis: "step",    // a column of steps and evals
  log: false,
  outliers: false,
  group: "",       // a config field, or none
};

/** x is divided by this, so that its numbers stay small. */
function axisUnit() {
  if (view.axis !== "seconds") return {scale: 1, name: view.axis === "step" ? "step" : "target tokens"};
  const longest = Math.max(0, ...view.runs.map((run) => run.seconds ?? 0));
  if (longest < 300) return {scale: 1, name: "seconds"};
  return longest < 10800 ? {scale: 60, name: "minutes"} : {scale: 3600, name: "hours"};
}

/** Pairs x and y; what is not finite is a gap. */
function pointsOf(table, values, scale = axisUnit().scale) {
  return table[view.axis].map((x, i) => ({x: x / scale, y: known(values[i]) ? values[i] : NaN}));
}

/**
 * Exponential moving average with bias correction: m = w m + (1 - w) y and m / (1 - w^n), where w = 1 - 1 / span.
 * A kept row stands for all steps since the one before by their mean, and so counts as many times.
 */
function smoothed(run, name) {
  const weight = 1 - 1 / view.span;
  const values = run.means?.[name] ?? run.steps[name];
  const steps = run.steps.step;
  let mean = 0, missing = 1;
  return pointsOf(run.steps, values.map((value, i) => {
    if (!known(value) || weight <= 0) return value;
    const kept = weight ** (run.means && i > 0 ? steps[i] - steps[i - 1] : 1);
    mean = kept * mean + (1 - kept) * value;
    missing *= kept;
    return mean / (1 - missing);
  }));
}

/** The index of the last of `things` whose rising place is at most `place`; 0 where none is. */
function indexAt(things, place, placeOf) {
  let low = 0, high = things.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (placeOf(things[middle]) <= place) low = middle;
    else high = middle;
  }
  return low;
}

const indexOfX = (points, x) => indexAt(points, x, (point) => point.x);

/** y at x on the straight line between neighbours. */
function interpolated(points, x) {
  const i = indexOfX(points, x);
  const a = points[i], b = points[Math.min(i + 1, points.length - 1)];
  return b.x > a.x ? a.y + (b.y - a.y) * Math.min(1, Math.max(0, (x - a.x) / (b.x - a.x))) : a.y;
}

/** Where steps lie on the x axis. */
function xsOfSteps(run, steps) {
  const {scale} = axisUnit();
  const points = [{x: 0, y: 0}, ...run.steps.step.map((x, i) => ({x, y: run.steps[view.axis][i] / scale}))];
  return steps.map((step) => view.axis === "step" ? step : interpolated(points, step));
}

/** Validation loss less the mean training loss of the latter half of the steps since the evaluation before. */
function gapPoints(run) {
  const losses = run.means?.loss ?? run.steps.loss;
  let row = 0, before = run.steps.step[0] - 1;
  const gaps = run.evals.step.map((step, i) => {
    const middle = (step + (run.evals.step[i - 1] ?? 0)) / 2;
    let sum = 0, count = 0;
    for (; row < losses.length && run.steps.step[row] <= step; ++row) {
      const steps = run.steps.step[row] - before;
      before = run.steps.step[row];
      if (known(losses[row]) && before > middle) { sum += losses[row] * steps; count += steps; }
    }
    return count > 0 && known(run.evals.loss[i]) ? run.evals.loss[i] - sum / count : null;
  });
  return pointsOf(run.evals, gaps).filter((point) => Number.isFinite(point.y));
}
