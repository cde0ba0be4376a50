// A node's own neighbourhood as a scene: the node in the middle, its neighbours around it, and beyond them the
// other nodes its removal changes, each next to the neighbour that connects it to the middle.

import { scene } from "./scene.js";

const NEIGHBOURS = 160;
const CHANGED = 160;
const EDGES = 4000;
// Room on a ring for each of its nodes, in the scene's unit.
const ROOM = 330;

const byInfluence = (data) => (a, b) => (data.node.influence[b] ?? 0) - (data.node.influence[a] ?? 0);

function changedBy(effect) {
  if (!effect) return [];
  return effect.node ?? effect.source.flatMap((from, at) => [from, effect.target[at]]);
}

// Angles and distances for nodes in this order: rings as wide as it takes.
function rings(order, inner) {
  const placed = new Map();
  let radius = inner;
  let turn = 0;
  let left = [...order];
  while (left.length) {
    const fits = Math.max(8, Math.floor((2 * Math.PI * radius) / ROOM));
    const rounds = Math.ceil(left.length / fits);
    // Every so many, so that each ring goes all the way round in the same order.
    const here = left.filter((_, at) => at % rounds === 0);
    left = left.filter((_, at) => at % rounds !== 0);
    here.forEach((position, at) => placed.set(position, { angle: (2 * Math.PI * (at + turn)) / here.length, radius }));
    radius += ROOM * 1.5;
    // Between those of the ring before, or all would stand in rays.
    turn = (turn + 0.38) % 1;
  }
  return { placed, outer: radius };
}

export function neighbourhood(state, { data, source }) {
  const centre = state.removed[0];
  const changes = new Map();
  changedBy(state.effect).forEach((position, at) => !changes.has(position) && changes.set(position, at));
  const all = [...new Set(state.neighbours ?? [])].filter((position) => position !== centre);
  // Those that change first, then by influence.
  const neighbours = all
    .sort((a, b) => (changes.get(a) ?? Infinity) - (changes.get(b) ?? Infinity) || byInfluence(data)(a, b))
    .slice(0, NEIGHBOURS);
  const adjacent = new Set(all);
  const further = [...changes.keys()].filter((position) => position !== centre && !adjacent.has(position)).slice(0, CHANGED);
  const parent = new Map();
  const edges = [];
  const inside = new Set([centre, ...neighbours, ...further]);
  for (const position of neighbours) {
    edges.push([centre, position]);
    const others = source.neighbours(position);
    if (!Array.isArray(others)) continue;
    for (const other of others) {
      if (!inside.has(other) || other === centre || other === position) continue;
      if (!adjacent.has(other)) {
        if (!parent.has(other)) parent.set(other, position);
        edges.push([position, other]);
      } else if (position < other) edges.push([position, other]);
    }
  }
  neighbours.sort((a, b) => data.classOf(a) - data.classOf(b) || byInfluence(data)(a, b));
  const first = rings(neighbours, neighbours.length > 20 ? 1500 : 1100);
  const angle = (position) => first.placed.get(parent.get(position))?.angle ?? 2 * Math.PI;
  further.sort((a, b) => angle(a) - angle(b));
  const second = rings(further, first.outer + ROOM);
  const place = new Map([[centre, { angle: 0, radius: 0 }], ...first.placed, ...second.placed]);
  const nodes = [...place.keys()];
  const at = new Map(nodes.map((position, index) => [position, index]));
  const most = Math.max(...nodes.map((position) => data.node.influence[position] ?? 0), 1e-12);
  const shown = scene({
    node: nodes,
    x: nodes.map((position) => 5000 + place.get(position).radius * Math.cos(place.get(position).angle)),
    y: nodes.map((position) => 5000 + 0.8 * place.get(position).radius * Math.sin(place.get(position).angle)),
    size: nodes.map((position) => Math.sqrt(Math.max(0, data.node.influence[position] ?? 0) / most)),
    edge: edges.slice(0, EDGES).flatMap(([from, to]) => [at.get(from), at.get(to)]),
  });
  return { ...shown, left: all.length - neighbours.length, centre };
}
