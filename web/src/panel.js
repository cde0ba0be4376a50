// The side panel: what the removal of the chosen node would change, or whom to choose.

import { coloured, influenceText, rankText } from "./card.js";
import { el, withVariables } from "./dom.js";
import { change, count, number, percent, score } from "./format.js";
import { moves } from "./moves.js";

const FIRST = 10;
const OVERVIEW = 12;

export function nodeButton(position, page, from = "panel") {
  const { data, selection } = page;
  return coloured(
    el("button", { type: "button", class: "node", title: data.nameOf(position), onclick: () => selection.select(position, from) }, data.nameOf(position)),
    data.classOf(position),
    page,
  );
}

function overview(page) {
  const { node, ranked } = page.data;
  const first = ranked.slice(0, OVERVIEW);
  const most = Math.max(...first.map((position) => node.influence[position]), 1e-12);
  return [
    el("h3", { id: "panel-title", tabindex: "-1" }, "No node is removed yet"),
    el("p", { class: "muted" }, "Choose a node in the picture, in the ranking or here to see which predictions its removal would change."),
    el("h4", {}, "Most influential"),
    el(
      "ol",
      { class: "rows" },
      first.map((position) =>
        el(
          "li",
          {},
          nodeButton(position, page),
          withVariables(el("span", { class: "meter", "aria-hidden": "true" }), { "--share": `${(100 * node.influence[position]) / most}%` }),
          el("span", { class: "value" }, score(node.influence[position])),
        ),
      ),
    ),
  ];
}

function facts(position, effect, page) {
  const { data, report } = page;
  const { node, className } = data;
  const own = data.classOf(position);
  // A yardstick's scores are of another kind: the influence itself stands beside.
  const besides = effect && report.yardstick;
  const rows = [
    [report.yardstick ?? "Influence", influenceText(position, page), rankText(position, page)],
    besides ? ["Influence", score(effect.total), null] : null,
    ["Degree", number(node.degree[position]), null],
    node.fragile && node.fragile[position] >= 0 ? ["Fragile", node.fragile[position] ? `${count(node.fragile[position], "removal")} would flip it` : "no single removal flips it", null] : null,
    report.task === "node" ? ["Predicted", className(node.predicted[position]), node.label && node.label[position] >= 0 ? `labelled ${className(node.label[position])}` : null] : null,
    report.task === "link" && own >= 0 ? ["Label", className(own), null] : null,
  ].filter(Boolean);
  return el(
    "dl",
    { class: "facts small" },
    rows.map(([term, value, more]) => el("div", {}, el("dt", {}, term), el("dd", {}, value, more ? el("span", { class: "muted" }, ` ${more}`) : null))),
  );
}

export function summary(position, effect, { data, report }) {
  const shift = `${count(effect.reached, "prediction")} would change by ${report.noticeable} or more`;
  const total = report.task === "node" ? report.num_items - 1 : report.num_items;
  const flips = `${number(effect.flips)} of ${number(total)} ${report.task === "node" ? "other nodes would flip to another class" : "pairs would flip"}`;
  return el(
    "p",
    { class: "summary" },
    "Without ",
    el("strong", {}, data.nameOf(position)),
    effect.flips ? [", ", el("strong", {}, flips), `; ${shift}.`] : `, no prediction would flip; ${shift}.`,
  );
}

// Short names fit on one line with what happens to them; others get a line of their own.
const longest = (texts) => texts.reduce((most, text) => Math.max(most, text.length), 0);
const roomy = ({ data, report }) =>
  longest(report.classes.map((one) => one.name)) <= 6 && longest(data.ranked.slice(0, 200).map(data.nameOf)) <= 14;

function nodeRow(effect, at, page) {
  const { className } = page.data;
  const from = effect.from[at];
  const to = effect.to[at];
  const flipped = from !== to;
  return el(
    "li",
    { class: flipped ? "flipped" : null },
    nodeButton(effect.node[at], page),
    el(
      "span",
      { class: "way" },
      coloured(el("span", { class: "chip" }, `${className(from)} ${percent(effect.before[at])}`), from, page),
      el("span", { class: "arrow" }, " → "),
      coloured(el("span", { class: "chip" }, flipped ? `${className(to)} ${percent(effect.after[at])}` : percent(effect.after[at])), to, page),
    ),
    el("span", { class: "value", title: "change of the class probabilities" }, change(effect.change[at])),
  );
}

function pairRow(effect, at, page) {
  const before = effect.before[at];
  const after = effect.after[at];
  return el(
    "li",
    { class: before > 0.5 !== after > 0.5 ? "flipped" : null },
    el("span", { class: "pair" }, nodeButton(effect.source[at], page), el("span", { class: "muted" }, " – "), nodeButton(effect.target[at], page)),
    el("span", { class: "way" }, `${percent(before)} → ${percent(after)}`),
    el("span", { class: "value", title: "change of the probability" }, change(effect.change[at])),
  );
}

export function listed(effect, page) {
  const all = effect.change.length;
  if (!all) return el("p", { class: "muted" }, "No prediction would change.");
  const row = page.report.task === "node" ? nodeRow : pairRow;
  const list = el("ol", { class: `rows changes ${roomy(page) ? "" : "stacked"}` });
  const more = el("button", { type: "button", class: "quiet" });
  const show = (amount) => {
    list.replaceChildren(...Array.from({ length: amount }, (_, at) => row(effect, at, page)));
    more.hidden = amount >= all;
    more.textContent = `Show ${number(all - amount)} more`;
  };
  more.addEventListener("click", () => {
    const next = list.children.length;
    show(all);
    list.children[next]?.querySelector("button")?.focus();
  });
  show(Math.min(all, Math.max(FIRST, Math.min(effect.flips, 12))));
  const title = page.report.task === "node" ? "Nodes that would change" : "Pairs that would change";
  return [
    el("h4", {}, title, el("span", { class: "muted" }, effect.flips ? " flips first, then by change" : " by change")),
    list,
    more,
    effect.more ? el("p", { class: "muted" }, `${count(effect.more, "smaller change")} ${effect.more === 1 ? "is" : "are"} not listed.`) : null,
  ];
}

// A word as a shell takes it.
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

// What the command line calls a node: a name that another has too would be taken for the other.
const called = (position, { node, named, nameOf }) =>
  named && nameOf(position).trim() && node.name.indexOf(nameOf(position)) === node.name.lastIndexOf(nameOf(position))
    ? quoted(nameOf(position))
    : node.id[position];

function unknown(position, { data, report }) {
  const known = report.effects.of.length;
  const whose = report.estimate ? `${number(known)} nodes only, whose influence is exact` : `the ${number(known)} most influential nodes only`;
  const held = known ? `the effects of ${whose}` : "no effects";
  const shell = el("pre", {}, el("code", {}, `nora what-if ${quoted(report.run ?? "RUN")} --remove ${called(position, data)}`));
  const python = el("pre", {}, el("code", {}, `nora.what_if(model, data, remove=${data.node.id[position]}${report.task === "link" ? ", task=task" : ""})`));
  return [
    el("p", {}, `This page holds ${held}.`),
    el(
      "div",
      { class: "prompt" },
      el("p", {}, `To see what the removal of ${data.nameOf(position)} would change, ask in a terminal:`),
      shell,
      report.run ? null : [el("p", { class: "muted" }, "RUN is the folder of the trained run. Or in Python:"), python],
    ),
  ];
}

function chosen(position, { effect, waiting }, page) {
  const name = page.data.nameOf(position);
  return [
    el(
      "div",
      { class: "panel-head" },
      coloured(el("h3", { id: "panel-title", tabindex: "-1" }, name), page.data.classOf(position), page),
      el("button", { type: "button", class: "quiet", "aria-label": `Restore ${name}`, onclick: () => page.selection.select(null, "panel") }, "Restore"),
    ),
    facts(position, effect, page),
    waiting ? el("p", { class: "muted" }, "…") : effect ? [summary(position, effect, page), moves(effect, page), listed(effect, page)] : unknown(position, page),
  ];
}

export function edgeName({ source, target }, { data, report }) {
  return `${data.nameOf(source)} ${report.edges.directed ? "→" : "–"} ${data.nameOf(target)}`;
}

export function edgeSummary(edge, page) {
  const { report } = page;
  const what = report.task === "node" ? ["node would flip to another class", "nodes would flip to another class"] : ["pair would flip", "pairs would flip"];
  return `Without this edge, ${edge.flips ? count(edge.flips, ...what) : "no prediction would flip"}.`;
}

function chosenEdge(edge, page) {
  return [
    el(
      "div",
      { class: "panel-head" },
      el("h3", { id: "panel-title", class: "plain", tabindex: "-1" }, edgeName(edge, page)),
      el("button", { type: "button", class: "quiet", "aria-label": `Restore the edge ${edgeName(edge, page)}`, onclick: () => page.selection.select(null, "panel") }, "Restore"),
    ),
    el(
      "dl",
      { class: "facts small" },
      [["Influence of the edge", score(edge.influence)], ["Rank among edges", number(edge.rank)]].map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
    ),
    el("p", { class: "summary" }, edgeSummary(edge, page)),
    el("h4", {}, "Its nodes, which stay"),
    el("ul", { class: "rows" }, [edge.source, edge.target].map((end) => el("li", {}, nodeButton(end, page), el("span"), el("span", { class: "value" }, score(page.data.node.influence[end]))))),
  ];
}

// Beside the picture on a wide screen, below it on a narrow one.
function reveal(place) {
  const goal = matchMedia("(max-width: 60rem)").matches ? place : document.getElementById("explore");
  const { top } = goal.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 3) goal.scrollIntoView({ block: "start" });
}

export function panel(place, page) {
  const draw = (state) => {
    const position = state.removed[0] ?? null;
    const content = state.edge ? chosenEdge(state.edge, page) : position === null ? overview(page) : chosen(position, state, page);
    place.replaceChildren(...content.flat(Infinity).filter(Boolean));
    place.scrollTop = 0;
    // Paper has no controls, and the ranking lists the same nodes.
    place.classList.toggle("prompt", position === null && !state.edge);
  };
  page.selection.onChange((state, from) => {
    draw(state);
    if (!state.removed.length && !state.edge && from === "address") return;
    // The pressed button was removed, or is far from here: go on from the title.
    if (["panel", "table", "edges", "chart", "link", "address"].includes(from)) {
      document.getElementById("panel-title").focus({ preventScroll: true });
    }
    if (["table", "edges", "chart", "link", "address"].includes(from)) reveal(place);
  });
  draw(page.selection.state);
}

// Tells screen readers the one sentence, not the whole panel.
export function announcer(place, page) {
  page.selection.onChange(({ removed, effect, waiting, edge }) => {
    if (waiting) return;
    if (edge) place.textContent = `${edgeName(edge, page)}: ${edgeSummary(edge, page)}`;
    else if (!removed.length) place.textContent = "No node is removed.";
    else if (effect) place.textContent = summary(removed[0], effect, page).textContent;
    else place.textContent = `${page.data.nameOf(removed[0])}: its effect is not part of this page.`;
  });
}
