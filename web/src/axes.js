// Scales and axes for small SVG charts.

import { svg } from "./dom.js";
import { number, percent } from "./format.js";

export function linear([low, high], [from, to]) {
  const scale = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  scale.ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => low + share * (high - low));
  scale.format = percent;
  return scale;
}

export function logarithmic([low, high], [from, to]) {
  const [a, b] = [Math.log10(low), Math.log10(high)];
  // Room for the outermost dots; one decade at least, or rounding noise would look like a spread.
  const middle = (a + b) / 2;
  const half = Math.max((b - a) / 2 + 0.08, 0.5);
  const scale = (value) => from + ((Math.log10(value) - middle + half) / (2 * half)) * (to - from);
  const steps = half < 0.9 ? [1, 2, 5] : [1];
  scale.ticks = [];
  for (let power = Math.floor(middle - half); power <= Math.ceil(middle + half); power++) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (Math.log10(value) >= middle - half && Math.log10(value) <= middle + half) scale.ticks.push(value);
    }
  }
  while (scale.ticks.length > 7) scale.ticks = scale.ticks.filter((_, index) => index % 2 === 0);
  scale.format = number;
  return scale;
}

export function axes(box, x, y, xTitle, yTitle) {
  const grid = svg("g", { class: "grid" });
  const text = svg("g", { class: "ticks" });
  for (const value of x.ticks) {
    grid.append(svg("line", { x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }));
    text.append(svg("text", { x: x(value), y: box.bottom + 17, "text-anchor": "middle" }, x.format(value)));
  }
  for (const value of y.ticks) {
    grid.append(svg("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value) }));
    text.append(svg("text", { x: box.left - 8, y: y(value) + 4, "text-anchor": "end" }, y.format(value)));
  }
  text.append(
    svg("text", { class: "title", x: box.right, y: box.bottom + 35, "text-anchor": "end" }, xTitle),
    svg("text", { class: "title", x: box.left - 44, y: box.top - 12 }, yTitle),
  );
  return [grid, text];
}
