// From which class to which predictions would flip: a few as bars, many as a table.

import { coloured } from "./card.js";
import { el, withVariables } from "./dom.js";
import { number } from "./format.js";

const BARS = 3;
const ROWS = 7;
const COLUMNS = 4;

const chip = (index, page) => coloured(el("span", { class: "chip" }, page.data.className(index)), index, page);

function bars(moves, page) {
  const most = Math.max(...moves.map((move) => move[2]));
  return el(
    "ul",
    { class: "moves", "aria-label": "From which class to which" },
    moves.map(([from, to, amount]) =>
      el(
        "li",
        {},
        el("span", { class: "way" }, chip(from, page), el("span", { class: "arrow" }, " → "), chip(to, page)),
        coloured(withVariables(el("span", { class: "meter", "aria-hidden": "true" }), { "--share": `${(100 * amount) / most}%` }), to, page),
        el("span", { class: "value" }, number(amount)),
      ),
    ),
  );
}

// The classes that most predictions leave (0) or enter (1), and −1 for all others where there are more.
function busiest(moves, side, most) {
  const counts = new Map();
  for (const move of moves) counts.set(move[side], (counts.get(move[side]) ?? 0) + move[2]);
  const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  return order.length > most ? [...order.slice(0, most - 1), -1] : order;
}

function sheet(moves, page) {
  const [rows, columns] = [busiest(moves, 0, ROWS), busiest(moves, 1, COLUMNS)];
  const sums = new Map();
  const own = (index, known) => (known.includes(index) ? index : -1);
  for (const [from, to, amount] of moves) {
    const cell = `${own(from, rows)} ${own(to, columns)}`;
    sums.set(cell, (sums.get(cell) ?? 0) + amount);
  }
  const most = Math.max(...sums.values());
  const name = (index) => (index < 0 ? "others" : chip(index, page));
  const cell = (from, to) => {
    const amount = sums.get(`${from} ${to}`) ?? 0;
    return withVariables(el("td", { class: "number" }, amount ? number(amount) : el("span", { class: "muted" }, "·")), { "--share": `${(30 * amount) / most}%` });
  };
  return el(
    "div",
    { class: "fromto" },
    el(
      "table",
      {},
      el("caption", {}, "From (rows) to (columns)"),
      el("thead", {}, el("tr", {}, el("td"), columns.map((to) => el("th", { scope: "col" }, name(to))))),
      el("tbody", {}, rows.map((from) => el("tr", {}, el("th", { scope: "row" }, name(from)), columns.map((to) => cell(from, to))))),
    ),
  );
}

export function moves(effect, page) {
  if (!effect.flips || page.report.task !== "node") return null;
  return effect.moves.length <= BARS ? bars(effect.moves, page) : sheet(effect.moves, page);
}
