// The first page: filters for tasks, sizes, models and datasets, and the leaderboard.

const SIZES = [
  ["small", "under 1,000 rows", 0, 1000],
  ["medium", "1,000 to 10,000 rows", 1000, 10000],
  ["large", "10,000 rows and more", 10000, Infinity],
];
const COLUMNS = ["model", "mean", "win", "elo", "score", "best", "fit", "predict", "cpu"];
let order = ["mean", false]; // column and whether descending

/** The boxes of a list that are not ticked, by value. */
const unticked = (name) =>
  [...document.querySelectorAll(`input[name=${name}]`)].filter((b) => !b.checked).map((b) => b.value);
const chosen = (id) => byId(id)?.value ?? "";

/** The indices of the chosen models and datasets. */
function readChoice() {
  const without = { tasks: unticked("task"), models: unticked("model"), datasets: unticked("dataset") };
  const size = SIZES.find(([key]) => key === chosen("size"));
  const onlySubset = chosen("subset") === "independent";
  const fits = (d) =>
    !without.tasks.includes(d.task) &&
    !without.datasets.includes(d.name) &&
    (!size || (d.rows !== null && d.rows >= size[2] && d.rows < size[3])) &&
    (!onlySubset || d.subset);
  const indices = (list, keep) => list.flatMap((item, i) => (keep(item) ? [i] : []));
  return {
    datasets: indices(DATA.datasets, fits),
    models: indices(DATA.models, (name) => !without.models.includes(name)),
  };
}

function showBoard(matrix, entries) {
  const rows = entries.map((entry) => {
    const error = entry.se === null ? null : make("small", {}, ` ± ${fixed(entry.se, 2)}`);
    const texts = {
      mean: fixed(entry.mean, 2),
      win: `${fixed(100 * entry.win, 1)} %`,
      elo: fixed(entry.elo, 0),
      score: fixed(entry.score, 3),
      best: String(entry.best),
      fit: seconds(entry.fit),
      predict: seconds(entry.predict),
      cpu: seconds(entry.cpu),
    };
    const [name, page] = [DATA.models[entry.model], DATA.pages[entry.model]];
    const row = make(
      "tr",
      { class: OWN.has(name) ? "own" : null },
      make(
        "th",
        { scope: "row", class: name.length > 32 ? "words" : null },
        make("span", { class: `swatch m${DATA.looks[entry.model][0]}` }),
        make("a", { href: page }, name),
      ),
    );
    for (const key of COLUMNS.slice(1)) {
      const value = entry[key] === null ? "n/a" : entry[key];
      const top = isTop(entries, entry, key);
      const text = top ? make("b", {}, texts[key]) : texts[key];
      const cell = make("td", { class: "num", "data-value": value }, text);
      if (key === "mean" && error) cell.append(error);
      if (key === "elo" && entry.interval) {
        const ends = entry.interval.map((end) => fixed(end, 0)).join(", ");
        cell.append(make("small", {}, ` [${ends}]`));
      }
      row.append(cell);
    }
    return row;
  });
  byId("board").tBodies[0].replaceChildren(...rows);
  COLUMNS.slice(1).forEach((key, i) => {
    const unknown = entries.every((entry) => entry[key] === null);
    for (const row of byId("board").rows) row.cells[i + 1].hidden = unknown;
  });
  sortTable(byId("board"), COLUMNS.indexOf(order[0]), order[1]);
}

/** Whether the entry has the best value of a column that has one. */
function isTop(entries, entry, key) {
  if (["fit", "predict", "cpu"].includes(key)) return false;
  const values = entries.map((other) => other[key]);
  const best = key === "mean" ? Math.min(...values) : Math.max(...values);
  return Math.abs(entry[key] - best) <= 1e-12;
}

function say(matrix, entries) {
  const why = whyNoRanks(matrix);
  const thin = [...new Set(matrix.thin.map(({ n }) => n))].map((n) => {
    const named = matrix.thin.filter((one) => one.n === n).map(({ model }) => DATA.models[model]);
    return `${named.join(", ")} (${named.length > 1 ? "each " : ""}${n} of ${matrix.scope.length})`;
  });
  const dropped = matrix.scope.length - matrix.datasets.length;
  const ranked = `${plural(entries.length, "model")} ranked on ${matrix.datasets.length} of `;
  byId("status").textContent = [
    why || `${ranked}${plural(matrix.scope.length, "dataset")}.`,
    thin.length ? `Not ranked, with a complete score on too few datasets: ${thin.join(", ")}.` : "",
    !why && dropped ? `${plural(dropped, "dataset")} left out, because a ranked model has no score there.` : "",
  ].join(" ").trim();
}

/** Seconds with about two digits, as speed.py writes them. */
function seconds(value) {
  if (value === null) return "n/a";
  if (value >= 10) return Math.round(value).toLocaleString("en");
  if (value >= 1) return fixed(value, 1);
  return value >= 0.0005 ? fixed(value, 3) : "<0.001";
}

/** Adds seconds per 1,000 rows to the standings, and where all is chosen intervals of the Elo. */
function detail(matrix, entries, choice) {
  const all = choice.models.length === DATA.models.length;
  const whole = all && choice.datasets.length === DATA.datasets.length;
  for (const entry of entries) {
    entry.interval = whole && !DATA.elo[entry.model]?.includes(null) ? DATA.elo[entry.model] : null;
    for (const kind of ["fit", "predict"]) {
      const known = matrix.datasets.map((d) => DATA.speed[kind][d][entry.model]);
      const there = known.filter((value) => value !== null);
      entry[kind] = there.length ? quantile(there, 0.5) : null;
    }
  }
}

function update() {
  const choice = readChoice();
  const matrix = rankingMatrix(DATA, choice);
  const entries = standings(DATA, matrix);
  detail(matrix, entries, choice);
  showBoard(matrix, entries);
  say(matrix, entries);
  const drawn = [criticalFigure, costFigure, distributionFigure, winFigure];
  const figures = entries.length ? drawn.map((f) => f(DATA, matrix, entries)) : [];
  const first = figures.filter((one) => one.querySelector("svg, table")); // those that say n/a last
  const beside = first.slice(0, 1).filter((one) => !one.classList.contains("wide"));
  byId("shown").replaceChildren(...beside); // beside the table
  byId("drawn").replaceChildren(...first.slice(beside.length), ...figures.filter((one) => !first.includes(one)));
  byId("drawn").hidden = false;
  document.querySelectorAll("#drawn .scroll").forEach(watchWidth);
  for (const [id, label, name] of [["models", "Models", "model"], ["datasets", "Datasets", "dataset"]]) {
    const all = DATA[id].length;
    byId(`${id}-title`).textContent = `${label}: ${all - unticked(name).length} of ${all}`;
  }
  writeState({
    without: unticked("model"),
    tasks: unticked("task").length ? Object.keys(DATA.tasks).filter((t) => !unticked("task").includes(t)) : [],
    size: [chosen("size")].filter(Boolean),
    subset: [chosen("subset")].filter(Boolean),
    skip: unticked("dataset"),
    sort: order[0] === "mean" && !order[1] ? [] : [(order[1] ? "-" : "") + order[0]],
  });
}

/** Set the controls to the state in the address. */
function restore() {
  const state = readState();
  const set = (id, values = []) => {
    const list = byId(id);
    if (list) list.value = [...list.options].some((o) => o.value === values[0]) ? values[0] : "";
  };
  for (const box of document.querySelectorAll("#filters input")) {
    const out = { model: state.without, dataset: state.skip }[box.name] ?? [];
    box.checked = box.name === "task" && state.tasks ? state.tasks.includes(box.value) : !out.includes(box.value);
  }
  set("size", state.size);
  set("subset", state.subset);
  const wanted = state.sort?.[0] ?? "mean";
  const column = wanted.replace(/^-/, "");
  order = COLUMNS.includes(column) ? [column, wanted.startsWith("-")] : ["mean", false];
  update();
}

function pick(id, name, labels) {
  const boxes = labels.map((label) => checkbox(label, label, update, name));
  const all = (checked) => () => {
    for (const box of byId(id).querySelectorAll("input")) box.checked = checked;
    update();
  };
  const button = (text, checked) => make("button", { type: "button", onclick: all(checked) }, text);
  byId(id).append(make("div", { class: "row" }, button("all", true), button("none", false)), ...boxes);
}

function build() {
  const simple = byId("simple");
  const tasks = Object.entries(DATA.tasks);
  if (tasks.length > 1) {
    const boxes = tasks.map(([task, title]) => checkbox(title, task, update, "task"));
    simple.append(make("fieldset", {}, make("legend", {}, "Tasks"), ...boxes));
  }
  const sizes = SIZES.filter(([, , low, high]) =>
    DATA.datasets.some((d) => d.rows !== null && d.rows >= low && d.rows < high),
  );
  if (sizes.length > 1)
    simple.append(select("Size", "size", [["", "any size"], ...sizes], update));
  if (DATA.datasets.some((d) => !d.subset)) {
    const options = [["", "all"], ["independent", "independent, learnable"]];
    simple.append(select("Subset", "subset", options, update));
  }
  const reset = () => {
    history.replaceState(null, "", location.pathname);
    restore();
  };
  simple.append(make("button", { type: "button", class: "reset", onclick: reset }, "Reset"));
  pick("pick-models", "model", DATA.models);
  pick("pick-datasets", "dataset", DATA.datasets.map((d) => d.name));
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").hidden = false;
  makeSortable(byId("board"), (column, descending) => {
    order = [COLUMNS[column], descending];
    update();
  });
}

build();
restore();
NARROW.addEventListener("change", update);
addEventListener("hashchange", () => location.hash.includes("=") && restore());
