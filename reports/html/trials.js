// The list of a dataset's trials, filtered and sorted.

const TRIALS = DATA.trials;
const same = (name, value) => TRIALS[name].every((v) => v === value);
const FIELDS = [
  ["model", "model", false],
  ["fold", "fold", true],
  ["stage", "stage", false],
  ["index", "index", true],
  ["selected", "chosen", false],
  ["status", "status", false],
  ["val", `validation ${DATA.metric}`, true],
  ["test", `test ${DATA.metric}`, true],
  ["fit_s", "fit s", true],
  ["cpu_s", "CPU s", true],
  ["config", "configuration", false],
  ["seed", "seed", true],
].filter(([name]) => !(name === "stage" && same(name, "tune")) && !(name === "status" && same(name, "done")));

/** The configuration as name and value pairs; as it stands where it is no JSON object. */
function configuration(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    return text;
  }
  if (found === null || typeof found !== "object") return text;
  const pairs = Object.entries(found).map(([name, value]) =>
    make("span", { class: "pair", title: exactly(value) }, make("i", {}, name), " " + shortly(value)),
  );
  return make("span", { class: "config" }, ...(pairs.length ? pairs : ["(defaults)"]));
}

const exactly = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function shortly(value) {
  if (typeof value === "number") return String(Number(value.toPrecision(4)));
  return typeof value === "string" ? value : JSON.stringify(value);
}

function cellOf(name, i) {
  const value = TRIALS[name][i];
  if (name === "config") return configuration(value);
  if (name === "selected") return value ? "✓" : "";
  if (name !== "status") return value === null ? "–" : String(value);
  const cause = TRIALS.cause[i] ? ` (${TRIALS.cause[i]})` : "";
  const message = TRIALS.message[i];
  const said = message ? make("small", { class: "message" }, message) : null;
  return make("span", { class: value === "done" ? "" : "bad" }, value + cause, said ? " " : "", said ?? "");
}

function rowOf(i) {
  const row = make("tr", { class: TRIALS.selected[i] ? "chosen" : "" });
  FIELDS.forEach(([name, , numeric], at) => {
    const kind = at ? "td" : "th";
    row.append(make(kind, { class: numeric ? "num" : "", scope: at ? null : "row" }, cellOf(name, i)));
  });
  return row;
}

const ROWS = TRIALS.model.map((_, i) => rowOf(i));
const FILTERS = ["model", "fold", "stage", "status"];

function showTrials() {
  const wanted = Object.fromEntries(FILTERS.map((name) => [name, byId(`by-${name}`)?.value ?? ""]));
  const text = byId("search").value.trim().toLowerCase();
  let n = 0;
  ROWS.forEach((row, i) => {
    const fits = FILTERS.every((f) => !wanted[f] || String(TRIALS[f][i]) === wanted[f]);
    row.hidden = !fits || !row.textContent.toLowerCase().includes(text);
    n += !row.hidden;
  });
  byId("status").textContent = `${n} of ${plural(ROWS.length, "trial")} shown.`;
  const state = Object.fromEntries(FILTERS.map((f) => [f, [wanted[f]].filter(Boolean)]));
  writeState({ ...state, search: [text].filter(Boolean) });
  if (text || FILTERS.some((f) => wanted[f])) byId("list").open = true;
}

function restoreTrials() {
  const state = readState();
  for (const name of FILTERS) {
    const list = byId(`by-${name}`);
    const value = state[name]?.[0] ?? "";
    if (list) list.value = [...list.options].some((o) => o.value === value) ? value : "";
  }
  byId("search").value = state.search?.[0] ?? "";
  showTrials();
}

const table = byId("rows");
const heads = FIELDS.map(([, title, numeric]) =>
  make("th", { scope: "col", class: numeric ? "num" : "" }, title),
);
table.tHead.append(make("tr", {}, ...heads));
table.tBodies[0].append(...ROWS);
makeSortable(table);
for (const name of FILTERS) {
  const values = [...new Set(TRIALS[name].map(String))];
  if (values.length < 2) continue;
  const label = name[0].toUpperCase() + name.slice(1);
  const options = [["", "all"], ...values.map((v) => [v, v])];
  byId("simple").append(select(label, `by-${name}`, options, showTrials));
}
const search = make("input", { type: "search", id: "search", oninput: showTrials });
byId("simple").append(
  make("div", { class: "control" }, make("label", { for: "search" }, "Search"), search),
);
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").hidden = false;
restoreTrials();
for (const link of document.querySelectorAll("a.trials"))
  link.addEventListener("click", (event) => {
    event.preventDefault();
    for (const name of FILTERS) if (byId(`by-${name}`)) byId(`by-${name}`).value = "";
    byId("search").value = "";
    if (byId("by-model")) byId("by-model").value = link.dataset.model;
    showTrials();
    unfold(byId("trials"));
    byId("trials").scrollIntoView();
    byId("trials").focus({ preventScroll: true });
  });
addEventListener("hashchange", () => location.hash.includes("=") && restoreTrials());
