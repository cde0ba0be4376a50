// What the page was given, and what follows from it at once.

export const report = JSON.parse(document.getElementById("report-data").textContent);

export const node = report.node;
export const size = node.id.length;

export function nameOf(position) {
  return node.name ? node.name[position] : `node ${node.id[position]}`;
}

// The class a node is coloured by: the predicted one, on links the known one; −1 for none.
export function classOf(position) {
  return report.coloured_by ? node[report.coloured_by][position] : -1;
}

export function className(index) {
  return index >= 0 && index < report.classes.length ? report.classes[index].name : "–";
}

// The name of the CSS variable with a class's colour.
export function classColour(index) {
  if (!report.coloured_by) return "--class-0";
  const slot = index >= 0 && index < report.classes.length ? report.classes[index].colour : -1;
  return slot >= 0 ? `--class-${slot}` : "--class-other";
}

// Positions of the scored nodes, the most influential first.
export const ranked = Array.from({ length: size }, (_, position) => position)
  .filter((position) => node.rank[position] > 0)
  .sort((a, b) => node.rank[a] - node.rank[b]);

const positions = new Map(node.id.map((id, position) => [id, position]));
export const positionOf = (id) => positions.get(id) ?? null;

export const effectOf = (position) => report.effect[position] ?? null;

// What a node is called: its name, or where there are no names, its number.
export const named = Boolean(node.name);

const folded = (text) => text.toLocaleLowerCase();
const searchable = Array.from({ length: size }, (_, position) =>
  named ? [folded(nameOf(position))] : [String(node.id[position]), folded(nameOf(position))],
);

// Does what a node is called contain the text, or its class's name begin with it?
export function matches(position, text) {
  const wanted = folded(text.trim());
  if (!wanted) return true;
  if (searchable[position].some((own) => own.includes(wanted))) return true;
  const own = classOf(position);
  return own >= 0 && folded(className(own)).startsWith(wanted);
}

// The node of just this name first, then names that begin with the text, then others; each by rank.
export function find(text, most) {
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
