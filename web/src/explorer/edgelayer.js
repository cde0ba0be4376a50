// The graph's edges as one layer behind the nodes. It is drawn when the view or the edges change, not when a state does:
// what a state lights up is drawn above it by sigma, and the layer itself fades by its style.

import { compiled, once } from "./webgl.js";

const VERTEX = `
attribute vec4 ends; attribute vec2 corner; uniform mat3 view; uniform vec2 room; uniform float wide; varying float away;
void main() {
  vec2 one = (view * vec3(ends.xy, 1.0)).xy * room, other = (view * vec3(ends.zw, 1.0)).xy * room;
  vec2 along = other - one;
  vec2 across = vec2(-along.y, along.x) / max(length(along), 0.001);
  away = corner.y * (wide + 1.0);
  gl_Position = vec4((mix(one, other, corner.x) + across * away) / room, 0.0, 1.0);
}`;
const FRAGMENT = `
precision highp float; varying float away; uniform float wide; uniform vec3 colour;
void main() {
  float strength = clamp(wide + 0.5 - abs(away), 0.0, 1.0);
  gl_FragColor = vec4(colour * strength, strength);
}`;
// Two triangles: which end, and which side.
const CORNERS = [[0, -1], [1, -1], [0, 1], [0, 1], [1, -1], [1, 1]];

export function edgeLayer(canvas) {
  const { gl, at, fill } = compiled(canvas, VERTEX, FRAGMENT);
  let size = 0;
  let version = 0;
  const drawn = once();
  return {
    // `pairs` are positions of nodes, two for every edge.
    set(pairs, x, y) {
      size = pairs.length / 2;
      version += 1;
      const ends = new Float32Array(24 * size);
      const corners = new Float32Array(12 * size);
      for (let k = 0; k < size; k++) {
        const [a, b] = [pairs[2 * k], pairs[2 * k + 1]];
        CORNERS.forEach((corner, c) => {
          ends.set([x[a] / 10000, y[a] / 10000, x[b] / 10000, y[b] / 10000], 24 * k + 4 * c);
          corners.set(corner, 12 * k + 2 * c);
        });
      }
      fill("ends", ends, 4);
      fill("corner", corners, 2);
    },
    draw({ matrix, width, height, pixelRatio }, colour, again = false) {
      if (!drawn([...matrix, width, height, pixelRatio, ...colour, version].join(), again)) return;
      gl.resize(width, height, pixelRatio);
      gl.uniformMatrix3fv(at("view"), false, matrix);
      gl.uniform2f(at("room"), canvas.width / 2, canvas.height / 2);
      gl.uniform1f(at("wide"), 0.5 * pixelRatio);
      gl.uniform3fv(at("colour"), colour);
      gl.drawArrays(gl.TRIANGLES, 0, 6 * size);
    },
  };
}
