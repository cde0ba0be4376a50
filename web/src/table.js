// The ranking: sorted by any column, searched, filtered by class, in pages.

import { coloured } from "./card.js";
import { el, withVariables } from "./dom.js";
import { count, number, score } from "./format.js";
import { nodeButton } from "./panel.js";

const PAGE = 25;

function influenceCell(page) {
  const { node, ranked, range, isExact } = page.data;
  const most = Math.max(...ranked.slice(0, 1).map((position) => node.influence[position]), 1e-12);
  return (position) => {
    const share = Math.max(0, node.influence[position] / most);
    const off = range(position);
    return [
      withVariables(el("span", { class: "amount", "aria-hidden": "true" }), { "--share": `${100 * Math.min(share, 1)}%` }),
      isExact(position)
        ? score(node.influence[position])
        : el(
            "span",
            { title: off ? `estimated: between about ${score(off[0])} and ${score(off[1])}` : "estimated" },
            "≈\u202f",
            score(node.influence[position]),
            node.error?.[position] ? el("span", { class: "muted" }, ` ±\u202f${score(node.error[position])}`) : null,
          ),
    ];
  };
}

function columns(page) {
  const { node, className, nameOf, isPlaced } = page.data;
  const by = (values) => (position) => values[position];
  const chip = (index) => coloured(el("span", { class: "chip" }, className(index)), index, page);
  const wrong = (position) => node.predicted && node.label && node.label[position] >= 0 && node.label[position] !== node.predicted[position];
  const rank = (position) => (isPlaced(position) ? number(node.rank[position]) : ["≈\u202f", number(node.rank[position])]);
  return [
    { key: "rank", title: "Rank", value: by(node.rank), number: true, cell: rank },
    { key: "name", title: "Node", value: nameOf, cell: (p) => nodeButton(p, page, "table") },
    { key: "influence", title: page.report.yardstick ?? "Influence", value: by(node.influence), number: true, down: true, cell: influenceCell(page) },
    { key: "degree", title: "Degree", value: by(node.degree), number: true, down: true, cell: (p) => number(node.degree[p]) },
    { key: "pagerank", title: "PageRank", value: by(node.pagerank), number: true, down: true, wide: true, cell: (p) => score(node.pagerank[p]) },
    node.fragile && {
      key: "fragile",
      title: "Fragile",
      value: by(node.fragile),
      number: true,
      down: true,
      wide: true,
      cell: (p) => (node.fragile[p] > 0 ? el("span", { title: `${count(node.fragile[p], "single removal")} would flip its prediction` }, number(node.fragile[p])) : el("span", { class: "muted" }, node.fragile[p] < 0 ? "–" : "0")),
    },
    node.predicted && { key: "predicted", title: "Predicted", value: (p) => className(node.predicted[p]), wide: true, cell: (p) => chip(node.predicted[p]) },
    node.label && {
      key: "label",
      title: "Label",
      value: (p) => (node.label[p] >= 0 ? className(node.label[p]) : ""),
      wide: true,
      cell: (p) =>
        node.label[p] < 0 ? el("span", { class: "muted" }, "–") : [className(node.label[p]), wrong(p) ? el("span", { class: "muted" }, " (differs)") : null],
    },
  ].filter((column) => column && !(page.report.yardstick && column.key === page.report.method));
}

// Which nodes: of all classes, or of one.
function classFilter({ report, data }, onChange) {
  if (!report.coloured_by) return null;
  const counts = new Map();
  for (const position of data.ranked) counts.set(data.classOf(position), (counts.get(data.classOf(position)) ?? 0) + 1);
  const known = [...counts.keys()].filter((index) => index >= 0).sort((a, b) => counts.get(b) - counts.get(a));
  if (known.length < 2) return null;
  const what = report.coloured_by === "predicted" ? "predicted" : "labelled";
  return el(
    "select",
    { id: "table-class", "aria-label": "Class", onchange: onChange },
    el("option", { value: "" }, "All classes"),
    known.map((index) => el("option", { value: index }, `${what} ${data.className(index)} (${number(counts.get(index))})`)),
  );
}

export function table(place, page) {
  const { report, data, selection } = page;
  const { node, ranked, matches, positionOf, classOf } = data;
  const shown = columns(page);
  let sorted = shown[0];
  let down = false;
  let at = 0;
  let rows = ranked;

  const search = el("input", { id: "table-search", type: "search", autocomplete: "off", spellcheck: "false", placeholder: `${data.named ? "Name" : "Number"}${report.coloured_by ? " or class" : ""}` });
  const again = () => {
    at = 0;
    work();
  };
  const filter = classFilter(page, again);
  const status = el("p", { class: "status", role: "status" });
  const body = el("tbody");
  const back = el("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const forth = el("button", { type: "button", onclick: () => turn(1) }, "Next");

  const kind = (column) => [column.number ? "number" : "", column.wide ? "wide" : "", column.key].join(" ");
  const heads = shown.map((column) =>
    el(
      "th",
      { scope: "col", class: kind(column) },
      el("button", { type: "button", onclick: () => order(column) }, column.title, el("span", { class: "arrow", "aria-hidden": "true" })),
    ),
  );

  function order(column) {
    down = column === sorted ? !down : Boolean(column.down);
    sorted = column;
    again();
  }

  function turn(by) {
    at += by;
    draw();
  }

  function work() {
    const collator = new Intl.Collator("en", { numeric: true });
    const sign = down ? -1 : 1;
    const wanted = filter?.value ? Number(filter.value) : null;
    rows = ranked.filter((position) => (wanted === null || classOf(position) === wanted) && matches(position, search.value));
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

  function line(position) {
    const cells = shown.map((column) => {
      const tag = column.key === "name" ? "th" : "td";
      return el(tag, { scope: tag === "th" ? "row" : null, class: kind(column) }, column.cell(position));
    });
    return el("tr", { "data-node": node.id[position], class: selection.state.removed.includes(position) ? "selected" : null }, cells);
  }

  function draw() {
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    at = Math.min(Math.max(at, 0), pages - 1);
    const part = rows.slice(at * PAGE, (at + 1) * PAGE);
    body.replaceChildren(...part.map(line));
    const from = at * PAGE;
    status.textContent = rows.length ? `${number(from + 1)} to ${number(from + part.length)} of ${count(rows.length, "node")}` : "No node matches.";
    back.disabled = at === 0;
    forth.disabled = at >= pages - 1;
  }

  search.addEventListener("input", again);
  // The whole row is a target for the mouse; the name in it is the button that keyboards reach.
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (!row || event.target.closest("button") || !getSelection().isCollapsed) return;
    selection.select(positionOf(Number(row.dataset.node)), "table");
  });
  selection.onChange(draw);
  work();
  const left = report.scored - ranked.length;
  const estimated = report.estimate ? `≈ marks estimates${node.error ? ", ± their standard errors" : ""}: ${report.estimate.text} A node that the estimate underrates by far may be missing among the first.` : "";
  const fragile = node.fragile ? "Fragile: how many single removals of another node would flip this node’s predicted class." : "";
  const sampled = left ? `This page holds ${number(ranked.length)} of the ${number(report.scored)} nodes: the first ${number(report.first)}, those that are drawn or mentioned, and a sample of the others, under the ranks they have among all.` : "";
  place.append(
    el("div", { class: "tools" }, el("label", { for: "table-search" }, "Search the ranking"), search, filter, status),
    sampled || estimated || fragile ? el("p", { class: "muted remark" }, [estimated, sampled, fragile].filter(Boolean).join(" ")) : "",
    el(
      "div",
      { class: "sheet" },
      el(
        "table",
        { class: node.error ? "with-errors" : null },
        el("caption", { class: "hidden" }, "Nodes by influence. Choose a column’s heading to sort by it, a row to see its node’s effect."),
        el("thead", {}, el("tr", {}, heads)),
        body,
      ),
    ),
    el("nav", { class: "pager", "aria-label": "Pages of the ranking" }, back, forth),
  );
}
