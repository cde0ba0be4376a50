// The ranking: sorted by any column, searched, in pages.

import { el, withVariables } from "./dom.js";
import { classColour, className, classOf, matches, named, nameOf, node, positionOf, ranked, report } from "./data.js";
import { count, number, score } from "./format.js";
import { onSelect, select, selected } from "./selection.js";

const PAGE = 25;
const most = Math.max(...ranked.slice(0, 1).map((position) => node.influence[position]), 1e-12);

function chip(index) {
  return withVariables(el("span", { class: "chip" }, className(index)), { "--own": `var(${classColour(index)})` });
}

function influenceCell(position) {
  const share = Math.max(0, node.influence[position] / most);
  return [
    withVariables(el("span", { class: "amount", "aria-hidden": "true" }), { "--share": `${100 * share}%` }),
    score(node.influence[position]),
  ];
}

function columns() {
  const by = (values) => (position) => values[position];
  const own = classOf;
  const wrong = (position) => node.predicted && node.label && node.label[position] >= 0 && node.label[position] !== node.predicted[position];
  return [
    { key: "rank", title: "Rank", value: by(node.rank), number: true, cell: (p) => number(node.rank[p]) },
    {
      key: "name",
      title: "Node",
      value: nameOf,
      cell: (p) =>
        withVariables(
          el("button", { type: "button", class: "node", title: nameOf(p), onclick: () => select(p, "table") }, nameOf(p)),
          { "--own": `var(${classColour(own(p))})` },
        ),
    },
    { key: "influence", title: "Influence", value: by(node.influence), number: true, down: true, cell: influenceCell },
    { key: "degree", title: "Degree", value: by(node.degree), number: true, down: true, cell: (p) => number(node.degree[p]) },
    { key: "pagerank", title: "PageRank", value: by(node.pagerank), number: true, down: true, wide: true, cell: (p) => score(node.pagerank[p]) },
    node.predicted && { key: "predicted", title: "Predicted", value: (p) => className(node.predicted[p]), wide: true, cell: (p) => chip(node.predicted[p]) },
    node.label && {
      key: "label",
      title: "Label",
      value: (p) => (node.label[p] >= 0 ? className(node.label[p]) : ""),
      wide: true,
      cell: (p) =>
        node.label[p] < 0 ? el("span", { class: "muted" }, "–") : [className(node.label[p]), wrong(p) ? el("span", { class: "muted" }, " (differs)") : null],
    },
  ].filter(Boolean);
}

export function table(place) {
  const shown = columns();
  let sorted = shown[0];
  let down = false;
  let page = 0;
  let rows = ranked;

  const search = el("input", { id: "table-search", type: "search", autocomplete: "off", spellcheck: "false", placeholder: `${named ? "Name" : "Number"}${report.coloured_by ? " or class" : ""}` });
  const status = el("p", { class: "status", role: "status" });
  const body = el("tbody");
  const back = el("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const forth = el("button", { type: "button", onclick: () => turn(1) }, "Next");

  const heads = shown.map((column) =>
    el(
      "th",
      { scope: "col", class: [column.number ? "number" : "", column.wide ? "wide" : "", column.key].join(" ") },
      el("button", { type: "button", onclick: () => order(column) }, column.title, el("span", { class: "arrow", "aria-hidden": "true" })),
    ),
  );

  function order(column) {
    down = column === sorted ? !down : Boolean(column.down);
    sorted = column;
    page = 0;
    work();
  }

  function turn(by) {
    page += by;
    draw();
  }

  function work() {
    const collator = new Intl.Collator("en", { numeric: true });
    const sign = down ? -1 : 1;
    rows = ranked.filter((position) => matches(position, search.value));
    if (sorted.key !== "rank" || down) {
      const compare = sorted.number ? (a, b) => a - b : collator.compare;
      const keys = new Map(rows.map((position) => [position, sorted.value(position)]));
      rows.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || node.rank[a] - node.rank[b]);
    }
    heads.forEach((head, index) => {
      const own = shown[index] === sorted;
      head.setAttribute("aria-sort", own ? (down ? "descending" : "ascending") : "none");
    });
    draw();
  }

  function draw() {
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    const part = rows.slice(page * PAGE, (page + 1) * PAGE);
    body.replaceChildren(
      ...part.map((position) =>
        el(
          "tr",
          { "data-node": node.id[position], class: position === selected() ? "selected" : null },
          shown.map((column) => {
            const tag = column.key === "name" ? "th" : "td";
            return el(
              tag,
              { scope: tag === "th" ? "row" : null, class: [column.number ? "number" : "", column.wide ? "wide" : "", column.key].join(" ") },
              column.cell(position),
            );
          }),
        ),
      ),
    );
    const from = page * PAGE;
    const left = report.scored - ranked.length;
    status.textContent = rows.length
      ? `${number(from + 1)} to ${number(from + part.length)} of ${count(rows.length, "node")}` +
        (left && rows.length === ranked.length ? `; ${number(left)} less influential ones are left out` : "")
      : "No node matches.";
    back.disabled = page === 0;
    forth.disabled = page >= pages - 1;
  }

  search.addEventListener("input", () => {
    page = 0;
    work();
  });
  // The whole row is a target for the mouse; the name in it is the button that keyboards reach.
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (!row || event.target.closest("button") || !getSelection().isCollapsed) return;
    select(positionOf(Number(row.dataset.node)), "table");
  });
  onSelect(draw);
  work();
  place.append(
    el("div", { class: "tools" }, el("label", { for: "table-search" }, "Search the ranking"), search, status),
    el(
      "div",
      { class: "sheet" },
      el(
        "table",
        {},
        el("caption", { class: "hidden" }, "Nodes by influence. Choose a column’s heading to sort by it, a row to see its node’s effect."),
        el("thead", {}, el("tr", {}, heads)),
        body,
      ),
    ),
    el("nav", { class: "pager", "aria-label": "Pages of the ranking" }, back, forth),
  );
}
