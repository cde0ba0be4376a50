// The side panel: what is changed, each edit with its own effect, and what all together do.

import { el } from "../dom.js";
import { count, number, score } from "../format.js";
import { moves } from "../moves.js";
import { listed, nodeButton } from "../panel.js";
import { editText, interaction, shiftText, flipText } from "./words.js";

const OVERVIEW = 12;

function head(page) {
  const { changes } = page;
  const { state } = changes;
  const button = (text, label, act, enabled) => el("button", { type: "button", class: "quiet", "aria-label": label, title: label, disabled: !enabled, onclick: act }, text);
  return el(
    "div",
    { class: "panel-head" },
    el("h3", { id: "panel-title", tabindex: "-1" }, state.edits.length ? count(state.edits.length, "edit") : "No edits"),
    el(
      "div",
      { class: "buttons" },
      button("↶", "Undo the last edit (Ctrl Z)", () => changes.undo(), changes.canUndo),
      button("↷", "Redo (Ctrl Shift Z)", () => changes.redo(), changes.canRedo),
      state.edits.length ? button("Clear", "Clear: undo all edits", () => changes.clear("panel"), true) : null,
    ),
  );
}

function editRow(edit, at, page) {
  const { changes, data } = page;
  const { singles } = changes.state;
  const node = edit.node ?? edit.edge[0];
  const parts =
    edit.kind === "remove"
      ? [nodeButton(node, page, "edits"), el("span", { class: "muted" }, " removed")]
      : edit.kind === "set"
        ? [nodeButton(node, page, "edits"), el("span", { class: "muted" }, ` ${data.featureName(edit.feature)} = ${edit.value}`)]
        : [nodeButton(edit.edge[0], page, "edits"), el("span", { class: "muted" }, " – "), nodeButton(edit.edge[1], page, "edits"), el("span", { class: "muted" }, edit.kind === "remove_edge" ? " removed" : " added")];
  const own = singles?.[at];
  const alone = own === undefined ? "…" : own.total === null ? "–" : score(own.total);
  return el(
    "li",
    { class: `edit ${edit.kind}` },
    el("span", { class: "what" }, parts),
    el("span", { class: "value", title: own && own.total !== null ? `alone: total change ${own.total}, ${own.flips} flips` : null, "data-total": own?.total ?? null }, alone),
    el("button", { type: "button", class: "drop", "aria-label": `Undo: ${editText(edit, data)}`, title: "Undo this edit", onclick: () => changes.drop(edit, "panel") }, "×"),
  );
}

function figures(page) {
  const { state } = page.changes;
  const { effect, singles } = state;
  const found = interaction(effect, singles);
  const rows = [
    ["Total change", score(effect.total), effect.total],
    found && found.sum !== null ? ["One by one", score(found.sum), found.sum] : null,
    ["Flips", number(effect.flips), effect.flips],
    ["Changes", number(effect.reached), effect.reached],
  ].filter(Boolean);
  return [
    el("p", { class: "summary" }, el("strong", {}, effect.flips ? flipText(effect, state, page) : "No prediction would flip"), `; ${shiftText(effect, page)}.`),
    el("dl", { class: "facts small" }, rows.map(([term, text, value]) => el("div", {}, el("dt", {}, term), el("dd", { "data-value": value, title: String(value) }, text)))),
    found ? el("p", { class: "muted" }, found.text) : null,
    moves(effect, page),
    listed(effect, page),
  ];
}

function overview(page) {
  const { data } = page;
  const scored = data.progress.done > 0;
  return [
    el(
      "p",
      { class: "muted" },
      el("span", { class: "hint mouse" }, "Click a node in the picture: the panel shows which predictions its removal would change. Click an edge to select its two ends, Shift and click to select several. "),
      el("span", { class: "hint touch" }, "Tap a node in the picture: the panel shows which predictions its removal would change. "),
      "Or start here:",
    ),
    el("h4", {}, (scored && data.progress.status === "done" ? "Most influential" : scored ? "Most influential so far" : "Most connected") + (scored && data.measure !== "change" ? ` by ${data.measureText(data.measure)}` : "")),
    el(
      "ol",
      { class: "rows starters" },
      data.ranked.slice(0, OVERVIEW).map((position) =>
        el(
          "li",
          {},
          nodeButton(position, page),
          el("span", { class: "value" }, scored ? score(data.node.influence[position]) : number(data.node.degree[position])),
          el("button", { type: "button", class: "quiet", "aria-label": `Remove ${data.nameOf(position)}`, onclick: () => page.changes.add({ kind: "remove", node: position }, "panel") }, "Remove"),
        ),
      ),
    ),
  ];
}

export function panel(place, page) {
  const { changes, data } = page;
  const { state } = changes;
  const draw = () => {
    const focused = document.activeElement && place.contains(document.activeElement);
    const body = state.problem
      ? el("div", { class: "caution", role: "alert" }, el("p", {}, "This edit is not possible: ", state.problem), el("button", { type: "button", class: "quiet", onclick: () => changes.undo() }, "Undo"))
      : !state.edits.length
        ? overview(page)
        : state.effect
          ? figures(page)
          : el("p", { class: "muted" }, data.progress.status === "preparing" ? "The engine is being prepared: the first effect takes longer …" : "…");
    const edits = el("ol", { class: "edits", "aria-label": "Edits, each with the total change that it makes alone" }, state.edits.map((edit, at) => editRow(edit, at, page)));
    place.replaceChildren(...[head(page), state.edits.length ? edits : null, body].flat(Infinity).filter(Boolean));
    place.setAttribute("aria-busy", String(state.waiting));
    if (focused) document.getElementById("panel-title").focus({ preventScroll: true });
  };
  changes.onChange((_, from) => {
    if (from === "compare" || from === "choose") return;
    if (state.waiting && state.effect && from !== "answer" && from !== "singles") {
      // The earlier effect stays until the answer is there; the list of edits is new at once.
      const list = place.querySelector(".edits");
      if (list) list.replaceChildren(...state.edits.map((edit, at) => editRow(edit, at, page)));
      place.setAttribute("aria-busy", "true");
      return;
    }
    draw();
  });
  let shown = 0;
  data.onRanking((progress) => {
    if (state.edits.length || (progress.status === "running" && performance.now() - shown < 1000)) return;
    shown = performance.now();
    draw();
  });
  draw();
}
