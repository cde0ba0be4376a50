// What is under the pointer, found by looking at places instead of pixels. Sigma would draw everything a second time in
// colours that stand for nodes and edges, and read a pixel back on every move, which waits for the graphics card.

import { EdgeRectangleProgram } from "sigma/rendering";

const NODE_ROOM = 2;
const EDGE_ROOM = 4;
// A finger is less exact than a mouse.
const FINGER_ROOM = 9;

// A program of sigma's that draws nothing to be read back.
export const unread = (Program) =>
  class extends Program {
    constructor(gl, pickingBuffer, renderer) {
      super(gl, null, renderer);
    }
  };

export const unreadEdges = unread(EdgeRectangleProgram);

// The distance of a point from a line between two others, squared.
function apart(x, y, ax, ay, bx, by) {
  const [dx, dy] = [bx - ax, by - ay];
  const length = dx * dx + dy * dy;
  const share = length ? Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / length)) : 0;
  return (x - ax - share * dx) ** 2 + (y - ay - share * dy) ** 2;
}

// From now on sigma's events of nodes and edges come from their places.
export function pickByPlace(sigma, graph, edges, drawing) {
  const coarse = matchMedia("(pointer: coarse)");
  const inGraph = ({ x, y }) => {
    const [here, there] = [sigma.viewportToGraph({ x, y }), sigma.viewportToGraph({ x: x + 1, y })];
    return { ...here, pixel: Math.hypot(there.x - here.x, there.y - here.y) };
  };
  sigma.getNodeAtPosition = (position) => {
    const { x, y, pixel } = inGraph(position);
    let [best, front, least] = [null, -1, Infinity];
    graph.forEachNode((id, own) => {
      const away = (own.x - x) ** 2 + (own.y - y) ** 2;
      const shown = sigma.getNodeDisplayData(id);
      if (!shown || shown.hidden) return;
      const size = sigma.scaleSize(shown.size);
      const inside = away <= ((size + NODE_ROOM) * pixel) ** 2;
      if (!inside && !(coarse.matches && away <= ((size + FINGER_ROOM) * pixel) ** 2)) return;
      // A click hits the node drawn in front, and beside all nodes the nearest one.
      const layer = inside ? (shown.zIndex ?? 0) : -1;
      if (layer > front || (layer === front && away < least)) [best, front, least] = [id, layer, away];
    });
    return best;
  };
  sigma.getEdgeAtPoint = (px, py) => {
    const { x, y, pixel } = inGraph({ x: px, y: py });
    let best = null;
    let least = ((coarse.matches ? FINGER_ROOM : EDGE_ROOM) * pixel) ** 2;
    const look = (a, b) => {
      const [ax, ay, bx, by] = [drawing.x[a], drawing.y[a], drawing.x[b], drawing.y[b]];
      const reach = Math.sqrt(least);
      if (x < Math.min(ax, bx) - reach || x > Math.max(ax, bx) + reach || y < Math.min(ay, by) - reach || y > Math.max(ay, by) + reach) return;
      const away = apart(x, y, ax, ay, bx, by);
      if (away < least) [best, least] = [[a, b], away];
    };
    const pairs = edges();
    for (let at = 0; at < pairs.length; at += 2) look(pairs[at], pairs[at + 1]);
    graph.forEachEdge((_, __, a, b) => look(Number(a), Number(b))); // those that come are among these only
    return best && `${Math.min(...best)}-${Math.max(...best)}`;
  };
}
