// Elements and words. What comes from a run goes in as text, never as markup.

const byId = (id) => document.getElementById(id);

/** element("td", {className: "number"}, "3") */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role" || name === "scope") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

const grouped = (value) => known(value) ? value.toLocaleString("en-US") : "none";
const lossText = (value) => known(value) ? value.toFixed(4) : "none";

/** Significant digits with the unit behind them: 41.2k. */
function compact(value, digits = 3) {
  if (!known(value)) return "none";
  const size = Math.abs(value);
  const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [scale, unit] = units.find(([least]) => size >= least * 0.9995) ?? [1, ""];
  return Number((value / scale).toPrecision(digits)) + unit;
}

/** The same for an axis, whose numbers are round, with the digits that tell neighbours apart. */
const tickText = (value) => compact(value, 6);

/** Four significant digits, an exponent where they would need many zeros. */
function short(value) {
  if (!known(value)) return "none";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace(/\.?0*e\+?/, "e");
  return String(Number(value.toPrecision(4)));
}

function durationText(seconds) {
  if (!known(seconds)) return "none";
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
  const rest = `${two((seconds % 3600) / 60)}:${two(seconds % 60)}`;
  return hours > 0 ? `${hours}:${rest}` : rest.replace(/^0/, "");
}

function bytesText(bytes) {
  if (!known(bytes)) return "none";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  return `${Number((bytes / 2 ** (10 * power)).toPrecision(3))} ${units[power]}`;
}

const timeText = (seconds) => known(seconds)
  ? new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "not known";

/** "100 of 1,000" where a list was cut. */
const shareText = (shown, made) => shown < made ? `${grouped(shown)} of ${grouped(made)}` : grouped(made);
