// Where a page reads from. Components never ask the document or a server themselves, only a source:
//
//   value              what is known from the start, as nora.report.contents writes it
//   has(position)      whether the effect of this node's removal can be had here
//   effect(removed)    what the removal of these positions, together, would change; null where this source
//                      does not know. A value, or a promise of one
//   neighbours(position)  neighbours of a node, by position, or null where they are not known; or a promise
//
// A page that is one file has everything inside (`embedded`); one that is served gives the same four.

import { strFromU8, unzlibSync } from "fflate";

function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return JSON.parse(strFromU8(unzlibSync(packed)));
}

// Edges as Python packs them: of each node how many partners come after it, and the steps from each to the next.
function adjacency({ count, step }) {
  const neighbours = count.map(() => []);
  let at = 0;
  count.forEach((amount, from) => {
    let to = from;
    for (let k = 0; k < amount; k++) {
      to += step[at++];
      neighbours[from].push(to);
      neighbours[to].push(from);
    }
  });
  return neighbours;
}

export function embedded(text) {
  const { pieces, ...value } = JSON.parse(text);
  if (pieces.node) value.node = unpacked(pieces.node);
  const { of, each } = value.effects;
  const place = new Map(of.map((position, at) => [position, at]));
  const opened = new Map();
  let neighbours = null;
  return {
    value,
    has: (position) => place.has(position),
    effect(removed) {
      if (removed.length !== 1 || !place.has(removed[0])) return null;
      const at = place.get(removed[0]);
      const piece = Math.floor(at / each);
      if (!opened.has(piece)) opened.set(piece, unpacked(pieces.effects[piece]));
      return opened.get(piece)[at % each];
    },
    neighbours(position) {
      if (!pieces.edges) return null;
      neighbours ??= adjacency(unpacked(pieces.edges));
      return neighbours[position];
    },
  };
}
