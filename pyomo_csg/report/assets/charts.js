// Axes, scales and marks: what every chart of the page is made of.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element, of SVG or of HTML, with attributes and children. */
function make(space, name, attributes, children) {
  const node = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...(children || []).filter((child) => child !== null));
  return node;
}
const svg = (name, attributes, ...children) => make(SVG, name, attributes, children);
const html = (name, attributes, ...children) => make(null, name, attributes, children);
const byId = (id) => document.getElementById(id);

/** Show a number with a few digits that count. */
function shown(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return x.toExponential(2).replace("-", "−");
  const text = size >= 1000 ? x.toLocaleString("en", { maximumFractionDigits: 0 }) : String(Number(x.toPrecision(digits)));
  return text.replace("-", "−");
}

/** Map numbers to pixels. */
const scale = ([low, high], [from, to]) => (x) => from + ((x - low) / (high - low || 1)) * (to - from);

/** Return a range that has some room, even where all numbers are the same. */
function roomy(numbers, share = 0.05) {
  const known = numbers.filter((x) => x !== null && Number.isFinite(x));
  if (!known.length) return [0, 1];
  const low = known.reduce((a, b) => Math.min(a, b));
  const high = known.reduce((a, b) => Math.max(a, b));
  const room = (high - low) * share || Math.abs(high) * share || 1;
  return [low - room, high + room];
}

/** Return round numbers within a range, about as many as asked for. */
function ticks([low, high], count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

/** Draw a chart as wide as its place, and again when that changes. */
function draw(place, label, height, paint) {
  const paintNow = () => {
    const width = Math.max(240, place.clientWidth);
    const tall = typeof height === "function" ? height(width) : height;
    const canvas = svg("svg", { role: "img", "aria-label": label, viewBox: `0 0 ${width} ${tall}`, height: tall });
    paint(canvas, width, tall);
    place.replaceChildren(canvas);
  };
  paintNow();
  let before = place.clientWidth;
  const watcher = new ResizeObserver(() => {
    if (!place.isConnected) return watcher.disconnect();
    if (place.clientWidth !== before) { before = place.clientWidth; paintNow(); }
  });
  watcher.observe(place);
  return () => watcher.disconnect();
}

/** Draw axes with a grid, and return the two scales. */
function axes(canvas, width, height, xRange, yRange, xLabel, yLabel, xNames) {
  const yTicks = ticks(yRange, Math.max(2, height / 45));
  const left = 14 + 7 * Math.max(...yTicks.map((t) => shown(t).length));
  const [right, top, bottom] = [10, yLabel ? 22 : 8, xLabel ? 40 : 22];
  const X = scale(xRange, [left, width - right]);
  const Y = scale(yRange, [height - bottom, top]);
  for (const t of yTicks) {
    canvas.append(
      svg("line", { class: "grid", x1: left, x2: width - right, y1: Y(t), y2: Y(t) }),
      svg("text", { x: left - 6, y: Y(t) + 4, "text-anchor": "end" }, shown(t)),
    );
  }
  xAxis(canvas, X, xRange, height - bottom, width - left, xNames);
  if (xLabel) canvas.append(svg("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, xLabel));
  if (yLabel) canvas.append(svg("text", { x: 0, y: 11 }, yLabel));
  return [X, Y];
}

/** Draw a horizontal axis. */
function xAxis(canvas, X, range, y, room, names) {
  canvas.append(svg("line", { class: "axis", x1: X(range[0]), x2: X(range[1]), y1: y, y2: y }));
  for (const t of ticks(range, Math.max(2, room / (names ? 40 : 80))).filter((x) => !names || x in names)) {
    canvas.append(
      svg("line", { class: "axis", x1: X(t), x2: X(t), y1: y, y2: y + 4 }),
      svg("text", { x: X(t), y: y + 16, "text-anchor": "middle" }, names ? names[t] : shown(t)),
    );
  }
}

/** Return the path through points whose numbers are known. */
function path(xs, ys, X, Y) {
  return xs.map((x, i) => (ys[i] === null ? "" : `${i && ys[i - 1] !== null ? "L" : "M"}${X(x).toFixed(1)},${Y(ys[i]).toFixed(1)}`)).join("");
}

/** Return a point that tells its numbers when one rests on it. */
function dot(attributes, tip) {
  return svg("circle", attributes, svg("title", {}, tip));
}

/** Make a table of rows of texts, without columns that are empty; the first row is its head. */
function table(all, chosen) {
  const used = all[0].map((_, j) => all.slice(1).some((row) => row[j] !== ""));
  const [head, ...rows] = all.map((row) => row.filter((_, j) => used[j]));
  return html("table", {},
    html("thead", {}, html("tr", {}, ...head.map((cell) => html("th", { scope: "col" }, cell)))),
    html("tbody", {}, ...rows.map((row) => html("tr", row[0] === chosen ? { class: "chosen" } : {}, ...row.map((cell) => html("td", {}, cell))))),
  );
}

/** Fill a list of terms and what they are. */
function terms(place, pairs) {
  place.replaceChildren(...pairs.flatMap(([term, value]) => [html("dt", {}, term), html("dd", {}, String(value))]));
}
