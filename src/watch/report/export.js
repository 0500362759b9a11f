// The page's values as a table for other programs: the form of `quern curves --csv`.

const csvStepColumns = ["loss", "lr", "grad_norm", "tokens_per_second", "ms", "data_ms", "forward_ms", "backward_ms",
  "optimizer_ms", "rss", "update_ratio"];

/** A field as RFC 4180 wants it. */
const csvField = (value) => value === null || value === undefined ? ""
  : /[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);

/** Every step and evaluation that the page holds, in the order of steps. */
function csvOf(runs) {
  const place = ["step", "tokens", "seconds"];
  const metrics = [...new Set(runs.flatMap((run) => Object.keys(run.evals)))]
    .filter((name) => ![...place, "loss"].includes(name));
  const columns = [...place, ...csvStepColumns, ...metrics];
  const lines = [["run", "event", ...columns]];
  for (const run of runs) {
    const rows = ["step", "eval"].flatMap((event) => {
      const table = event === "step" ? run.steps : run.evals;
      return table.step.map((step, i) => ({step, line: [run.name, event, ...columns.map((name) => table[name]?.[i])]}));
    });
    lines.push(...rows.sort((a, b) => a.step - b.step).map((row) => row.line));
  }
  return lines.map((line) => line.map(csvField).join(",") + "\n").join("");
}

function saveCsv(runs) {
  const url = URL.createObjectURL(new Blob([csvOf(runs)], {type: "text/csv"}));
  element("a", {href: url, download: `${runs.length === 1 ? runs[0].name : "runs"}.csv`}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
