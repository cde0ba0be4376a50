// Names beside points: each takes the place around its point where it covers least.

import { svg } from "./dom.js";

const context = document.createElement("canvas").getContext("2d");
const HEIGHT = 15;

const overlap = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

// `wanted`: {x, y, text} in pixels; `points`: [x, y] to keep visible.
export function names(wanted, points, box) {
  context.font = "550 12px system-ui, sans-serif";
  const taken = [];
  return wanted.map(({ x, y, text }) => {
    const label = text.length > 24 ? `${text.slice(0, 23)}…` : text;
    const width = context.measureText(label).width + 4;
    let best = null;
    for (const distance of [8, 16, 28, 44]) {
      for (let turn = 0; turn < 16; turn++) {
        const angle = (turn * Math.PI) / 8;
        const cx = x + Math.cos(angle) * (distance + width / 2);
        const cy = y + Math.sin(angle) * (distance + HEIGHT / 2);
        const own = { left: cx - width / 2, right: cx + width / 2, top: cy - HEIGHT / 2, bottom: cy + HEIGHT / 2 };
        let cost = distance / 4;
        if (own.left < box.left || own.right > box.right || own.top < box.top - 8 || own.bottom > box.bottom) cost += 1000;
        for (const other of taken) cost += overlap(own, other);
        for (const [px, py] of points) if (px > own.left && px < own.right && py > own.top && py < own.bottom) cost += 2;
        if (best === null || cost < best.cost) best = { cost, cx, cy, ...own };
      }
    }
    taken.push(best);
    const edge = { x: Math.min(Math.max(x, best.left), best.right), y: Math.min(Math.max(y, best.top), best.bottom) };
    const away = Math.hypot(edge.x - x, edge.y - y) > 6;
    return svg(
      "g",
      { class: "name" },
      away ? svg("line", { x1: x, y1: y, x2: edge.x, y2: edge.y }) : null,
      svg("text", { x: best.cx, y: best.cy + 4, "text-anchor": "middle" }, label),
    );
  });
}
