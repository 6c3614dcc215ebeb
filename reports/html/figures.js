// The figures that follow the filters: critical difference, costs, rank distributions and wins.

const WIDE = 20; // models from which on a critical difference takes the whole page
const BEST = 12; // models of the figures that have a row for each

const lookOf = (data, entry) => data.looks[entry.model];

/** The standings of the best models and of the user's own. */
const bestAndOwn = (data, all) => all.filter((entry, i) => i < BEST || OWN.has(data.models[entry.model]));

/** Which of all models a figure shows; "" where it shows all. */
function ofAll(entries, all) {
  if (entries.length === all.length) return "";
  return ` The ${BEST} best${entries.length > BEST ? " and yours" : ""} of ${all.length} models.`;
}

/** Mean ranks on a line; a bar joins models that do not differ significantly (Nemenyi). */
function criticalFigure(data, matrix, entries) {
  const title = "Critical difference";
  const [k, n] = [matrix.models.length, matrix.datasets.length];
  if (k < data.rules.fewest_models || n < data.rules.fewest_datasets) {
    const need = `${data.rules.fewest_models} models and ${data.rules.fewest_datasets} datasets`;
    return figure(title, "", `n/a: needs at least ${need}, has ${k} and ${n}.`);
  }
  const cd = criticalDifference(data, k, n);
  const names = entries.map((entry) => data.models[entry.model]);
  const means = entries.map((entry) => entry.mean);
  const groups = groupsOf(means, cd);
  const [axis, margin, half] = [56, 16, NARROW.matches ? k : Math.ceil(k / 2)];
  const texts = names.map((name, i) => `${fixed(means[i], 2)} ${name}`);
  const wide = k > WIDE && !NARROW.matches ? 1000 : pageWidth();
  // Names are below the line (on a telephone all at the left), in a column each where there is room beside the best and the worst
  // rank, else beside their ranks, so that the line takes the width: [place on it, room beside it].
  const needs = texts.map((text, i) => [(means[i] - 1) / (k - 1), room([text]) + 20]);
  const [left, right] = [needs.slice(0, half), needs.slice(half)];
  const [before, after] = [[[0, margin], ...left], [[1, margin], ...right]];
  const most = ([p, n]) => Math.min(...after.map(([q, m]) => (q > p ? (wide - n - m) / (q - p) : Infinity)));
  const length = Math.max(NARROW.matches ? 90 : 200, Math.min(...before.map(most)));
  const start = Math.max(...before.map(([p, n]) => n - length * p));
  const width = Math.max(...after.map(([q, m]) => start + length * q + m));
  const at = (rank) => start + ((rank - 1) / (k - 1)) * length;
  const edges = [Math.max(...left.map(([, n]) => n)), width - Math.max(...right.map(([, n]) => n))];
  const parts = [line(`M${px(at(1))} ${axis}H${px(at(k))}`, "base")];
  const every = Math.ceil(k / (NARROW.matches ? 8 : 12));
  for (let rank = 1; rank <= k; rank += every) {
    parts.push(line(`M${px(at(rank))} ${axis}v-6`, "base"));
    parts.push(words(at(rank), axis - 11, String(rank), "tick mid"));
  }
  const shown = at(1 + Math.min(cd, k - 1));
  parts.push(line(`M${px(at(1))} 16v8m0 -4H${px(shown)}m0 -4v8`, "cd"));
  parts.push(words(Math.min(shown + 8, width - 48), 14, `CD ${fixed(cd, 2)}`, "tick"));
  const lanes = [];
  groups.forEach(([first, last]) => {
    let lane = lanes.findIndex((end) => end < means[first]);
    if (lane < 0) lane = lanes.push(0) - 1;
    lanes[lane] = means[last];
    const y = axis + 10 + 7 * lane;
    parts.push(line(`M${px(at(means[first]) - 4)} ${y}H${px(at(means[last]) + 4)}`, "clique"));
  });
  const top = axis + 24 + 7 * lanes.length;
  texts.forEach((text, i) => {
    const onLeft = i < half;
    const y = top + 19 * (onLeft ? i : k - 1 - i);
    const own = at(means[i]);
    const edge = onLeft
      ? Math.min(own, Math.max(at(means[0]), edges[0])) - 14
      : Math.max(own, Math.min(at(means[k - 1]), edges[1])) + 14;
    parts.push(line(`M${px(own)} ${axis}V${y}H${px(edge)}`, "leader"));
    parts.push(dot(own, axis, 4, `fill m${lookOf(data, entries[i])[0]}`));
    parts.push(words(edge + (onLeft ? -5 : 5), y + 4, text, onLeft ? "name end" : "name"));
  });
  const joined = groups.map(([i, j]) => names.slice(i, j + 1).join(", ")).join("; ");
  const spoken =
    `Mean ranks: ${names.map((name, i) => `${name} ${fixed(means[i], 2)}`).join("; ")}. ` +
    `Critical difference ${fixed(cd, 2)}. Not significantly different: ${joined || "none"}.`;
  const note =
    `Nemenyi's test at .05 over ${n} datasets; a bar joins models whose mean ranks differ by less ` +
    "than the critical difference (CD), so that they do not differ significantly. The result depends " +
    "on which models are chosen. Friedman's test, which should come first, is under Tests.";
  return figure(title, chart(width, top + 19 * half, spoken, parts), note, k > WIDE);
}

/** Each model's ranks: one dot per dataset, quartiles, median and mean. */
function distributionFigure(data, matrix, all) {
  const entries = bestAndOwn(data, all);
  const [row, top, k] = [24, 10, matrix.models.length];
  const names = entries.map((entry) => data.models[entry.model]);
  const [space, width] = sized(names, NARROW.matches ? 130 : 220);
  const floor = top + row * entries.length;
  const across = scale(1, Math.max(k, 2), space + 22, width - 12);
  across.ticks = all.map((_, i) => i + 1).filter((rank) => (rank - 1) % Math.ceil(k / 10) === 0);
  const parts = below(across, floor, "rank on a dataset, 1 is best", 6);
  entries.forEach((entry, i) => {
    const y = top + row * (i + 0.5);
    const [q1, q3] = [quantile(entry.own, 0.25), quantile(entry.own, 0.75)].map(across.at);
    parts.push(words(space + 8, y + 4, names[i], "name end"));
    const box = { x: px(q1), y: y - 6, width: px(Math.max(1, q3 - q1)), height: 12, rx: 2 };
    parts.push(draw("rect", { class: "box", ...box }));
    const kind = `speck fill m${lookOf(data, entry)[0]}`;
    entry.own.forEach((rank, j) => {
      const said = `${data.datasets[matrix.datasets[j]].name}: ${rank}`;
      parts.push(dot(across.at(rank), y + ((j % 5) - 2) * 1.6, 2.4, kind, said));
    });
    parts.push(line(`M${px(across.at(entry.median))} ${y - 8}v16`, "median"));
    parts.push(line(`M${px(across.at(entry.mean))} ${y - 5}l5 5l-5 5l-5 -5z`, "mean"));
  });
  const spoken = entries.map((entry, i) => {
    const [best, worst] = [Math.min(...entry.own), Math.max(...entry.own)];
    return `${names[i]} ${best} to ${worst}, median ${entry.median}`;
  });
  const note = "One dot per dataset; box: quartiles; line: median; diamond: mean." + ofAll(entries, all);
  const body = chart(width, floor + 40, `Ranks: ${spoken.join("; ")}.`, parts);
  return figure("Rank distributions", body, note);
}

/** Where the label of a point stands: the nearest place that covers the fewest other labels, points and
 * lines, and is nearest to its own point. */
function labelPlace(x, y, width, { placed, points, line, area }) {
  const meets = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  const far = (box, [px, py]) =>
    Math.hypot(Math.max(box[0] - px, 0, px - box[2]), Math.max(box[1] - py, 0, py - box[3]));
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
        100 * points.some((point) => far(box, point) < far(box, [x, y])) +
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
  const [left, floor, top] = [52, 240, 30];
  const width = sized(known.map((entry) => data.models[entry.model]), 200)[1];
  const right = width - 12;
  const costs = known.map((entry) => entry.cpu);
  const across = scale(Math.min(...costs) / 1.3, Math.max(...costs) * 1.3, left, right, 10);
  const up = scale(0, 1, floor, top);
  up.ticks = [0, 0.25, 0.5, 0.75, 1];
  const parts = [
    ...beside(up, left, right, "mean score"),
    ...below(across, floor, "CPU seconds of all trials"),
  ];
  const place = (entry) => [across.at(entry.cpu), up.at(entry.score)];
  const beaten = (a) =>
    known.some((b) => b.cpu <= a.cpu && b.score >= a.score && (b.cpu < a.cpu || b.score > a.score));
  const front = known.filter((entry) => !beaten(entry)).sort((a, b) => a.cpu - b.cpu);
  const steps = front.map(place).map(([x, y], i) => (i ? `H${px(x)}V` : `M${px(x)} `) + px(y));
  parts.push(line(steps.join("") + `H${right}`, "front"));
  const stretches = front.flatMap((entry, i) => {
    const [x, y] = place(entry);
    const next = i + 1 < front.length ? place(front[i + 1])[0] : right;
    const before = i ? place(front[i - 1])[1] : y;
    return [[x, y, next, y], [x, Math.min(y, before), x, Math.max(y, before)]]; // level, then upright
  });
  const around = { placed: [], points: known.map(place), line: stretches, area: [left, 4, right, floor] };
  const mine = (entry) => OWN.has(data.models[entry.model]);
  const first = [...known.filter(mine), ...front.filter((e) => !mine(e))];
  for (const entry of [...first, ...known.filter((e) => !first.includes(e))]) {
    const [x, y] = place(entry);
    const name = data.models[entry.model];
    const kind = `m${lookOf(data, entry)[0]} ${front.includes(entry) ? "fill" : "rim"}`;
    parts.push(dot(x, y, 4.5, kind, `${name}: ${fixed(entry.score, 3)}, ${fixed(entry.cpu, 1)} s`));
    if (known.length > 14 && !front.includes(entry) && !OWN.has(name)) continue;
    const at = labelPlace(x, y, room([name]), around);
    if (at.cost >= 100 && !OWN.has(name)) continue; // over another name: its point has it as title
    around.placed.push(at.box);
    parts.push(words(at.x, at.y, name, at.end ? "name end" : "name"));
  }
  const list = front.map((e) => `${data.models[e.model]} ${fixed(e.score, 3)} at ${fixed(e.cpu, 1)} s`);
  const spoken = `Score against CPU seconds. Not beaten on both: ${list.join("; ")}.`;
  const note =
    "Score: 1 for the best and 0 for the worst ranked model of a dataset, mean over datasets. " +
    "The line joins the models that no other beats on both. Costs are comparable on the same hardware only.";
  return figure(title, chart(width, floor + 42, spoken, parts), note);
}

/** How often the model of the row beats that of the column, in percent of the datasets. */
function winFigure(data, matrix, all) {
  const entries = bestAndOwn(data, all);
  const wins = winsOf(matrix.ranks);
  const at = entries.map((entry) => matrix.models.indexOf(entry.model));
  const n = matrix.datasets.length;
  const head = make("tr", {}, make("th", { scope: "col" }, "model"));
  const body = make("tbody");
  entries.forEach((entry, i) => {
    const name = data.models[entry.model];
    head.append(make("th", { scope: "col", class: "num", title: name }, `(${i + 1})`));
    const row = make("tr", { class: OWN.has(name) ? "own" : null }, make("th", { scope: "row" }, `(${i + 1}) ${name}`));
    entries.forEach((other, j) => {
      const share = wins[at[i]][at[j]] / n;
      const title = `${name} against ${data.models[other.model]}: ${wins[at[i]][at[j]]} of ${n}`;
      const shade = { class: `num w${Math.round(share * 4)}`, title };
      row.append(i === j ? make("td", { class: "num" }, "·") : make("td", shade, fixed(100 * share, 0)));
    });
    body.append(row);
  });
  const table = make("table", { class: "wins" }, make("thead", {}, head), body);
  const about = { class: "scroll", tabindex: 0, role: "region", "aria-label": "Pairwise wins" };
  const note =
    "Percent of the datasets on which the model of the row has the better score, ties counting " +
    "one half; models in the order of their mean rank." +
    ofAll(entries, all);
  return figure("Pairwise wins", make("div", about, table), note, entries.length > 9);
}
