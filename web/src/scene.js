// What is drawn and how it looks, for every renderer: places of nodes, edges among them, and what a removal does
// to each.

const SMALL = 2;
const LARGE = 17;
const NAMED = 8;
// Of those that flip, so many are named without being asked.
const NAMED_CHANGES = 20;

// Nodes by position, their places (0 … 10,000), sizes (0 … 1), and edges as pairs of places in the list.
export function scene({ node, x, y, size, edge }) {
  const places = new Map(node.map((position, at) => [position, at]));
  const neighbours = node.map(() => []);
  for (let at = 0; at < edge.length; at += 2) {
    neighbours[edge[at]].push(edge[at + 1]);
    neighbours[edge[at + 1]].push(edge[at]);
  }
  return {
    nodes: node,
    x,
    y,
    numEdges: edge.length / 2,
    neighbours,
    placeOf: (position) => places.get(position) ?? null,
    // Radius in pixels.
    radius: (at) => SMALL + (LARGE - SMALL) * size[at],
    // The largest nodes are named without being asked.
    named: new Set(
      node
        .map((_, at) => at)
        .sort((a, b) => size[b] - size[a])
        .slice(0, NAMED),
    ),
    *edges() {
      for (let at = 0; at < edge.length; at += 2) yield [edge[at], edge[at + 1]];
    },
  };
}

// What a removal does to each drawn node it changes: how much, and to which class it would flip.
export function affected(shown, effect, data) {
  const found = new Map();
  if (!effect) return found;
  const most = effect.change.reduce((a, b) => Math.max(a, b), 1e-9);
  const add = (other, at, flipped, to) => {
    const place = shown.placeOf(other);
    if (place === null) return;
    const known = found.get(place);
    const share = effect.change[at] / most;
    if (!known || (flipped && !known.flipped) || share > known.share) {
      found.set(place, { share: Math.max(share, known?.share ?? 0), flipped: flipped || Boolean(known?.flipped), to, at });
    }
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

// Where the ends of the chosen edge are drawn, as a pair; null where there is none, or one is not drawn.
export function chosenEdge(shown, { edge }) {
  const ends = edge ? [edge.source, edge.target].map(shown.placeOf) : [null];
  return ends.includes(null) ? null : ends;
}

// How a node looks; `colour` and `ring` name CSS variables. `layer` 0 is quiet, 4 removed nodes.
export function look(shown, at, state, changes, { data, colours }) {
  const position = shown.nodes[at];
  const own = colours.colour(data.classOf(position));
  if (state.edge) {
    const end = position === state.edge.source || position === state.edge.target;
    return { radius: shown.radius(at) + (end ? 2 : 0), colour: own, ring: end ? "--ink" : "--paper", thick: end ? 0.28 : 0.12, label: end, layer: end ? 4 : 1 };
  }
  if (!state.removed.length) {
    return { radius: shown.radius(at), colour: own, ring: "--paper", thick: 0.12, label: shown.named.has(at), layer: 1 };
  }
  if (state.removed.includes(position)) {
    return { radius: Math.max(shown.radius(at), 8), colour: "--paper", ring: "--ink", thick: 0.3, label: true, layer: 4 };
  }
  const change = changes.get(at);
  if (!change) {
    // Without a known effect the picture stays as it is, only quieter.
    const quiet = state.effect ? { colour: "--faded", ring: "--faded" } : { colour: own, ring: "--paper" };
    return { radius: state.effect ? 2.4 : shown.radius(at), ...quiet, thick: 0.1, label: false, layer: 0 };
  }
  const size = 3 + 7 * Math.sqrt(change.share);
  if (change.flipped) {
    return { radius: Math.max(size, 6.5), colour: colours.colour(change.to), ring: "--ink", thick: 0.28, label: change.at < NAMED_CHANGES, layer: 3 };
  }
  return { radius: size, colour: own, ring: "--paper", thick: 0.12, label: false, layer: 2 };
}
