// Common to all pages: sortable tables, filters stored in the address, and unfolding for printing.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const OWN = new Set(DATA.own ?? []); // the user's own models
const byId = (id) => document.getElementById(id);

/** An element with attributes and children; text never becomes markup. */
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** The number with so many decimals, halves rounded to even as in the report's tables. */
function fixed(value, decimals) {
  if (value === null) return "n/a";
  const scaled = value * 10 ** decimals;
  const half = Math.abs(value * 2 ** (decimals + 1)) % 2 === 1;
  const even = half ? 2 * Math.round(scaled / 2) : 0;
  const text = (half ? even / 10 ** decimals : value).toFixed(decimals);
  return text.replace("-", "−");
}

const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

// --- sortable tables -----------------------------------------------------------------------------

/** What a cell sorts by: its data-value, its number, or its text; null for no number. */
function sortValue(cell, numeric) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  if (!numeric) return text;
  const found = text.replaceAll(",", "").replaceAll("−", "-").match(/-?\d*\.?\d+(e-?\d+)?/);
  return found ? Number(found[0]) : null;
}

/** Sort the rows by a column; cells without a number come last in either direction. */
function sortTable(table, column, descending) {
  const heads = [...table.tHead.rows[0].cells];
  const numeric = heads[column].classList.contains("num");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [sortValue(row.cells[column], numeric), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
    return descending ? -order : order;
  });
  body.append(...rows.map(([, row]) => row));
  shorten(table);
  heads.forEach((head, i) => {
    if (i === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

/** Turns headings into buttons; calls `changed(column, descending)` after a new order. */
function makeSortable(table, changed = () => {}) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const click = () => {
      const now = head.getAttribute("aria-sort");
      const upFirst = head.textContent.includes("↑"); // higher is better: the best first
      const descending = now ? now === "ascending" : upFirst;
      sortTable(table, column, descending);
      changed(column, descending);
    };
    const button = make("button", { type: "button", onclick: click }, ...head.childNodes);
    head.replaceChildren(button);
  });
}

// --- long and wide tables ------------------------------------------------------------------------

const SHOWN = 20; // rows of a longer table, and those of the user's own models

/** Hide what stands behind the first rows of a table; a button below says how much, and shows it. */
function shorten(table) {
  const rows = [...table.tBodies[0].rows];
  const hide = rows.filter((row, i) => i >= SHOWN && !row.classList.contains("own"));
  const few = hide.length < 4; // a button is hardly shorter
  const whole = few || table.dataset.whole === "";
  for (const row of rows) row.hidden = !whole && hide.includes(row);
  const place = table.closest(".scroll");
  place.querySelector(":scope > .more")?.remove();
  if (few) return;
  const text = whole ? `The first ${rows.length - hide.length} alone` : `${hide.length} more: show all ${rows.length}`;
  const click = () => {
    whole ? delete table.dataset.whole : (table.dataset.whole = "");
    shorten(table);
  };
  place.append(make("button", { type: "button", class: "more", onclick: click }, text));
}

/** Says below a table how many of its columns lie beyond the edge. */
function sayHidden(place) {
  const heads = [...(place.querySelector("thead tr")?.cells ?? [])].filter((head) => !head.hidden);
  const edge = place.getBoundingClientRect().right;
  const beyond = edge ? heads.filter((head) => head.getBoundingClientRect().right > edge + 8).length : 0;
  let said = place.nextElementSibling;
  if (!said?.classList.contains("beyond")) place.after((said = make("p", { class: "note beyond" })));
  said.textContent = beyond ? `${plural(beyond, "column")} more to the right →` : "";
}

const widths = new ResizeObserver((entries) => entries.forEach((entry) => sayHidden(entry.target)));

function watchWidth(place) {
  widths.observe(place);
  place.addEventListener("scroll", () => sayHidden(place), { passive: true });
}

// --- the address ---------------------------------------------------------------------------------

/** {key: [values]} of the address's fragment; empty if it names a place on the page. */
function readState() {
  const pairs = location.hash.slice(1).split("&").filter((part) => part.includes("="));
  const decode = (text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return "";
    }
  };
  return Object.fromEntries(
    pairs.map((pair) => {
      const [key, value] = [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)];
      return [key, value.split(",").filter(Boolean).map(decode)];
    }),
  );
}

/** Write what differs from the default into the address, without a step in the history. */
function writeState(state) {
  const parts = Object.entries(state)
    .filter(([, values]) => values.length)
    .map(([key, values]) => `${key}=${values.map(encodeURIComponent).join(",")}`);
  const place = location.hash && !location.hash.includes("="); // such as #scores: the browser goes there
  if (!parts.length && place) return;
  history.replaceState(null, "", parts.length ? "#" + parts.join("&") : location.pathname);
}

// --- controls ------------------------------------------------------------------------------------

/** A labelled list of choices [value, text]. */
function select(label, id, options, changed) {
  const choices = options.map(([value, text]) => make("option", { value }, text));
  const list = make("select", { id, onchange: changed }, ...choices);
  return make("div", { class: "control" }, make("label", { for: id }, label), list);
}

function checkbox(label, value, changed, name) {
  const box = make("input", { type: "checkbox", checked: true, value, name, onchange: changed });
  return make("label", { class: "check" }, box, " " + label);
}

// --- all pages -----------------------------------------------------------------------------------

// Links to sections keep the filters in the address.
for (const link of document.querySelectorAll('nav.top a[href^="#"]'))
  link.addEventListener("click", (event) => {
    const target = byId(link.getAttribute("href").slice(1));
    if (!target) return;
    event.preventDefault();
    unfold(target);
    target.scrollIntoView();
    target.focus({ preventScroll: true });
  });

/** Open what stands closed in a section that the reader goes to. */
function unfold(section) {
  const closed = section?.querySelector("details.opens, #list");
  if (closed) closed.open = true;
}
unfold(byId(location.hash.slice(1)));
addEventListener("hashchange", () => unfold(byId(location.hash.slice(1))));

// Commands get a button that copies them. A page from a disk may not be allowed to use the
// clipboard: then the command is selected, to be copied by hand.
for (const code of document.querySelectorAll(".explain code, code.command")) {
  const button = make("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    let copied = false;
    try {
      await navigator.clipboard.writeText(code.textContent);
      copied = true;
    } catch {
      getSelection().selectAllChildren(code);
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 2500);
  });
  code.after(button);
}

for (const table of document.querySelectorAll("table.sortable:not(#board):not(#rows)")) {
  makeSortable(table);
  shorten(table);
}
for (const place of document.querySelectorAll(".scroll")) watchWidth(place);

addEventListener("beforeprint", () => {
  for (const row of document.querySelectorAll("tr[hidden]")) row.hidden = false;
  for (const folded of document.querySelectorAll("details:not(.pick):not(.explain):not([open])")) {
    folded.open = true;
    folded.dataset.printed = "";
  }
});
addEventListener("afterprint", () => {
  for (const folded of document.querySelectorAll("details[data-printed]")) {
    folded.open = false;
    delete folded.dataset.printed;
  }
});
