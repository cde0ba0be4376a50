// The nodes of the explorer: as in the report, with influences that come in while one looks. A node's position is its id.

const folded = (text) => text.toLocaleLowerCase();
const MEASURES = { change: "change", flips: "flips", loss: "loss", accuracy: "accuracy" };

export function nodes(report) {
  const size = report.num_nodes;
  const node = report.node;
  node.id = Array.from({ length: size }, (_, id) => id);
  node.influence = new Array(size).fill(null);
  const named = Boolean(node.name);
  const nameOf = (position) => (named ? node.name[position] : `node ${position}`);
  const classOf = (position) => (report.coloured_by ? node[report.coloured_by][position] : -1);
  const className = (index) => (index >= 0 && index < report.classes.length ? report.classes[index].name : "–");
  // Made at the first search: a large graph has many names.
  let searchable = null;
  const byDegree = node.id.slice().sort((a, b) => node.degree[b] - node.degree[a]);
  const listeners = [];
  const waiting = () => ({ done: 0, total: size, status: "waiting" });
  const weight = (position) => (found.progress.signed ? Math.abs(node.influence[position]) : node.influence[position]);

  // Sorting all takes a while in a large graph: while scores come in, not more often than is worth it.
  let sorted = { ranked: byDegree, rank: new Array(size).fill(0) };
  let fresh = true;
  let next = 0;
  function sort() {
    const begun = performance.now();
    if (fresh || (begun < next && found.progress.status === "running")) return sorted;
    const known = byDegree.filter((position) => node.influence[position] !== null);
    known.sort((a, b) => weight(b) - weight(a));
    const rank = new Array(size).fill(0);
    known.forEach((position, at) => (rank[position] = at + 1));
    sorted = { ranked: known.length === size ? known : [...known, ...byDegree.filter((position) => node.influence[position] === null)], rank };
    report.scored = known.length;
    fresh = true;
    next = performance.now() + Math.max(300, 20 * (performance.now() - begun));
    return sorted;
  }
  Object.defineProperty(node, "rank", { get: () => sort().rank });

  const found = {
    node,
    size,
    named,
    nameOf,
    classOf,
    className,
    featureName: (column) => report.feature_names[column] ?? `feature ${column}`,
    weight,
    // Those with an influence by it, then the others by degree.
    get ranked() {
      return sort().ranked;
    },
    mostDegree: node.degree[byDegree[0]] ?? 1,
    progress: waiting(),
    measure: "change",
    measureText: (measure) => MEASURES[measure] ?? `towards ${className(Number(measure.split(":")[1]))}`,
    get measureTitle() {
      return found.measure === "change" ? "Influence" : found.measureText(found.measure).replace(/^./, (letter) => letter.toUpperCase());
    },
    positionOf: (id) => (Number.isInteger(id) && id >= 0 && id < size ? id : null),
    isExact: () => found.progress.exact !== false,
    // A rank is final when all influences are there, and exact.
    isPlaced: () => found.progress.status === "done" && found.isExact(),
    range: () => null,
    matches(position, text) {
      const wanted = folded(text.trim());
      if (!wanted) return true;
      searchable ??= Array.from({ length: size }, (_, one) => folded(nameOf(one)));
      return searchable[position].includes(wanted);
    },
    onRanking: (listener) => listeners.push(listener),
    // By another measure: nothing is known yet.
    use(measure) {
      found.measure = measure;
      node.influence.fill(null);
      found.progress = waiting();
      fresh = false;
      next = 0;
      for (const listener of listeners) listener(found.progress);
    },
    take({ id, influence, ...progress }) {
      id.forEach((position, at) => (node.influence[position] = influence[at]));
      found.progress = progress;
      fresh = false;
      for (const listener of listeners) listener(progress);
    },
  };
  report.scored = 0;
  return found;
}
