// The nodes of a page, and what follows directly from their facts.

const folded = (text) => text.toLocaleLowerCase();

export function nodes(report) {
  const node = report.node;
  const size = node.id.length;
  // What a node is called: its name, or where there are no names, its number.
  const named = Boolean(node.name);
  const nameOf = (position) => (named ? node.name[position] : `node ${node.id[position]}`);
  // The class a node is coloured by: the predicted one, on links the known one; −1 for none.
  const classOf = (position) => (report.coloured_by ? node[report.coloured_by][position] : -1);
  const className = (index) => (index >= 0 && index < report.classes.length ? report.classes[index].name : "–");

  // Positions of the scored nodes, the most influential first.
  const ranked = Array.from({ length: size }, (_, position) => position)
    .filter((position) => node.rank[position] > 0)
    .sort((a, b) => node.rank[a] - node.rank[b]);

  const positions = new Map(node.id.map((id, position) => [id, position]));
  const positionOf = (id) => positions.get(id) ?? null;

  // Which influences are the definition's own: all, or of an estimate those that were computed besides.
  const exact = report.estimate ? new Set(report.estimate.exact) : null;
  const isExact = (position) => exact === null || exact.has(position);
  // Whether a rank is that of an exact value among exact values.
  const isPlaced = (position) => exact === null || node.rank[position] <= report.estimate.leading;
  // How far an influence may be off either way, as [lowest, highest]; null where it is exact or unknown.
  function range(position) {
    const value = node.influence[position];
    if (isExact(position) || value === null) return null;
    if (node.error) return node.error[position] === null ? null : [Math.max(0, value - node.error[position]), value + node.error[position]];
    const factor = report.estimate.factor;
    return factor ? [value / factor, value * factor] : null;
  }

  const searchable = Array.from({ length: size }, (_, position) =>
    named ? [folded(nameOf(position))] : [String(node.id[position]), folded(nameOf(position))],
  );

  // Does what a node is called contain the text, or its class's name begin with it?
  function matches(position, text) {
    const wanted = folded(text.trim());
    if (!wanted) return true;
    if (searchable[position].some((own) => own.includes(wanted))) return true;
    const own = classOf(position);
    return own >= 0 && folded(className(own)).startsWith(wanted);
  }

  // The node of just this name first, then names that begin with the text, then others; each by rank.
  function find(text, most) {
    const wanted = folded(text.trim());
    if (!wanted) return [];
    const tests = [(own) => own === wanted, (own) => own.startsWith(wanted), (own) => own.includes(wanted)];
    const found = tests.map(() => []);
    const look = (position) => {
      const best = tests.findIndex((test) => searchable[position].some(test));
      if (best >= 0) found[best].push(position);
    };
    ranked.forEach(look);
    for (let position = 0; position < size; position++) if (!(node.rank[position] > 0)) look(position);
    return found.flat().slice(0, most);
  }

  return { node, size, named, nameOf, classOf, className, ranked, positionOf, isExact, isPlaced, range, matches, find };
}
