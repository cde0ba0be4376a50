// What the rows of the rankings show: of nodes, of edges, and of predictions that depend on a single node.

import { coloured } from "../card.js";
import { el, withVariables } from "../dom.js";
import { number, percent, score } from "../format.js";
import { nodeButton } from "../panel.js";

export function nodeColumns(page) {
  const { data, changes } = page;
  const { node, className, nameOf } = data;
  const chip = (index) => coloured(el("span", { class: "chip" }, className(index)), index, page);
  const wrong = (p) => node.predicted && node.label && node.label[p] >= 0 && node.label[p] !== node.predicted[p];
  const most = () => Math.max(data.weight(data.ranked[0]) ?? 0, 1e-12);
  const value = (p) => (node.influence[p] === null ? -1 : data.weight(p));
  return [
    { key: "rank", title: "Rank", value: (p) => node.rank[p] || Infinity, number: true, cell: (p) => (node.rank[p] ? number(node.rank[p]) : "–") },
    { key: "name", title: "Node", value: nameOf, cell: (p) => nodeButton(p, page, "table") },
    {
      key: "influence",
      title: data.measureTitle,
      value,
      number: true,
      down: true,
      cell: (p) =>
        node.influence[p] === null
          ? el("span", { class: "muted" }, "…")
          : [withVariables(el("span", { class: "amount", "aria-hidden": "true" }), { "--share": `${100 * Math.min(data.weight(p) / most(), 1)}%` }), data.isExact(p) ? "" : "≈\u202f", score(node.influence[p])],
    },
    { key: "degree", title: "Degree", value: (p) => node.degree[p], number: true, down: true, cell: (p) => number(node.degree[p]) },
    node.predicted && { key: "predicted", title: "Predicted", value: (p) => className(node.predicted[p]), wide: true, cell: (p) => (node.predicted[p] < 0 ? el("span", { class: "muted" }, "–") : chip(node.predicted[p])) },
    node.predicted && { key: "confidence", title: "Confidence", value: (p) => node.confidence[p], number: true, wide: true, cell: (p) => (node.predicted[p] < 0 ? "–" : percent(node.confidence[p])) },
    node.label && {
      key: "label",
      title: "Label",
      value: (p) => (node.label[p] >= 0 ? className(node.label[p]) : ""),
      wide: true,
      cell: (p) => (node.label[p] < 0 ? el("span", { class: "muted" }, "–") : [className(node.label[p]), wrong(p) ? el("span", { class: "muted" }, " (differs)") : null]),
    },
    {
      key: "act",
      title: "Remove",
      value: (p) => (changes.has({ kind: "remove", node: p }) ? 0 : 1),
      number: true,
      cell: (p) => {
        const removed = changes.has({ kind: "remove", node: p });
        return el("button", { type: "button", class: "quiet", "aria-label": `${removed ? "Restore" : "Remove"} ${nameOf(p)}`, onclick: () => changes.toggle({ kind: "remove", node: p }, "ranking") }, removed ? "Restore" : "Remove");
      },
    },
  ].filter(Boolean);
}

const muted = (text) => el("span", { class: "muted" }, text);

// Rows of edges and of fragile nodes come from the server, in its order; `row` is one of them.
export function edgeColumns(page) {
  const { data, changes } = page;
  const edit = ({ edge }) => ({ kind: "remove_edge", edge });
  return [
    { key: "rank", title: "Rank", number: true, cell: ({ at }) => number(at + 1) },
    { key: "name", title: "Edge", cell: ({ edge }) => [nodeButton(edge[0], page, "table"), muted(" – "), nodeButton(edge[1], page, "table")] },
    { key: "influence", title: data.measureTitle, number: true, cell: ({ influence, most }) => [withVariables(el("span", { class: "amount", "aria-hidden": "true" }), { "--share": `${100 * Math.min(Math.abs(influence) / most, 1)}%` }), score(influence)] },
    { key: "degree", title: "Degrees", number: true, cell: ({ edge }) => edge.map((end) => number(data.node.degree[end])).join(", ") },
    {
      key: "act",
      title: "Remove",
      number: true,
      cell: (row) => {
        const removed = changes.has(edit(row));
        const name = row.edge.map(data.nameOf).join(" – ");
        return el("button", { type: "button", class: "quiet", "aria-label": `${removed ? "Restore" : "Remove"} ${name}`, onclick: () => changes.toggle(edit(row), "ranking") }, removed ? "Restore" : "Remove");
      },
    },
  ];
}

const NAMED = 3;

export function fragileColumns(page) {
  const { data, changes } = page;
  const { node } = data;
  const chip = (index) => coloured(el("span", { class: "chip" }, data.className(index)), index, page);
  return [
    { key: "rank", title: "Rank", number: true, cell: ({ at }) => number(at + 1) },
    { key: "name", title: "Node", cell: (row) => nodeButton(row.node, page, "table") },
    { key: "predicted", title: "Predicted", wide: true, cell: (row) => chip(node.predicted[row.node]) },
    { key: "confidence", title: "Confidence", number: true, wide: true, cell: (row) => percent(node.confidence[row.node]) },
    { key: "flips", title: "Flipped by", number: true, cell: (row) => number(row.flips) },
    {
      key: "by",
      title: "For example by",
      cell: (row) => [row.by.slice(0, NAMED).map(([other], at) => [at ? ", " : "", nodeButton(other, page, "table")]), row.flips > NAMED ? muted(` and ${number(row.flips - NAMED)} more`) : null],
    },
    {
      key: "act",
      title: "Remove the first",
      number: true,
      cell: (row) => {
        const [other, to] = row.by[0];
        const removed = changes.has({ kind: "remove", node: other });
        return el("button", { type: "button", class: "quiet", title: `It flips to ${data.className(to)}`, "aria-label": `${removed ? "Restore" : "Remove"} ${data.nameOf(other)}`, onclick: () => changes.toggle({ kind: "remove", node: other }, "ranking") }, removed ? "Restore" : "Remove");
      },
    },
  ];
}
