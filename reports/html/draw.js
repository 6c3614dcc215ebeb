// The one engine of the pages' figures: SVG from the numbers that a page holds. A figure's colours
// are classes of the style sheet (m0 to m11, by looks.py), so that they follow light and dark.

const DASHES = [null, "7 3", "2 2", "9 3 2 3", "14 4", "3 6"];
const NARROW = matchMedia("(max-width: 40rem)"); // a telephone: drawn in fewer units, so larger
const SIZE = 12; // pixels of a letter
const LONGEST = 360; // pixels of a name
const THOUSANDS = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
const pen = document.createElement("canvas").getContext("2d");

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return filled(element, attributes, children);
}

function chart(width, height, spoken, parts) {
  const about = { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img" };
  return draw("svg", { ...about, "aria-label": spoken }, ...parts);
}

/** A figure with its caption and a note below; `wide`: over both columns. */
function figure(title, body, note, wide = false) {
  const about = { class: "canvas", tabindex: 0, role: "region", "aria-label": title };
  const canvas = body instanceof SVGElement ? make("div", about, body) : body;
  const said = make("p", { class: "note" }, note);
  return make("figure", { class: wide ? "wide" : null }, make("figcaption", {}, title), canvas, said);
}

const pageWidth = () => (NARROW.matches ? 380 : 500);
const line = (d, kind, more = {}) => draw("path", { class: kind, d, ...more });
const dashed = (d, [colour, dash]) => line(d, `line m${colour}`, { "stroke-dasharray": DASHES[dash] });
const dot = (cx, cy, r, kind, said = null) =>
  draw("circle", { class: kind, cx: px(cx), cy: px(cy), r }, said && draw("title", {}, said));
const px = (value) => String(Math.round(value * 10) / 10);

/** Whether a figure's text is the name of an own model, or ends in it after a number. */
const isOwn = (text) => OWN.has(text) || OWN.has(text.slice(text.indexOf(" ") + 1));

function widthOf(text) {
  pen.font = `${isOwn(text) ? "bold " : ""}${SIZE}px system-ui, sans-serif`;
  return pen.measureText(text).width;
}

/** The pixels that the longest of the names takes; of one of a line's length it is cut. */
const room = (names) => Math.min(LONGEST, Math.ceil(Math.max(0, ...names.map(widthOf))));

/** [room of the names, width of a figure]: wider than usual where the names need more than `usual`. */
function sized(names, usual) {
  const space = room(names);
  return [space, pageWidth() + Math.max(0, space - usual)];
}

/** A text at a place; one that is too long for its room ends in an ellipsis and has it all as title. */
function words(x, y, text, kind = "") {
  let shown = text;
  for (let n = text.length; n > 1 && widthOf(shown) > LONGEST + 1; ) shown = text.slice(0, --n) + "…";
  const all = shown === text ? null : draw("title", {}, text);
  return draw("text", { x: px(x), y: px(y), class: kind + (isOwn(text) ? " own" : "") }, shown, all);
}

/** A number as a tick has it: four digits, thousands as 125K, an exponent only for very small ones. */
function short(value) {
  const rounded = Number(value.toPrecision(4));
  const size = Math.abs(rounded);
  let text = String(rounded);
  if (size >= 1e4) text = THOUSANDS.format(rounded);
  else if (size && size < 1e-3) text = rounded.toExponential();
  return text.replaceAll("-", "−");
}

// --- scales --------------------------------------------------------------------------------------

/** A scale from values to pixels; `log`: the base of a logarithmic one, else 0. */
function scale(low, high, start, end, log = 0) {
  const of = log ? Math.log : (v) => v;
  const [from, to] = [of(low), of(high)];
  const at = (v) => start + (to > from ? (of(v) - from) / (to - from) : 0.5) * (end - start);
  return { at, start, end, ticks: log ? powers(low, high, log) : roundTicks(low, high) };
}

/** About five round values from low to high. */
function roundTicks(low, high, about = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((s) => s * power).find((s) => s >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) ticks.push(i * step);
  return ticks;
}

/** Powers of the base, where these are too few with values between them; at most about eight. */
function powers(low, high, base) {
  const [first, last] = [low, high].map((v) => Math.log(v) / Math.log(base));
  let found = [];
  for (const steps of base === 10 ? [[1], [1, 3], [1, 2, 5]] : [[1]]) {
    found = [];
    for (let p = Math.floor(first); p <= Math.ceil(last); p++)
      found.push(...steps.map((s) => s * base ** p).filter((v) => v >= low * 0.999 && v <= high * 1.001));
    if (found.length >= 3) break;
  }
  return found.length ? found.filter((_, i) => i % Math.ceil(found.length / 8) === 0) : [low];
}

/** The axis below a figure: its line, ticks and title; `top`: from where lines rise to the ticks. */
function below(across, floor, title, top = null) {
  const parts = [line(`M${px(across.start)} ${floor}H${px(across.end)}`, "base")];
  for (const value of across.ticks) {
    const x = px(across.at(value));
    if (top !== null) parts.push(line(`M${x} ${top}V${floor}`, "grid"));
    parts.push(words(x, floor + 16, short(value), "tick mid"));
  }
  parts.push(words((across.start + across.end) / 2, floor + 33, title, "axis mid"));
  return parts;
}

/** The axis at the left, with a level line for each tick. */
function beside(up, left, right, title) {
  const y = (up.start + up.end) / 2;
  return [
    ...up.ticks.flatMap((value) => [
      line(`M${left} ${px(up.at(value))}H${right}`, "grid"),
      words(left - 6, up.at(value) + 4, short(value), "tick end"),
    ]),
    draw("text", { class: "axis mid", x: 12, y, transform: `rotate(-90 12 ${y})` }, title),
  ];
}

// --- kinds of figures ----------------------------------------------------------------------------

/** Curves {name, look, points, band}, of steps or of straight pieces, the most important first; beside each name a piece of its line. */
function linesFigure({ title, series, x, y, log, straight }) {
  const [left, key, top] = [56, 22, 12];
  const named = series.slice(0, 40);
  const [space, width] = sized(named.map((s) => s.name), NARROW.matches ? 110 : 190);
  const [right, floor] = [width - space - key - 18, Math.max(270, top + 15 * named.length)];
  const bands = series.flatMap((s) => (s.band ?? []).flatMap(([a, b, c]) => [[a, b], [a, c]]));
  const points = [...series.flatMap((s) => s.points), ...bands];
  const range = (i) => points.reduce(([a, b], p) => [Math.min(a, p[i]), Math.max(b, p[i])], [Infinity, -Infinity]);
  const [[x0, x1], [y0, y1]] = [range(0), range(1)];
  const pad = 0.04 * (y1 - y0) || 0.5 * Math.abs(y0) || 0.5;
  const across = scale(x0, x1, left, right, x0 > 0 && x1 > x0 ? log : 0);
  const up = scale(y0 - pad, y1 + pad, floor, top);
  const parts = [...beside(up, left, right, y), ...below(across, floor, x)];
  for (const { look, band } of series.filter((s) => s.band)) {
    const ends = [...band.map(([a, b]) => [a, b]), ...band.map(([a, , c]) => [a, c]).reverse()];
    const outline = ends.map(([a, b]) => `${px(across.at(a))} ${px(up.at(b))}`).join("L");
    parts.push(line(`M${outline}Z`, `band fill m${look[0]}`));
  }
  for (const { name, look, points: own } of [...series].reverse()) {
    const to = straight ? ["L", " "] : ["H", "V"];
    const steps = own.slice(1).map(([a, b]) => `${to[0]}${px(across.at(a))}${to[1]}${px(up.at(b))}`);
    const curve = dashed(`M${px(across.at(own[0][0]))} ${px(up.at(own[0][1]))}${steps.join("")}`, look);
    if (OWN.has(name)) curve.classList.add("own");
    curve.append(draw("title", {}, name));
    parts.push(curve);
  }
  const ends = named.map((s) => s.points.at(-1));
  const tops = apart(ends.map((end) => up.at(end[1])), top, floor);
  named.forEach(({ name, look }, i) => {
    parts.push(dot(across.at(ends[i][0]), up.at(ends[i][1]), 3, `fill m${look[0]}`));
    parts.push(dashed(`M${right + 8} ${px(tops[i])}h${key}`, look));
    parts.push(words(right + key + 13, tops[i] + 4, name, "name"));
  });
  const more = series.length - named.length;
  const said = named.map((s, i) => `${s.name} ${short(ends[i][1])}`).join("; ");
  const spoken = `${title}. At the end: ${said}${more > 0 ? `; and ${more} more.` : "."}`;
  return chart(width, floor + 40, spoken, parts);
}

/** The heights, moved so that labels are at least `gap` apart, in the same order. */
function apart(tops, top, floor, gap = 15) {
  const order = tops.map((_, i) => i).sort((a, b) => tops[a] - tops[b] || a - b);
  const placed = [...tops];
  order.forEach((i, rank) => {
    placed[i] = Math.max(tops[i], rank ? placed[order[rank - 1]] + gap : top);
  });
  [...order].reverse().forEach((i, after) => {
    placed[i] = Math.min(placed[i], floor + 6 - gap * after);
  });
  return placed;
}

/** A row for each {name, value, spread, look}: a dot with a whisker, or a bar from 0 to 1. */
function rowsFigure({ title, rows, x, bars }) {
  const [row, top] = [22, 12];
  const [space, width] = sized(rows.map((r) => r.name), NARROW.matches ? 130 : 220);
  const floor = top + row * rows.length;
  const ends = bars ? [0, 1] : rows.flatMap((r) => [r.value - r.spread, r.value + r.spread]);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const pad = bars ? 0 : 0.05 * (high - low) || 0.5 * Math.abs(low) || 0.5;
  const across = scale(low - pad, high + pad, space + 12, width - (bars ? 44 : 12));
  const parts = below(across, floor, x, top);
  rows.forEach(({ name, value, spread, look }, i) => {
    const y = top + row * (i + 0.5);
    const kind = look ? `m${look[0]}` : "plain";
    parts.push(words(space, y + 4, name, "name end"));
    if (bars) {
      const size = { x: across.start, y: px(y - 7), width: px(across.at(Math.max(0, value)) - across.start) };
      parts.push(draw("rect", { class: `fill ${kind}`, ...size, height: 14, rx: 2 }));
      parts.push(words(across.at(value) + 6, y + 4, value.toFixed(2), "tick"));
      return;
    }
    const [from, to] = [value - spread, value + spread].map((v) => px(across.at(v)));
    if (spread) parts.push(line(`M${from} ${px(y)}H${to}`, `line ${kind}`));
    parts.push(dot(across.at(value), y, 4, `fill ${kind}`));
  });
  const said = rows.map((r) => `${r.name} ${bars ? r.value.toFixed(2) : short(r.value)}`);
  return chart(width, floor + 40, `${title}. ${said.join("; ")}.`, parts);
}

/** Dots [x, y] on two axes of one scale, and the diagonal. */
function pointsFigure({ title, points, look, x, y }) {
  const [width, left, top, floor] = [pageWidth(), 56, 12, 330];
  const all = points.flat();
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const across = scale(low, high, left, width - 12);
  const up = scale(low, high, floor, top);
  const parts = [...beside(up, left, width - 12, y), ...below(across, floor, x)];
  parts.push(line(`M${left} ${floor}L${width - 12} ${top}`, "front"));
  for (const [a, b] of points) parts.push(dot(across.at(a), up.at(b), 3, `speck fill m${look[0]}`));
  return chart(width, floor + 40, `${title}: ${plural(points.length, "row")}.`, parts);
}

// --- the figures that a page holds ---------------------------------------------------------------

const FIGURES = { lines: linesFigure, rows: rowsFigure, points: pointsFigure };

function drawAll() {
  for (const place of document.querySelectorAll("[data-figure]")) {
    const about = JSON.parse(place.dataset.figure);
    place.replaceChildren(FIGURES[about.kind](about));
  }
}

drawAll();
NARROW.addEventListener("change", drawAll);
