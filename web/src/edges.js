// The most influential edges: a list to choose from; the one that is chosen is drawn in the graph.

import { el, withVariables } from "./dom.js";
import { count, number, score } from "./format.js";
import { edgeName } from "./panel.js";

const FIRST = 10;

// As objects, the most influential first.
function listed({ source, target, influence, flips }) {
  return source.map((from, at) => ({ source: from, target: target[at], influence: influence[at], flips: flips[at], rank: at + 1 }));
}

// Which edges were removed to find these, in words.
function remark({ scored, of, directed }) {
  const what = `the edge is removed${directed ? "" : ", both ways,"} and its two nodes stay`;
  const which =
    scored < of
      ? `Of ${count(of, "edge")} the ${number(scored)} at the most influential nodes were removed, one at a time: an edge elsewhere may be missing here.`
      : `Each of ${count(of, "edge")} was removed, one at a time.`;
  return `${which} Influence: the changes of all predictions, added up, when ${what}. Flips: how many predictions flip.`;
}

export function edges(place, page) {
  const { report, selection } = page;
  const all = listed(report.edges);
  const most = Math.max(...all.map((edge) => edge.influence), 1e-12);
  const body = el("tbody");
  const more = el("button", { type: "button", class: "quiet" });
  let shown = FIRST;

  function line(edge) {
    const chosen = selection.state.edge === edge;
    const name = el("button", { type: "button", class: "node plain", title: edgeName(edge, page), "aria-pressed": String(chosen), onclick: () => selection.selectEdge(edge, "edges") }, edgeName(edge, page));
    const share = withVariables(el("span", { class: "amount", "aria-hidden": "true" }), { "--share": `${(100 * edge.influence) / most}%` });
    return el(
      "tr",
      { "data-edge": edge.rank, class: chosen ? "selected" : null },
      el("td", { class: "number rank wide" }, number(edge.rank)),
      el("th", { scope: "row", class: "name" }, name),
      el("td", { class: "number influence" }, share, score(edge.influence)),
      el("td", { class: "number" }, number(edge.flips)),
    );
  }

  function draw() {
    body.replaceChildren(...all.slice(0, shown).map(line));
    more.hidden = shown >= all.length;
    more.textContent = `Show ${number(all.length - shown)} more`;
  }

  more.addEventListener("click", () => {
    const next = shown;
    shown = all.length;
    draw();
    body.children[next].querySelector("button").focus();
  });
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (!row || event.target.closest("button") || !getSelection().isCollapsed) return;
    selection.selectEdge(all[Number(row.dataset.edge) - 1], "edges");
  });
  selection.onChange(draw);
  draw();
  const heads = [["Rank", "number rank wide"], ["Edge", "name"], ["Influence", "number influence"], ["Flips", "number"]];
  place.append(
    el("p", { class: "muted remark" }, remark(report.edges)),
    el(
      "div",
      { class: "sheet" },
      el(
        "table",
        {},
        el("caption", { class: "hidden" }, "Edges by influence. Choose a row to see its edge in the graph."),
        el("thead", {}, el("tr", {}, heads.map(([title, kind]) => el("th", { scope: "col", class: `${kind} still` }, title)))),
        body,
      ),
    ),
    more,
  );
}
