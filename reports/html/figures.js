// The figures that follow the filters: critical difference, rank distributions, costs and wins.

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return filled(element, attributes, children);
}

function chart(width, height, spoken, parts) {
  const about = { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img" };
  return draw("svg", { ...about, "aria-label": spoken }, ...parts);
}

function figure(title, body, note, wide = false) {
  const caption = make("figcaption", {}, title);
  const said = make("p", { class: "note" }, note);
  const about = { class: "canvas", tabindex: 0, role: "region", "aria-label": title };
  const canvas = body instanceof SVGElement ? make("div", about, body) : body;
  return make("figure", { class: wide ? "wide" : "" }, caption, canvas, said);
}

const words = (x, y, text, kind = "name") => draw("text", { x, y, class: kind }, text);
const NARROW = matchMedia("(max-width: 40rem)"); // a telephone: drawn in fewer units, so larger
const cut = (name, n) => (name.length > n ? name.slice(0, n - 1) + "…" : name);

/** Mean ranks on a line; a bar joins models that do not differ significantly (Nemenyi). */
function criticalFigure(data, matrix, entries) {
  const title = "Critical difference";
  const [k, n] = [matrix.models.length, matrix.datasets.length];
  if (k < data.rules.fewest_models || n < data.rules.fewest_datasets) {
    const need = `${data.rules.fewest_models} models and ${data.rules.fewest_datasets} datasets`;
    return figure(title, "", `n/a: needs at least ${need}, has ${k} and ${n}.`, true);
  }
  const cd = criticalDifference(data, k, n);
  const names = entries.map((entry) => data.models[entry.model]);
  const means = entries.map((entry) => entry.mean);
  const groups = groupsOf(means, cd);
  const [width, axis, beside, margin] = NARROW.matches ? [460, 56, 150, 16] : [760, 56, 190, 20];
  const [best, worst] = [(means[0] - 1) / (k - 1), (means[k - 1] - 1) / (k - 1)];
  const length = Math.min(
    width - 2 * margin,
    (width - margin - beside) / Math.max(worst, 1 - best),
    (width - 2 * beside) / Math.max(worst - best, 1e-9),
  ); // the names are below the line, beside the best and the worst mean rank
  const start = Math.max(margin, beside - length * best);
  const at = (rank) => start + ((rank - 1) / (k - 1)) * length;
  const parts = [draw("path", { class: "base", d: `M${at(1)} ${axis}H${at(k)}` })];
  const every = Math.ceil(k / (NARROW.matches ? 8 : 12));
  for (let rank = 1; rank <= k; rank += every) {
    parts.push(draw("path", { class: "base", d: `M${at(rank)} ${axis}v-6` }));
    parts.push(words(at(rank), axis - 11, String(rank), "tick mid"));
  }
  const shown = Math.min(cd, k - 1);
  parts.push(draw("path", { class: "cd", d: `M${at(1)} 16v8m0 -4H${at(1 + shown)}m0 -4v8` }));
  parts.push(words(at(1 + shown) + 8, 24, `CD ${fixed(cd, 2)}`, "tick"));
  const lanes = [];
  groups.forEach(([first, last]) => {
    let lane = lanes.findIndex((end) => end < means[first]);
    if (lane < 0) lane = lanes.push(0) - 1;
    lanes[lane] = means[last];
    const y = axis + 10 + 7 * lane;
    const d = `M${at(means[first]) - 4} ${y}H${at(means[last]) + 4}`;
    parts.push(draw("path", { class: "clique", d }));
  });
  const top = axis + 24 + 7 * lanes.length;
  const half = Math.ceil(k / 2);
  names.forEach((name, i) => {
    const onLeft = i < half;
    const y = top + 19 * (onLeft ? i : k - 1 - i);
    const edge = onLeft ? at(means[0]) - 14 : at(means[k - 1]) + 14;
    const text = `${cut(name, NARROW.matches ? 17 : 22)} ${fixed(means[i], 2)}`;
    parts.push(draw("path", { class: "leader", d: `M${at(means[i])} ${axis}V${y}H${edge}` }));
    parts.push(draw("circle", { class: "fill c0", cx: at(means[i]), cy: axis, r: 3 }));
    parts.push(words(edge + (onLeft ? -5 : 5), y + 4, text, onLeft ? "name end" : "name"));
  });
  const joined = groups.map(([i, j]) => names.slice(i, j + 1).join(", ")).join("; ");
  const spoken =
    `Mean ranks: ${names.map((name, i) => `${name} ${fixed(means[i], 2)}`).join("; ")}. ` +
    `Critical difference ${fixed(cd, 2)}. Not significantly different: ${joined || "none"}.`;
  const height = top + 19 * half;
  const note =
    `Nemenyi's test at .05 over ${n} datasets; a bar joins models whose mean ranks differ by less ` +
    "than the critical difference (CD), so that they do not differ significantly. The result depends " +
    "on which models are chosen. Friedman's test, which should come first, is under Tests.";
  return figure(title, chart(width, height, spoken, parts), note, true);
}

/** Each model's ranks: one dot per dataset, quartiles, median and mean. */
function distributionFigure(data, matrix, entries) {
  const [width, left, right, row] = [460, 146, 448, 24];
  const k = matrix.models.length;
  const at = (rank) => left + ((rank - 1) / Math.max(1, k - 1)) * (right - left);
  const floor = 10 + row * entries.length;
  const parts = [];
  const every = Math.ceil(k / 10);
  for (let rank = 1; rank <= k; rank += every) {
    parts.push(draw("path", { class: "grid", d: `M${at(rank)} 6V${floor}` }));
    parts.push(words(at(rank), floor + 16, String(rank), "tick mid"));
  }
  parts.push(words((left + right) / 2, floor + 33, "rank on a dataset, 1 is best", "axis mid"));
  entries.forEach((entry, i) => {
    const y = 10 + row * (i + 0.5);
    const name = data.models[entry.model];
    const [q1, q3] = [quantile(entry.own, 0.25), quantile(entry.own, 0.75)];
    parts.push(words(left - 10, y + 4, cut(name, 20), "name end"));
    const box = { x: at(q1), y: y - 6, width: Math.max(1, at(q3) - at(q1)), height: 12, rx: 2 };
    parts.push(draw("rect", { class: "box", ...box }));
    entry.own.forEach((rank, j) => {
      const place = { cx: at(rank), cy: y + ((j % 5) - 2) * 1.6, r: 2.4 };
      const said = draw("title", {}, `${data.datasets[matrix.datasets[j]].name}: ${rank}`);
      parts.push(draw("circle", { class: "speck", ...place }, said));
    });
    parts.push(draw("path", { class: "median", d: `M${at(entry.median)} ${y - 8}v16` }));
    const m = at(entry.mean);
    parts.push(draw("path", { class: "mean", d: `M${m} ${y - 5}l5 5l-5 5l-5 -5z` }));
  });
  const spoken = entries.map((entry) => {
    const [best, worst] = [Math.min(...entry.own), Math.max(...entry.own)];
    return `${data.models[entry.model]} ${best} to ${worst}, median ${entry.median}`;
  });
  const note = "One dot per dataset; box: quartiles; line: median; diamond: mean.";
  const body = chart(width, floor + 40, `Ranks: ${spoken.join("; ")}.`, parts);
  return figure("Rank distributions", body, note);
}

/** Where the label of a point stands: the nearest place that covers the fewest other labels, points and lines. */
function labelPlace(x, y, width, { placed, points, line, area }) {
  const meets = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  let best = null;
  for (const up of [-8, 16, 4, -20, 28, -32, 40, -44, 52])
    for (const end of [false, true]) {
      const away = up === 4 ? 8 : 4; // beside the point, or above and below it
      const from = end ? x - away - width : x + away;
      const box = [from, y + up - 10, from + width, y + up + 3];
      const outside = box[0] < area[0] || box[2] > area[2] || box[1] < area[1] || box[3] > area[3];
      const cost =
        (outside ? 1000 : 0) +
        100 * placed.filter((other) => meets(box, other)).length +
        40 * points.filter(([px, py]) => meets(box, [px - 5, py - 5, px + 5, py + 5])).length +
        10 * line.filter(([x0, y0, x1, y1]) => meets(box, [x0 - 1, y0 - 1, x1 + 1, y1 + 1])).length +
        Math.abs(up - 4) / 4;
      if (best === null || cost < best.cost) best = { x: end ? x - away : x + away, y: y + up, end, box, cost };
    }
  return best;
}

/** Mean score against CPU seconds; the line joins models that no other beats on both. */
function costFigure(data, matrix, entries) {
  const title = "Score against cost";
  const known = entries.filter((entry) => entry.cpu !== null && entry.cpu > 0);
  if (known.length < 2) return figure(title, "", "n/a: CPU seconds were not recorded.");
  const [width, left, right, floor] = [460, 52, 448, 280];
  const logs = known.map((entry) => Math.log10(entry.cpu));
  const [low, high] = [Math.min(...logs) - 0.1, Math.max(...logs) + 0.1];
  const atX = (cpu) => left + ((Math.log10(cpu) - low) / (high - low)) * (right - left);
  const atY = (score) => floor - score * (floor - 16);
  const parts = [0, 0.25, 0.5, 0.75, 1].flatMap((score) => [
    draw("path", { class: "grid", d: `M${left} ${atY(score)}H${right}` }),
    words(left - 6, atY(score) + 4, String(score), "tick end"),
  ]);
  const marks = high - low > 2.2 ? [1] : [1, 2, 5];
  for (let p = Math.floor(low); p <= high; p++)
    for (const step of marks) {
      const value = step * 10 ** p;
      if (Math.log10(value) < low || Math.log10(value) > high) continue;
      const text = value >= 1 ? value.toLocaleString("en") : String(Number(value.toPrecision(1)));
      parts.push(words(atX(value), floor + 16, text, "tick mid"));
      parts.push(draw("path", { class: "base", d: `M${atX(value)} ${floor}v4` }));
    }
  parts.push(draw("path", { class: "base", d: `M${left} ${floor}H${right}` }));
  parts.push(words((left + right) / 2, floor + 34, "CPU seconds of all trials", "axis mid"));
  const y = (floor + 16) / 2;
  parts.push(
    draw("text", { class: "axis mid", x: 12, y, transform: `rotate(-90 12 ${y})` }, "mean score"),
  );
  const beaten = (a) =>
    known.some((b) => b.cpu <= a.cpu && b.score >= a.score && (b.cpu < a.cpu || b.score > a.score));
  const front = known.filter((entry) => !beaten(entry)).sort((a, b) => a.cpu - b.cpu);
  const steps = front.map((e, i) => (i ? `H${atX(e.cpu)}V` : `M${atX(e.cpu)} `) + atY(e.score));
  parts.push(draw("path", { class: "front", d: steps.join("") + `H${right}` }));
  const points = known.map((entry) => [atX(entry.cpu), atY(entry.score)]);
  const line = front.flatMap((entry, i) => {
    const [x, y] = [atX(entry.cpu), atY(entry.score)];
    const next = i + 1 < front.length ? atX(front[i + 1].cpu) : right;
    const before = i ? atY(front[i - 1].score) : y;
    return [[x, y, next, y], [x, Math.min(y, before), x, Math.max(y, before)]]; // level, then upright
  });
  const placed = [];
  for (const entry of [...front, ...known.filter((e) => !front.includes(e))]) {
    const [x, y] = [atX(entry.cpu), atY(entry.score)];
    const name = data.models[entry.model];
    const kind = front.includes(entry) ? "fill c0" : "rim";
    const said = draw("title", {}, `${name}: ${fixed(entry.score, 3)}, ${fixed(entry.cpu, 1)} s`);
    parts.push(draw("circle", { class: kind, cx: x, cy: y, r: 4.5 }, said));
    if (known.length > 14 && !front.includes(entry)) continue;
    const label = cut(name, 24);
    const at = labelPlace(x, y, 6.7 * label.length, { placed, points, line, area: [left, 4, right, floor] });
    placed.push(at.box);
    parts.push(words(at.x, at.y, label, at.end ? "name end" : "name"));
  }
  const list = front.map((e) => `${data.models[e.model]} ${fixed(e.score, 3)} at ${fixed(e.cpu, 1)} s`);
  const spoken = `Score against CPU seconds. Not beaten on both: ${list.join("; ")}.`;
  const note =
    "Score: 1 for the best and 0 for the worst ranked model of a dataset, mean over datasets. " +
    "The line joins the models that no other beats on both. Costs are comparable on the same hardware only.";
  return figure(title, chart(width, floor + 42, spoken, parts), note);
}

/** How often the model of the row beats that of the column, in percent of the datasets. */
function winFigure(data, matrix, entries) {
  const wins = winsOf(matrix.ranks);
  const at = entries.map((entry) => matrix.models.indexOf(entry.model));
  const n = matrix.datasets.length;
  const head = make("tr", {}, make("th", { scope: "col" }, "model"));
  const body = make("tbody");
  entries.forEach((entry, i) => {
    const name = data.models[entry.model];
    head.append(make("th", { scope: "col", class: "num", title: name }, `(${i + 1})`));
    const row = make("tr", {}, make("th", { scope: "row" }, `(${i + 1}) ${name}`));
    entries.forEach((other, j) => {
      const share = wins[at[i]][at[j]] / n;
      const title = `${name} against ${data.models[other.model]}: ${wins[at[i]][at[j]]} of ${n}`;
      const shade = { class: `num w${Math.round(share * 10)}`, title };
      row.append(i === j ? make("td", { class: "num" }, "·") : make("td", shade, fixed(100 * share, 0)));
    });
    body.append(row);
  });
  const table = make("table", { class: "wins" }, make("thead", {}, head), body);
  const about = { class: "scroll", tabindex: 0, role: "region", "aria-label": "Pairwise wins" };
  const note =
    "Percent of the datasets on which the model of the row has the better score, ties counting " +
    "one half; models in the order of their mean rank.";
  return figure("Pairwise wins", make("div", about, table), note, entries.length > 9);
}
