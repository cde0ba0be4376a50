// How nodes and edges look in the explorer: by class, by change, by influence or by error; removed nodes are
// hollow, flipped ones have a ring, so that colour never stands alone.

import { rgb } from "./backdrop.js";

export const MODES = [
  ["class", "class"],
  ["change", "change"],
  ["influence", "influence"],
  ["error", "error"],
];

const hex = (parts) => `#${parts.map((one) => Math.round(255 * Math.min(1, Math.max(0, one))).toString(16).padStart(2, "0")).join("")}`;
const mixed = (from, to, share) => hex(rgb(from).map((one, at) => one + (rgb(to)[at] - one) * share));

// Smaller changes are not worth a colour; they are listed all the same.
const SEEN = 0.002;

// What the edits do to each node they change: by how much (0 … 1), and to which class it flips.
export function changesOf(effect, data) {
  const found = new Map();
  if (!effect) return found;
  const most = effect.change.reduce((a, b) => Math.max(a, b), 1e-9);
  const add = (position, at, flipped, to) => {
    if (!flipped && effect.change[at] < SEEN) return;
    const known = found.get(position);
    const share = Math.max(effect.change[at] / most, known?.share ?? 0);
    if (!known || flipped || !known.flipped) found.set(position, { share, flipped: flipped || Boolean(known?.flipped), to, at });
  };
  effect.change.forEach((_, at) => {
    if (effect.node) add(effect.node[at], at, effect.from[at] !== effect.to[at], effect.to[at]);
    else {
      const flipped = effect.before[at] > 0.5 !== effect.after[at] > 0.5;
      for (const end of [effect.source[at], effect.target[at]]) add(end, at, flipped, data.classOf(end));
    }
  });
  return found;
}

export function looks(page, mode) {
  const { data, report, colours } = page;
  const { node } = data;
  const top = data.ranked[0];
  const scored = data.progress.status === "done";
  const mostDegree = Math.max(data.mostDegree, 1);
  const mostInfluence = Math.max(data.weight(top) ?? 0, 1e-12);
  const base = (position) => (scored ? Math.sqrt(Math.max(0, data.weight(position) ?? 0) / mostInfluence) : Math.sqrt(node.degree[position] / mostDegree));
  const many = report.num_nodes > 1500;
  const radius = (position) => (many ? 1.6 : 2.2) + (many ? 10 : 14) * base(position);
  const wrong = (position) => node.label && node.predicted && node.label[position] >= 0 && node.label[position] !== node.predicted[position];

  return function look(position, state, changes, colour) {
    const changed = changes.get(position);
    const removed = state.removed.includes(position);
    const picked = state.chosen.includes(position);
    const ring = picked ? { ring: colour("--accent"), thick: 0.32 } : null;
    if (removed) return { radius: Math.max(radius(position), 8), color: colour("--paper"), ring: colour(picked ? "--accent" : "--ink"), thick: 0.3, label: true, layer: 5 };
    let own = colour(colours.colour(changed?.flipped && mode === "class" ? changed.to : data.classOf(position)));
    let quiet = state.effect !== null && !changed && mode === "class";
    if (mode === "change") own = mixed(colour("--faded"), colour("--class-4"), Math.sqrt(changed?.share ?? 0));
    if (mode === "influence") own = mixed(colour("--faded"), colour("--class-3"), node.influence[position] === null ? 0 : Math.sqrt(Math.max(0, data.weight(position)) / mostInfluence));
    if (mode === "error") own = wrong(position) ? colour("--class-4") : colour("--faded");
    if (quiet && !picked) return { radius: Math.max(1.6, radius(position) * 0.6), color: colour("--faded"), ring: colour("--faded"), thick: 0.1, label: false, layer: 0 };
    if (changed) {
      const size = 3 + 7 * Math.sqrt(changed.share);
      if (changed.flipped) return { radius: Math.max(size, 6.5), color: own, ring: colour("--ink"), thick: 0.28, label: changed.at < 20 || picked, layer: 4, ...ring };
      return { radius: size, color: own, ring: colour("--paper"), thick: 0.12, label: picked, layer: picked ? 4 : 2, ...ring };
    }
    const error = mode === "error" && wrong(position);
    return { radius: Math.max(radius(position), picked ? 7 : error ? 4 : 0), color: own, ring: colour(error ? "--ink" : "--paper"), thick: error ? 0.25 : 0.12, label: picked, layer: picked ? 4 : 1, ...ring };
  };
}
