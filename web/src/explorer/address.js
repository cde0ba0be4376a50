// A state as an address, so that back is undo and a link can be sent: `#remove=17&remove_edge=3-17&add_edge=5-9&set=17.3:0.5`; an
// added edge may have a type, `add_edge=5-9~1`, and values, `add_edge=5-9:edge_weight=0.5`.
// `against` holds a second state to compare with.

// Links of earlier versions.
const FORMERLY = { cut: "remove_edge", add: "add_edge" };

const whole = (text) => (/^\d{1,15}$/.test(text) ? Number(text) : null);

function parameter(edit) {
  if (edit.kind === "remove") return ["remove", String(edit.node)];
  if (edit.kind === "set") return ["set", `${edit.node}.${edit.feature}:${edit.value}`];
  const values = Object.entries(edit.values ?? {}).map(([key, value]) => `:${key}=${value}`);
  const type = edit.type === undefined ? "" : `~${edit.type}`;
  return [edit.kind, edit.edge.join("-") + type + values.join("")];
}

export function written(edits, against = null) {
  const parts = new URLSearchParams(edits.map(parameter));
  if (against) parts.append("against", written(against));
  return parts.toString().replaceAll("%3A", ":").replaceAll("%7E", "~");
}

function one(kind, text, size) {
  const known = (id) => id !== null && id < size;
  if (kind === "remove") return known(whole(text)) ? { kind, node: whole(text) } : null;
  if (kind === "set") {
    const found = /^(\d{1,15})\.(\d{1,15}):(-?[\d.]+(?:e[-+]?\d+)?)$/i.exec(text);
    if (!found || !known(Number(found[1])) || !Number.isFinite(Number(found[3]))) return null;
    return { kind, node: Number(found[1]), feature: Number(found[2]), value: Number(found[3]) };
  }
  const [place, ...given] = text.split(":");
  const [ends, ...types] = place.split("~");
  const edge = ends.split("-").map(whole);
  if (edge.length !== 2 || !edge.every(known)) return null;
  if (kind === "remove_edge") return { kind, edge };
  const values = Object.fromEntries(given.map((part) => part.split("=")).map(([key, value]) => [key, Number(value)]));
  const type = types.length ? whole(types[0]) : null;
  return { kind, edge, ...(given.length ? { values } : {}), ...(type === null ? {} : { type }) };
}

// What an address says of a graph of so many nodes; what cannot be read is left out.
export function read(hash, size) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const edits = [];
  let against = null;
  for (const [name, text] of parts) {
    const kind = FORMERLY[name] ?? name;
    if (kind === "against") against = read(text, size).edits;
    else if (["remove", "remove_edge", "add_edge", "set"].includes(kind)) {
      const edit = one(kind, text, size);
      if (edit) edits.push(edit);
    }
  }
  return { edits, against };
}
