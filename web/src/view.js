// How a drawn node looks, whoever draws it: as it is, or as the chosen node's removal leaves it.

import { classColour, classOf, effectOf, report } from "./data.js";

const drawing = report.drawing;
export const drawn = drawing.node;
const places = new Map(drawn.map((position, at) => [position, at]));
export const placeOf = (position) => places.get(position) ?? null;

const SMALL = 2;
const LARGE = 17;

// The largest nodes are named without being asked.
export const named = new Set(
  drawn
    .map((_, at) => at)
    .sort((a, b) => drawing.size[b] - drawing.size[a])
    .slice(0, 8),
);

// Radius in pixels.
export const radius = (at) => SMALL + (LARGE - SMALL) * drawing.size[at];

// What a removal does to each drawn node it changes: how much, and to which class it would turn.
export function affected(position) {
  const effect = position === null ? null : effectOf(position);
  const found = new Map();
  if (!effect) return found;
  const most = Math.max(...effect.change, 1e-9);
  const add = (other, at, turned, to) => {
    const place = placeOf(other);
    if (place === null) return;
    const known = found.get(place);
    const share = effect.change[at] / most;
    if (!known || (turned && !known.turned) || share > known.share) {
      found.set(place, { share: Math.max(share, known?.share ?? 0), turned: turned || Boolean(known?.turned), to });
    }
  };
  effect.change.forEach((_, at) => {
    if (effect.node) add(effect.node[at], at, effect.from[at] !== effect.to[at], effect.to[at]);
    else {
      const turned = effect.before[at] > 0.5 !== effect.after[at] > 0.5;
      for (const end of [effect.source[at], effect.target[at]]) add(end, at, turned, classOf(end));
    }
  });
  return found;
}

// Looks: `colour` and `ring` name CSS variables.
export function look(at, chosen, changes) {
  const position = drawn[at];
  if (chosen === null) {
    return { radius: radius(at), colour: classColour(classOf(position)), ring: "--paper", thick: 0.12, label: named.has(at), layer: 1 };
  }
  if (position === chosen) {
    return { radius: Math.max(radius(at), 8), colour: "--paper", ring: "--ink", thick: 0.3, label: true, layer: 4 };
  }
  const change = changes.get(at);
  if (!change) {
    // Without a known effect the picture stays as it is, only quieter.
    const quiet = effectOf(chosen) ? { colour: "--faded", ring: "--faded" } : { colour: classColour(classOf(position)), ring: "--paper" };
    return { radius: effectOf(chosen) ? 2.4 : radius(at), ...quiet, thick: 0.1, label: false, layer: 0 };
  }
  const size = 3 + 7 * Math.sqrt(change.share);
  if (change.turned) {
    return { radius: Math.max(size, 6.5), colour: classColour(change.to), ring: "--ink", thick: 0.28, label: true, layer: 3 };
  }
  return { radius: size, colour: classColour(classOf(position)), ring: "--paper", thick: 0.12, label: false, layer: 2 };
}

// Edges as pairs of places.
export function* edges() {
  for (let at = 0; at < drawing.edge.length; at += 2) yield [drawing.edge[at], drawing.edge[at + 1]];
}
