// Figures on canvases, drawn by Chart.js, with one cursor over all of them.

/** What Chart.js has no name for: levels, events, each on the canvas of its chart. */
const extras = {
  id: "extras",
  afterDatasetsDraw(chart) {
    const {ctx, chartArea: area, scales: {x, y}} = chart;
    ctx.save();
    ctx.font = `11px ${Chart.defaults.font.family}`;
    ctx.textAlign = "right";
    for (const level of chart.levels ?? []) {
      const at = y.getPixelForValue(level.y);
      if (!(at >= area.top && at <= area.bottom)) continue;
      strokeLine(ctx, [area.left, at, area.right, at], theme.quiet, [2, 3]);
      writeOver(ctx, `${level.label} ${short(level.y)}`, area.right - 4, at < area.top + 18 ? at + 14 : at - 5);
    }
    for (const mark of chart.marks ?? []) {
      for (const at of mark.xs.map((value) => x.getPixelForValue(value))) drawMark(ctx, area, mark, at);
    }
    ctx.restore();
  },
};

function strokeLine(ctx, [x0, y0, x1, y1], colour, dash) {
  ctx.beginPath();
  ctx.setLineDash(dash);
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1;
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
  ctx.setLineDash([]);
}

/** Text that stays readable on top of curves. */
function writeOver(ctx, text, right, bottom) {
  const {width} = ctx.measureText(text);
  ctx.fillStyle = theme.ground + "d0";
  ctx.fillRect(right - width - 3, bottom - 10, width + 6, 13);
  ctx.fillStyle = theme.quiet;
  ctx.fillText(text, right, bottom);
}

function drawMark(ctx, area, mark, x) {
  if (mark.through) {
    strokeLine(ctx, [x, area.top, x, area.bottom], theme.quiet, [4, 4]);
  } else if (mark.tone) {
    ctx.textAlign = "center";
    ctx.fillStyle = theme.bad;
    ctx.fillText(mark.sign, x, area.top + 10);
  } else {
    strokeLine(ctx, [x, area.bottom - 6, x, area.bottom], theme.text, []);
  }
}

function chartOptions(figure, range) {
  const log = view.log && figure.log;
  const axis = {grid: {color: theme.line, borderColor: theme.line}, ticks: {color: theme.quiet, maxRotation: 0}};
  const y = {...axis, ...range, type: log ? "logarithmic" : "linear", stacked: figure.id === "phases" && view.alone,
    afterFit: (scale) => { scale.width = 62; },
    afterBuildTicks: (scale) => { scale.ticks = ticksOf(figure, scale).map((value) => ({value})); },
    ticks: {...axis.ticks, callback: figure.tick ?? short}};
  const x = {...axis, type: "linear", min: 0, max: xEnd(),
    title: {display: true, text: axisUnit().name, color: theme.quiet, padding: 0},
    ticks: {...axis.ticks, callback: tickText, maxTicksLimit: 9, includeBounds: false}};
  return {animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true,
    events: [], plugins: {legend: {display: false}, tooltip: {enabled: false}}, scales: {x, y}};
}

/** The figures on the page: {figure, chart, curves, and their elements}. */
const drawn = [];

function addFigure(figure, place) {
  const legend = element("ul", {className: "legend"});
  const canvas = element("canvas", {tabIndex: 0, role: "img", id: `canvas-${figure.id}`});
  const cursor = element("div", {className: "cursor", hidden: true});
  const node = element("figure", {id: `figure-${figure.id}`, className: figure.wide ? "wide" : ""},
    element("figcaption", {}, element("strong", {}, figure.title), element("span", {className: "quiet"}, figure.unit)),
    legend, element("div", {className: "plot"}, canvas, cursor));
  place.append(node);
  const one = {figure, node, canvas, cursor, legend, curves: [], values: []};
  one.chart = new Chart(canvas, {type: "line", data: {datasets: []}, options: chartOptions(figure, {}), plugins: [extras]});
  const follow = (event) => moveCursor(one.chart.scales.x.getValueForPixel(event.offsetX));
  canvas.addEventListener("pointermove", follow);
  canvas.addEventListener("pointerdown", follow);
  canvas.addEventListener("pointerleave", () => moveCursor(null));
  canvas.addEventListener("blur", () => moveCursor(null));
  canvas.addEventListener("keydown", (event) => stepCursor(one, event));
  drawn.push(one);
}

/** Draws a figure anew from `view`. */
function drawFigure(one) {
  const {figure, chart} = one;
  const runs = view.runs.filter(figure.shown);
  one.node.hidden = runs.length === 0;
  one.curves = runs.length > 0 ? curvesOf(figure) : [];
  chart.levels = commonLevels(figure, runs);
  chart.marks = figure.marks && view.alone && runs.length > 0 ? eventMarks(runs[0]) : [];
  chart.data.datasets = one.curves.flatMap(datasetsOf);
  chart.options = chartOptions(figure, yRange(figure, one.curves, chart.levels, view.log && figure.log));
  if (!one.node.hidden) chart.update("none");
  drawLegend(one);
}

function drawFigures() {
  for (const one of drawn) drawFigure(one);
  moveCursor(null);
}

/** One entry for each label; its values are written by writeValues. */
function drawLegend(one) {
  const labels = [...new Set(one.curves.map((curve) => curve.label))];
  one.values = labels.map((label) => {
    const curves = one.curves.filter((curve) => curve.label === label);
    return {label, curves, value: element("span", {}), kind: curves[0].kind};
  });
  const entries = one.values.map(({label, curves, value, kind}) => {
    if (label === "") return element("li", {}, value);
    const swatch = element("span", {className: `swatch ${kind}`});
    swatch.style.borderTopColor = curves[0].colour;
    if (curves[0].dash.length > 0) swatch.style.borderTopStyle = "dashed";
    return element("li", {}, swatch, element("span", {className: "quiet"}, label), value);
  });
  for (const mark of one.chart.marks) {
    const sign = element("span", {className: "mark", "aria-hidden": "true"}, mark.sign);
    sign.style.color = mark.tone === "bad" ? theme.bad : theme.text;
    entries.push(element("li", {}, sign, element("span", {className: "quiet"}, `${mark.label} (${mark.xs.length})`)));
  }
  if (!view.alone && one.curves.some((curve) => curve.key === "val")) {
    entries.push(element("li", {className: "quiet"}, "solid: training / dashed: validation"));
  }
  one.legend.replaceChildren(...entries);
  writeValues(one, null);
  one.canvas.setAttribute("aria-label", `${one.figure.title}, ${one.figure.unit}. At the end: ${readoutOf(one)}`);
}

/** The value of a curve at x, or its last one. */
function valueAt(curve, x) {
  if (x === null) return curve.points.findLast?.((point) => Number.isFinite(point.y))?.y;
  const point = curve.points[indexOfX(curve.points, x)];
  return point && point.x <= x ? point.y : undefined;
}

function writeValues(one, x) {
  for (const {curves, value} of one.values) {
    value.textContent = curves.map((curve) => {
      const y = valueAt(curve, x);
      return known(y) ? one.figure.text(y) : x === null ? "none" : "\u2013";
    }).join(" / ");
  }
}

const readoutOf = (one) =>
  one.values.map(({label, value}) => `${label || one.figure.title} ${value.textContent}`).join(", ");

let cursorX = null;

/** Puts the cursor of every figure at x and the values there into the legends; null: away with it. */
function moveCursor(x) {
  if (x === null && cursorX === null) return;
  cursorX = x === null ? null : Math.min(Math.max(0, x), xEnd());
  for (const one of drawn.filter(({node}) => !node.hidden)) {
    one.cursor.hidden = cursorX === null;
    if (cursorX !== null) one.cursor.style.transform = `translateX(${one.chart.scales.x.getPixelForValue(cursorX)}px)`;
    writeValues(one, cursorX);
  }
}

/** The keyboard's way to read a curve: from point to point of its first line, aloud. */
function stepCursor(one, event) {
  const xs = (one.curves.find((curve) => curve.kind !== "faint")?.points ?? []).map((point) => point.x);
  const at = cursorX === null ? xs.length - 1 : indexAt(xs, cursorX, Number);
  const leap = Math.max(1, Math.round(xs.length / 20));
  const places = {ArrowLeft: at - 1, ArrowRight: at + (cursorX === null ? 0 : 1), PageUp: at - leap,
    PageDown: at + leap, Home: 0, End: xs.length - 1};
  if (event.key === "Escape") moveCursor(null);
  if (!(event.key in places) || xs.length === 0) return;
  event.preventDefault();
  moveCursor(xs[Math.min(Math.max(0, places[event.key]), xs.length - 1)]);
  byId("readout").textContent = `${axisUnit().name} ${short(cursorX)}: ${readoutOf(one)}`;
}
