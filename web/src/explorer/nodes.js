// The nodes of the explorer: as in the report, with influences that come in while one looks. A node's position is its id.

const folded = (text) => text.toLocaleLowerCase();

export function nodes(report) {
  const size = report.num_nodes;
  const node = report.node;
  node.id = Array.from({ length: size }, (_, id) => id);
  node.influence = new Array(size).fill(null);
  node.rank = new Array(size).fill(0);
  const named = Boolean(node.name);
  const nameOf = (position) => (named ? node.name[position] : `node ${position}`);
  const classOf = (position) => (report.coloured_by ? node[report.coloured_by][position] : -1);
  const className = (index) => (index >= 0 && index < report.classes.length ? report.classes[index].name : "–");
  const searchable = Array.from({ length: size }, (_, position) => folded(nameOf(position)));
  const byDegree = node.id.slice().sort((a, b) => node.degree[b] - node.degree[a]);
  const listeners = [];
  const found = {
    node,
    size,
    named,
    nameOf,
    classOf,
    className,
    // Those with an influence by it, then the others by degree.
    ranked: byDegree,
    progress: { done: 0, total: size, status: "waiting" },
    positionOf: (id) => (Number.isInteger(id) && id >= 0 && id < size ? id : null),
    isExact: () => found.progress.exact !== false,
    // A rank is final when all influences are there, and exact.
    isPlaced: () => found.progress.status === "done" && found.isExact(),
    range: () => null,
    matches(position, text) {
      const wanted = folded(text.trim());
      return !wanted || searchable[position].includes(wanted);
    },
    onRanking: (listener) => listeners.push(listener),
    take({ id, influence, ...progress }) {
      id.forEach((position, at) => (node.influence[position] = influence[at]));
      found.progress = progress;
      const known = byDegree.filter((position) => node.influence[position] !== null);
      known.sort((a, b) => node.influence[b] - node.influence[a]);
      known.forEach((position, at) => (node.rank[position] = at + 1));
      found.ranked = known.length === size ? known : [...known, ...byDegree.filter((position) => node.influence[position] === null)];
      report.scored = known.length;
      for (const listener of listeners) listener(progress);
    },
  };
  report.scored = 0;
  return found;
}
