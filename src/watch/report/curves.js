// What a figure draws: its curves with colours, dashes and legends, and how far its axes reach.

/** The colours of the page, which follow the scheme that the reader's system asks for. */
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(`--${name}`).trim();
  return {ground: value("ground"), line: value("line"), text: value("text"), quiet: value("quiet"), bad: value("bad"),
    series: value("series").split(/\s+/)};
}
let theme = readTheme();

const colourOf = (index) => theme.series[index % theme.series.length];
const dashOf = (index) => index < theme.series.length ? [] : [8, 3];

/** The curves of a single run: one colour for each kind, the raw values in that of their average. */
function curvesOfOne(figure, run) {
  let index = -1;
  const lines = figure.lines(run);
  return lines.map((line, i) => {
    if (i === 0 || lines[i - 1].kind !== "faint") ++index;
    return {...line, colour: colourOf(index), dash: []};
  });
}

/** The curves of several runs or groups of runs: one colour for each, validation dashed, raw values left out. */
function curvesOfMany(figure) {
  const groups = groupsOf(view.runs.filter(figure.shown), view.group);
  return groups.flatMap((group, i) => {
    const index = view.group ? i : group.runs[0].index;
    const all = group.runs.map((run) => figure.lines(run).filter((line) => line.kind !== "faint"));
    const keys = [...new Set(all.flat().map((line) => line.key))];
    return keys.map((key) => {
      const of = all.flatMap((lines) => lines.filter((line) => line.key === key));
      const curve = {...of[0], label: group.label, colour: colourOf(index),
        dash: key === "val" ? [5, 4] : dashOf(index)};
      if (of.length < 2) return curve;
      const band = bandOf(of.map((line) => line.points));
      return {...curve, points: band.mean, low: band.low, high: band.high};
    });
  });
}

const curvesOf = (figure) => view.alone ? curvesOfOne(figure, view.runs[0]) : curvesOfMany(figure);

/** How a curve is handed to Chart.js: a band is two more of them. */
function datasetsOf(curve) {
  const plain = {label: curve.label, borderColor: curve.colour, borderWidth: 2, borderDash: curve.dash,
    pointRadius: curve.points.length === 1 ? 3 : 0, pointBackgroundColor: curve.colour, data: curve.points};
  switch (curve.kind) {
    case "faint": return [{...plain, borderColor: curve.colour + "59", borderWidth: 1}];
    case "marks": return [...bandDatasets(curve), {...plain, pointRadius: curve.points.length <= 80 ? 3 : 0}];
    case "area": return [{...plain, borderWidth: 1, fill: true, backgroundColor: curve.colour + "b0"}];
    default: return [...bandDatasets(curve), plain];
  }
}

function bandDatasets(curve) {
  if (!curve.low) return [];
  const edge = {label: `${curve.label} range`, borderWidth: 0, pointRadius: 0};
  return [{...edge, data: curve.low}, {...edge, data: curve.high, fill: "-1", backgroundColor: curve.colour + "33"}];
}

/** The x axis from 0 to the end of the longest run or its last event, the same in all figures. */
function xEnd() {
  const {scale} = axisUnit();
  const ends = view.runs.flatMap((run) => [run.steps[view.axis].at(-1), run.evals[view.axis].at(-1)]);
  const marks = view.runs.flatMap((run) => eventMarks(run).flatMap((mark) => mark.xs)).filter(Number.isFinite);
  return Math.max(...ends.map((x) => (x ?? 0) / scale), ...marks, 1e-9);
}

/** The values that stand `share` from the low and the high end. */
function between(values, share) {
  const sorted = Float64Array.from(values).sort();
  const at = (part) => sorted[Math.round(part * (sorted.length - 1))];
  return [at(share), at(1 - share)];
}

/**
 * The range of y. It holds lines, marks and levels whole, and of what jumps about (raw values; lines of a figure
 * that is `robust`) all but the outermost hundredth, or that too as far as it stays within a quarter of the height.
 */
function yRange(figure, curves, levels, log) {
  const onScale = (y) => log ? Math.log10(y) : y;
  const usable = (y) => Number.isFinite(y) && (!log || y > 0);
  const values = (list) => list.flatMap((curve) => [curve.points, curve.low ?? [], curve.high ?? []].flat())
    .map((point) => point.y).filter(usable).map(onScale);
  const stacked = curves.length > 0 && curves.every((curve) => curve.kind === "area");
  const jumps = (curve) => !view.outliers && (curve.kind === "faint" || figure.robust);
  const calm = [...values(curves.filter((curve) => !jumps(curve))), ...levels.map((level) => level.y).filter(usable).map(onScale)];
  const wild = stacked
    ? curves[0].points.map((_, i) => curves.reduce((sum, curve) => sum + curve.points[i].y, 0)).filter(usable)
    : values(curves.filter(jumps));
  let ends = calm.length > 0 && !stacked ? between(calm, 0) : [];
  if (wild.length > 0) {
    const most = between(wild, 0), inner = [...between(wild, view.outliers ? 0 : 0.01), ...ends];
    const low = Math.min(...inner), high = Math.max(...inner);
    const margin = (high - low) / 4;
    ends = [Math.min(low, Math.max(most[0], low - margin)), Math.max(high, Math.min(most[1], high + margin))];
  }
  if (ends.length === 0) return {};
  const room = (figure.zero ? ends[1] : ends[1] - ends[0]) * 0.04 || Math.abs(ends[1]) * 0.1 || 0.1;
  const back = (y) => log ? 10 ** y : y;
  const low = !log && ends[0] >= 0 ? Math.max(0, ends[0] - room) : ends[0] - room;
  return {min: figure.zero ? 0 : back(low), max: back(ends[1] + room)};
}

/** Multiples of 1, 2 or 5 times a power of ten, about `most` of them. */
function roundTicks(min, max, most) {
  const rough = (max - min) / most, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((digit) => digit * size >= rough) * size;
  const ticks = [];
  for (let i = Math.ceil(min / step); i * step <= max; ++i) ticks.push(i * step);
  return ticks;
}

/** Ticks of a logarithmic axis: round numbers, as many as its length asks for. */
function logTicks(min, max) {
  const decades = Math.log10(max / min);
  if (decades <= 0.8) return roundTicks(min, max, 6);
  const digits = decades > 6 ? [1] : decades > 2 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); ++power) {
    ticks.push(...digits.map((digit) => digit * 10 ** power));
  }
  return ticks.filter((tick) => tick >= min && tick <= max);
}

/** The ticks of a figure's y axis. */
function ticksOf(figure, {type, min, max}) {
  if (!(max > min)) return [];
  if (type === "logarithmic") return min > 0 ? logTicks(min, max) : [];
  const unit = figure.bytes ? 1024 ** Math.max(0, Math.floor(Math.log2(max / 4) / 10)) : 1;
  return roundTicks(min / unit, max / unit, 6).map((tick) => tick * unit);
}
