// Puts the page together and listens to its controls.

const data = JSON.parse(byId("data").textContent);
data.runs.forEach((run, index) => { run.index = index; });
view.runs = data.runs;
view.alone = data.runs.length === 1;

/** The slider's place as steps to average over: 1 at its left end, a fifth of the longest run at its right end. */
function spanOf(place) {
  const steps = Math.max(...data.runs.map((run) => run.steps_made));
  return Math.max(10, steps / 5) ** (place / 100);
}

function startSmoothing() {
  const steps = Math.max(...data.runs.map((run) => run.steps_made));
  const span = Math.max(1, steps / 50);
  byId("smoothing").value = steps <= 50 ? 0 : Math.round(100 * Math.log(span) / Math.log(Math.max(10, steps / 5)));
}

function readControls() {
  view.span = spanOf(Number(byId("smoothing").value));
  view.axis = byId("axis").value;
  view.log = byId("log").checked;
  view.outliers = byId("outliers").checked;
  view.group = byId("group").value;
  const steps = view.span < 10 ? view.span.toFixed(1) : grouped(Math.round(view.span));
  byId("smoothing-text").textContent = view.span <= 1 ? "none" : `over ${steps} steps`;
  byId("smoothing").setAttribute("aria-valuetext", byId("smoothing-text").textContent);
  const boxes = [...document.querySelectorAll("#runs input")];
  if (boxes.length > 0) view.runs = data.runs.filter((run) => boxes[run.index].checked);
}

let planned = false;

/** Draws once for all that changes before the next frame. */
function planDrawing() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    readControls();
    drawFigures();
  });
}

/** A box for each run, with its colour, to show and hide it. */
function showRunBoxes() {
  for (const run of data.runs) {
    const swatch = element("span", {className: "swatch"});
    byId("runs").append(element("label", {}, element("input", {type: "checkbox", checked: true}), swatch, run.name));
  }
  byId("runs").hidden = false;
}

function colourRunBoxes() {
  document.querySelectorAll("#runs .swatch").forEach((swatch, index) => {
    swatch.style.borderTopColor = colourOf(index);
    swatch.style.borderTopStyle = dashOf(index).length > 0 ? "dashed" : "solid";
  });
}

function offerGroups(fields) {
  const choices = fields.filter((field) => !["run.seed", "run.name", "about"].includes(field));
  byId("group").append(element("option", {value: ""}, "none"),
    ...choices.map((field) => element("option", {value: field}, field)));
  byId("group-label").hidden = choices.length === 0;
}

function showHeader() {
  const [run] = data.runs;
  const title = view.alone ? run.name : `${data.runs.length} runs`;
  document.title = `${title} \u00b7 Quern`;
  byId("title").textContent = title;
  byId("about").textContent = view.alone ? run.config.about ?? "" : "";
  if (view.alone) {
    byId("status").textContent = run.status;
    byId("status").classList.add(run.status);
    byId("status").hidden = false;
  }
  const kept = data.runs.filter((one) => one.steps.step.length < one.steps_made)
    .map((one) => `${one.name}: ${shareText(one.steps.step.length, one.steps_made)} steps`);
  const live = data.runs.some((one) => one.status === "running") ? " A run was still going: reload for what came since." : "";
  byId("footer").textContent = `Written by ${data.generator} at ${timeText(data.written)}.${live}` +
    (kept.length > 0 ? ` Long runs are thinned here, extremes kept (${kept.join("; ")}); quern curves --csv has every step.` : "");
}

/** The scheme changed, or the page goes to paper: other colours. */
function recolour() {
  theme = readTheme();
  colourRunBoxes();
  drawFigures();
}

function start() {
  showHeader();
  const differing = differingFields(data.runs);
  if (view.alone) {
    showFacts(data.runs[0]);
    showEvaluations(data.runs[0]);
    showConfig(data.runs[0]);
  } else {
    showSummary(data.runs, differing);
    showRunBoxes();
    colourRunBoxes();
    offerGroups(differing);
    showDifferences(data.runs, differing);
  }
  showSamples(data.runs);
  showWarnings(data.runs);
  showCommands(data.runs);
  startSmoothing();
  byId("main").hidden = false;
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  readControls();
  for (const figure of [...figures, ...metricFigures(data.runs)]) addFigure(figure, byId("figures"));
  drawFigures();
  for (const id of ["controls", "runs"]) {
    for (const event of ["input", "change"]) byId(id).addEventListener(event, planDrawing);
  }
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("csv").addEventListener("click", () => saveCsv(data.runs));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  addEventListener("beforeprint", () => { document.documentElement.classList.add("on-paper"); recolour(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("on-paper"); recolour(); });
}

start();
