// The card beside a node that is pointed at: its name and facts about it.

import { el, withVariables } from "./dom.js";
import { change, count, number, ordinal, percent, score } from "./format.js";

export function coloured(element, index, { colours }) {
  return withVariables(element, { "--own": `var(${colours.colour(index)})` });
}

// An influence with how far it may be off.
export function influenceText(position, { data }) {
  const value = data.node.influence[position];
  if (data.isExact(position) || value === null) return score(value);
  const range = data.range(position);
  return `≈ ${score(value)}${range ? ` (${score(range[0])} – ${score(range[1])})` : ""}`;
}

export function rankText(position, { data, report }) {
  const rank = data.node.rank[position];
  if (!(rank > 0)) return "not scored";
  return `${data.isPlaced(position) ? "" : "about "}${ordinal(rank)} of ${number(report.scored)}`;
}

function effectLine(position, state, { data }) {
  const { effect } = state;
  if (state.removed.includes(position)) return "removed";
  if (!effect) return null;
  if (!effect.node) {
    const pairs = effect.source.filter((from, at) => from === position || effect.target[at] === position).length;
    return pairs ? `${count(pairs, "pair")} at it would change` : "none of its pairs changes noticeably";
  }
  const at = effect.node.indexOf(position);
  if (at < 0) return "hardly changes";
  const [from, to] = [effect.from[at], effect.to[at]];
  const end = from === to ? percent(effect.after[at]) : `${data.className(to)} ${percent(effect.after[at])}`;
  return `${data.className(from)} ${percent(effect.before[at])} → ${end} (${change(effect.change[at])})`;
}

export function card(page) {
  const { data, report, selection } = page;
  const root = el("div", { class: "hovercard", hidden: true, "aria-hidden": "true" });
  const row = (term, value) => (value === null ? null : el("div", {}, el("dt", {}, term), el("dd", {}, value)));
  return {
    root,
    // At (x, y) of a frame so many pixels wide and high; beside the node, never over it.
    show(position, x, y, away, width, height) {
      const own = data.classOf(position);
      const label = data.node.label?.[position] ?? -1;
      root.replaceChildren(
        coloured(el("p", { class: "who" }, data.nameOf(position)), own, page),
        el(
          "dl",
          {},
          row(data.measureTitle ?? "Influence", influenceText(position, page)),
          row("Rank", rankText(position, page)),
          row("Degree", number(data.node.degree[position])),
          row(report.task === "node" ? "Predicted" : "Label", own >= 0 ? data.className(own) : null),
          report.task === "node" && label >= 0 && label !== own ? row("Labelled", data.className(label)) : null,
          row("Now", effectLine(position, selection.state, page)),
        ),
      );
      root.hidden = false;
      const [w, h] = [root.offsetWidth, root.offsetHeight];
      const left = x + away + w > width && x - away - w > 0 ? x - away - w : Math.min(x + away, width - w - 4);
      const top = Math.min(Math.max(y - h / 2, 6), Math.max(height - h - 6, 6));
      withVariables(root, { left: `${Math.max(left, 4)}px`, top: `${top}px` });
    },
    hide() {
      root.hidden = true;
    },
  };
}
