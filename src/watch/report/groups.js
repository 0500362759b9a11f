// Runs that have the same value of a config field, drawn as one curve with a band.

/** The fields in which the runs differ, with the texts of their values. */
function differingFields(runs) {
  const fields = new Set(runs.flatMap((run) => Object.keys(run.config)));
  const valueOf = (run, field) => field in run.config ? String(run.config[field]) : "";
  return [...fields].filter((field) => runs.some((run) => valueOf(run, field) !== valueOf(runs[0], field)));
}

/** [{label, runs}] in the order of the field's values; each run alone without a field. */
function groupsOf(runs, field) {
  if (!field) return runs.map((run) => ({label: run.name, runs: [run]}));
  const groups = new Map();
  for (const run of runs) {
    const value = run.config[field] ?? "none";
    if (!groups.has(String(value))) groups.set(String(value), {value, runs: []});
    groups.get(String(value)).runs.push(run);
  }
  const name = field.split(".").pop();
  return [...groups.values()]
    .sort((a, b) => compareValues(a.value, b.value))
    .map((group) => ({
      label: `${name} ${group.value} (${group.runs.length} ${group.runs.length === 1 ? "run" : "runs"})`,
      runs: group.runs,
    }));
}

/** Numbers by size, texts by letters, what is not known last. */
function compareValues(a, b) {
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", {numeric: true});
}

/** The mean, the lowest and the highest of several curves, where all of them are. */
function bandOf(curves) {
  const whole = curves.map((points) => points.filter((point) => Number.isFinite(point.y)));
  if (whole.some((points) => points.length === 0)) return {mean: [], low: [], high: []};
  const first = Math.max(...whole.map((points) => points[0].x));
  const last = Math.min(...whole.map((points) => points.at(-1).x));
  const densest = whole.reduce((a, b) => b.length > a.length ? b : a);
  const band = {mean: [], low: [], high: []};
  const places = whole.map(() => 0);
  for (const {x} of densest) {
    if (x < first || x > last) continue;
    const values = whole.map((points, i) => {
      while (places[i] + 1 < points.length && points[places[i] + 1].x <= x) ++places[i];
      return interpolated(points.slice(places[i], places[i] + 2), x);
    });
    band.mean.push({x, y: values.reduce((sum, value) => sum + value, 0) / values.length});
    band.low.push({x, y: Math.min(...values)});
    band.high.push({x, y: Math.max(...values)});
  }
  return band;
}
