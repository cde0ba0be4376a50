// Every node of a large graph as a dot behind the drawing: one call for all of them, however many.

import { compiled, once } from "./webgl.js";

const VERTEX = `
attribute vec2 place; attribute float group; uniform mat3 view; uniform float size; uniform vec3 colours[10]; varying vec3 own;
void main() {
  gl_Position = vec4((view * vec3(place, 1.0)).xy, 0.0, 1.0);
  gl_PointSize = size;
  int at = int(group + 0.5);
  own = colours[9];
  for (int k = 0; k < 10; k++) if (k == at) own = colours[k];
}`;
const FRAGMENT = `
precision mediump float; varying vec3 own; uniform float strength;
void main() {
  vec2 away = gl_PointCoord - 0.5;
  if (dot(away, away) > 0.25) discard;
  gl_FragColor = vec4(own * strength, strength);
}`;

export const rgb = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16) / 255);

// `slot(position)` is which colour a node has, 0 … 8, or 9 for none.
export function backdrop(canvas, { x, y, drawn, slot }) {
  const { gl, at, fill } = compiled(canvas, VERTEX, FRAGMENT);
  const drawnYet = once();
  const nodes = drawn ?? x.map((_, position) => position);
  const places = new Float32Array(2 * nodes.length);
  nodes.forEach((position, k) => {
    places[2 * k] = x[position] / 10000;
    places[2 * k + 1] = y[position] / 10000;
  });
  fill("place", places, 2);
  fill("group", Float32Array.from(nodes, slot), 1);

  // Which node is nearest to a spot, within `reach` of the drawing's unit: by cells, so that few are looked at.
  const CELLS = 200;
  const cell = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor((value / 10000) * CELLS)));
  const cells = new Map();
  for (const position of nodes) {
    const key = cell(x[position]) * CELLS + cell(y[position]);
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(position);
  }
  return {
    nearest(px, py, reach) {
      let best = null;
      let least = reach * reach;
      for (let i = cell(px - reach); i <= cell(px + reach); i++) {
        for (let j = cell(py - reach); j <= cell(py + reach); j++) {
          for (const position of cells.get(i * CELLS + j) ?? []) {
            const away = (x[position] - px) ** 2 + (y[position] - py) ** 2;
            if (away < least) [least, best] = [away, position];
          }
        }
      }
      return best;
    },
    draw({ matrix, width, height, pixelRatio: ratio }, colours, size, strength, again = false) {
      if (!drawnYet([...matrix, width, height, ratio, colours.flat(), size, strength].join(), again)) return;
      gl.resize(width, height, ratio);
      gl.uniformMatrix3fv(at("view"), false, matrix);
      gl.uniform3fv(at("colours"), colours.flat());
      gl.uniform1f(at("size"), size * ratio);
      gl.uniform1f(at("strength"), strength);
      gl.drawArrays(gl.POINTS, 0, nodes.length);
    },
  };
}
