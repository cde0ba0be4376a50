// Edits and their effects in words.

import { count, number, score } from "../format.js";

export function editText(edit, data) {
  const name = data.nameOf;
  if (edit.kind === "remove") return `${name(edit.node)} removed`;
  if (edit.kind === "remove_edge") return `${name(edit.edge[0])} – ${name(edit.edge[1])} removed`;
  if (edit.kind === "add_edge") return `${name(edit.edge[0])} – ${name(edit.edge[1])} added`;
  return `${data.featureName(edit.feature)} of ${name(edit.node)} set to ${edit.value}`;
}

// "7 of 999 nodes would flip to another class".
export function flipText(effect, state, { report }) {
  // A removed node has no prediction; where nodes have types, some never were.
  const removed = state.removed.filter((position) => !report.node.predicted || report.node.predicted[position] >= 0).length;
  const total = report.task === "node" ? report.num_items - removed : report.num_items;
  const what = report.task === "node" ? "nodes would flip to another class" : "pairs would flip";
  return `${number(effect.flips)} of ${number(total)} ${what}`;
}

export const shiftText = (effect, { report }) => `${count(effect.reached, "prediction")} would change by ${report.noticeable} or more`;

// How the whole differs from its parts.
export function interaction(effect, singles) {
  if (!singles || singles.length < 2) return null;
  if (singles.some((one) => one.total === null)) return { sum: null, text: "Some of these edits are not possible alone, so there is no sum to compare with." };
  const sum = singles.reduce((all, one) => all + one.total, 0);
  const more = effect.total - sum;
  if (Math.abs(more) < 1e-3 * Math.max(sum, effect.total, 1e-9)) return { sum, text: "Together they change as much as one by one." };
  return { sum, text: more > 0 ? `Together they change ${score(more)} more than one by one.` : `Together they change ${score(-more)} less than one by one.` };
}

export function announcement(state, page) {
  if (state.problem) return `This edit is not possible: ${state.problem}`;
  if (!state.edits.length) return "No edits.";
  if (!state.effect) return "";
  const last = editText(state.edits[state.edits.length - 1], page.data);
  return `${count(state.edits.length, "edit")}, the last: ${last}. ${flipText(state.effect, state, page)}; ${shiftText(state.effect, page)}.`;
}
