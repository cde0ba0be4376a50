// The side panel: what the removal of the chosen node would change, or whom to choose.

import { el, withVariables } from "./dom.js";
import { classColour, className, classOf, effectOf, named, nameOf, node, ranked, report } from "./data.js";
import { change, count, number, ordinal, percent, score } from "./format.js";
import { onSelect, select } from "./selection.js";

const FIRST = 10;
const OVERVIEW = 12;

function coloured(element, index) {
  return withVariables(element, { "--own": `var(${classColour(index)})` });
}

function nodeButton(position) {
  return coloured(
    el("button", { type: "button", class: "node", title: nameOf(position), onclick: () => select(position, "panel") }, nameOf(position)),
    classOf(position),
  );
}

function overview() {
  const first = ranked.slice(0, OVERVIEW);
  const most = Math.max(...first.map((position) => node.influence[position]), 1e-12);
  return [
    el("h3", { id: "panel-title", tabindex: "-1" }, "No node is gone yet"),
    el("p", { class: "muted" }, "Choose a node in the picture, in the ranking or here to see whose prediction its absence would change."),
    el("h4", {}, "Most influential"),
    el(
      "ol",
      { class: "rows" },
      first.map((position) =>
        el(
          "li",
          {},
          nodeButton(position),
          withVariables(el("span", { class: "meter", "aria-hidden": "true" }), { "--share": `${(100 * node.influence[position]) / most}%` }),
          el("span", { class: "value" }, score(node.influence[position])),
        ),
      ),
    ),
  ];
}

function facts(position) {
  const own = classOf(position);
  const effect = effectOf(position);
  const rows = [
    ["Influence", score(node.influence[position]), node.rank[position] > 0 ? `${ordinal(node.rank[position])} of ${number(report.scored)}` : "not scored"],
    effect && !report.exact ? ["Exactly", score(effect.total), null] : null,
    ["Degree", number(node.degree[position]), null],
    report.task === "node" ? ["Predicted", className(node.predicted[position]), node.label && node.label[position] >= 0 ? `labelled ${className(node.label[position])}` : null] : null,
    report.task === "link" && own >= 0 ? ["Label", className(own), null] : null,
  ].filter(Boolean);
  return el(
    "dl",
    { class: "facts small" },
    rows.map(([term, value, more]) => el("div", {}, el("dt", {}, term), el("dd", {}, value, more ? el("span", { class: "muted" }, ` ${more}`) : null))),
  );
}

function summary(position, effect) {
  const shift = `${count(effect.reached, "prediction")} would shift by ${report.noticeable} or more`;
  const total = report.task === "node" ? report.num_items - 1 : report.num_items;
  const turn = `${number(effect.flips)} of ${number(total)} ${report.task === "node" ? "other nodes would be predicted another class" : "pairs would be predicted otherwise"}`;
  return el(
    "p",
    { class: "summary" },
    "Without ",
    el("strong", {}, nameOf(position)),
    effect.flips ? [", ", el("strong", {}, turn), `; ${shift}.`] : `, no prediction would turn; ${shift}.`,
  );
}

function moves(effect) {
  if (!effect.flips || report.task !== "node") return null;
  const most = Math.max(...effect.moves.map((move) => move[2]));
  const shown = effect.moves.slice(0, 6);
  return el(
    "ul",
    { class: "moves", "aria-label": "From which class to which" },
    shown.map(([from, to, amount]) =>
      el(
        "li",
        {},
        el("span", { class: "way" }, coloured(el("span", { class: "chip" }, className(from)), from), el("span", { class: "arrow" }, " → "), coloured(el("span", { class: "chip" }, className(to)), to)),
        coloured(withVariables(el("span", { class: "meter", "aria-hidden": "true" }), { "--share": `${(100 * amount) / most}%` }), to),
        el("span", { class: "value" }, number(amount)),
      ),
    ),
  );
}

// Short names fit on one line with what happens to them; others get a line of their own.
const longest = (texts) => texts.reduce((most, text) => Math.max(most, text.length), 0);
const roomy = longest(report.classes.map((one) => one.name)) <= 6 && longest(ranked.slice(0, 200).map(nameOf)) <= 14;

function nodeRow(effect, at) {
  const from = effect.from[at];
  const to = effect.to[at];
  const turned = from !== to;
  return el(
    "li",
    { class: turned ? "turned" : null },
    nodeButton(effect.node[at]),
    el(
      "span",
      { class: "way" },
      coloured(el("span", { class: "chip" }, `${className(from)} ${percent(effect.before[at])}`), from),
      el("span", { class: "arrow" }, " → "),
      coloured(el("span", { class: "chip" }, turned ? `${className(to)} ${percent(effect.after[at])}` : percent(effect.after[at])), to),
    ),
    el("span", { class: "value", title: "change of the class probabilities" }, change(effect.change[at])),
  );
}

function pairRow(effect, at) {
  const before = effect.before[at];
  const after = effect.after[at];
  return el(
    "li",
    { class: before > 0.5 !== after > 0.5 ? "turned" : null },
    el("span", { class: "pair" }, nodeButton(effect.source[at]), el("span", { class: "muted" }, " – "), nodeButton(effect.target[at])),
    el("span", { class: "way" }, `${percent(before)} → ${percent(after)}`),
    el("span", { class: "value", title: "change of the probability" }, change(effect.change[at])),
  );
}

function listed(effect) {
  const all = effect.change.length;
  if (!all) return el("p", { class: "muted" }, "Nobody’s prediction would change.");
  const row = report.task === "node" ? nodeRow : pairRow;
  const list = el("ol", { class: `rows changes ${roomy ? "" : "stacked"}` });
  const more = el("button", { type: "button", class: "quiet" });
  const show = (amount) => {
    list.replaceChildren(...Array.from({ length: amount }, (_, at) => row(effect, at)));
    more.hidden = amount >= all;
    more.textContent = `Show ${number(all - amount)} more`;
  };
  more.addEventListener("click", () => {
    const next = list.children.length;
    show(all);
    list.children[next]?.querySelector("button")?.focus();
  });
  show(Math.min(all, Math.max(FIRST, Math.min(effect.flips, 12))));
  const title = report.task === "node" ? "Who would change" : "Which pairs would change";
  return [
    el("h4", {}, title, el("span", { class: "muted" }, effect.flips ? " those that turn first, then by change" : " by change")),
    list,
    more,
  ];
}

// A word as a shell takes it.
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

// What the command line calls a node: a name that another has too would be taken for the other.
const called = (position) =>
  named && nameOf(position).trim() && node.name.indexOf(nameOf(position)) === node.name.lastIndexOf(nameOf(position))
    ? quoted(nameOf(position))
    : node.id[position];

function unknown(position) {
  const known = Object.keys(report.effect).length;
  const held = known ? `the effects of the ${number(known)} most influential nodes only` : "no effects";
  const shell = el("pre", {}, el("code", {}, `nora what-if ${quoted(report.run ?? "RUN")} --remove ${called(position)}`));
  const python = el("pre", {}, el("code", {}, `nora.what_if(model, data, remove=${node.id[position]}${report.task === "link" ? ", task=task" : ""})`));
  return [
    el("p", {}, `This page holds ${held}.`),
    el(
      "div",
      { class: "prompt" },
      el("p", {}, `To see what the removal of ${nameOf(position)} would change, ask in a terminal:`),
      shell,
      report.run ? null : [el("p", { class: "muted" }, "RUN is the folder of the trained run. Or in Python:"), python],
    ),
  ];
}

function chosen(position) {
  const effect = effectOf(position);
  return [
    el(
      "div",
      { class: "panel-head" },
      coloured(el("h3", { id: "panel-title", tabindex: "-1" }, nameOf(position)), classOf(position)),
      el("button", { type: "button", class: "quiet", "aria-label": `Put ${nameOf(position)} back`, onclick: () => select(null, "panel") }, "Put back"),
    ),
    facts(position),
    effect ? [summary(position, effect), moves(effect), listed(effect)] : unknown(position),
  ];
}

// Beside the picture on a wide screen, below it on a narrow one.
function reveal(place) {
  const goal = matchMedia("(max-width: 60rem)").matches ? place : document.getElementById("explore");
  const { top } = goal.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 3) goal.scrollIntoView({ block: "start" });
}

export function panel(place) {
  const draw = (position) => {
    const content = position === null ? overview() : chosen(position);
    place.replaceChildren(...content.flat(Infinity).filter(Boolean));
    place.scrollTop = 0;
    // On paper nobody can choose, and the ranking lists the same nodes.
    place.classList.toggle("prompt", position === null);
  };
  onSelect((position, from) => {
    draw(position);
    // What was pressed is gone, or far from here: go on from the title.
    if (["panel", "table", "chart", "link", "address"].includes(from)) {
      document.getElementById("panel-title").focus({ preventScroll: true });
    }
    if (["table", "chart", "link", "address"].includes(from)) reveal(place);
  });
  draw(null);
}

// Tells screen readers the one sentence, not the whole panel.
export function announcer(place) {
  onSelect((position) => {
    const effect = position === null ? null : effectOf(position);
    if (position === null) place.textContent = "No node is gone.";
    else if (effect) place.textContent = summary(position, effect).textContent;
    else place.textContent = `${nameOf(position)}: its effect is not part of this page.`;
  });
}
