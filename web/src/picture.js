// The graph as SVG: what is printed, and what stands in where there is no WebGL.

import { el, svg, withVariables } from "./dom.js";
import { affected, chosenEdge, look } from "./scene.js";

const SIZE = 1000;
// About how wide a letter of a name is.
const LETTER = 8;

export function picture(page, first) {
  const { data, selection } = page;
  let shown = first;
  let circles = [];
  let whole = null;
  let zoom = 1;
  let centre = null;
  const x = (at) => shown.x[at] / 10;
  const y = (at) => SIZE - shown.y[at] / 10;
  const root = svg("svg", { class: "picture", role: "img", "aria-label": "The graph" });
  const edges = svg("path", { class: "edges" });
  const own = svg("path", { class: "edges chosen" });
  const chosen = svg("path", { class: "edges edge" });
  const layer = svg("g");
  const labels = svg("g", { class: "labels" });
  const line = ([from, to]) => `M${x(from).toFixed(1)} ${y(from).toFixed(1)}L${x(to).toFixed(1)} ${y(to).toFixed(1)}`;

  // The part of the square that is drawn on, with room for circles and names.
  function extent() {
    const all = shown.nodes.map((_, at) => [x(at), y(at)]);
    const low = [0, 1].map((axis) => Math.min(...all.map((one) => one[axis]), SIZE / 2) - 25);
    const high = [0, 1].map((axis) => Math.max(...all.map((one) => one[axis]), SIZE / 2) + 25);
    return { x: low[0], y: low[1], width: high[0] - low[0] + 60, height: high[1] - low[1] };
  }

  // Beside its node, on the side where a long name has room.
  function name(at, away) {
    const text = data.nameOf(shown.nodes[at]);
    const left = x(at) + away + text.length * LETTER > whole.x + whole.width && x(at) > whole.x + whole.width / 2;
    return svg("text", { x: x(at) + (left ? -away : away), y: y(at) + 5, "text-anchor": left ? "end" : "start" }, text);
  }

  function update() {
    const { state } = selection;
    const changes = affected(shown, state.effect, data);
    const looks = shown.nodes.map((_, at) => look(shown, at, state, changes, page));
    looks.forEach((one, at) => {
      circles[at].setAttribute("r", one.radius * 1.15);
      withVariables(circles[at], { "--own": `var(${one.colour})`, "--ring": `var(${one.ring})` });
      circles[at].setAttribute("stroke-width", (one.thick * one.radius).toFixed(2));
    });
    const order = looks.map((_, at) => at).sort((a, b) => looks[a].layer - looks[b].layer || looks[b].radius - looks[a].radius);
    layer.replaceChildren(...order.map((at) => circles[at]));
    labels.replaceChildren(
      ...order.filter((at) => looks[at].label).slice(-24).map((at) => name(at, looks[at].radius * 1.15 + 4)),
    );
    const places = state.removed.map(shown.placeOf).filter((place) => place !== null);
    const picked = chosenEdge(shown, state);
    edges.classList.toggle("faded", state.removed.length > 0 || Boolean(state.edge));
    chosen.setAttribute("d", picked ? line(picked) : "");
    own.setAttribute("d", places.length ? [...shown.edges()].filter((edge) => places.some((place) => edge.includes(place))).map(line).join("") : "");
    frame();
  }

  function show(next) {
    shown = next;
    whole = extent();
    [zoom, centre] = [1, null];
    circles = shown.nodes.map((position, at) =>
      svg("circle", { cx: x(at).toFixed(1), cy: y(at).toFixed(1), onclick: () => selection.select(position, "graph") }, svg("title", {}, data.nameOf(position))),
    );
    edges.setAttribute("d", [...shown.edges()].map(line).join(""));
    update();
  }

  function frame() {
    const [width, height] = [whole.width / zoom, whole.height / zoom];
    const [cx, cy] = centre ?? [whole.x + whole.width / 2, whole.y + whole.height / 2];
    root.setAttribute("viewBox", [cx - width / 2, cy - height / 2, width, height].map((n) => n.toFixed(1)).join(" "));
  }

  function rescale(by) {
    zoom = Math.min(Math.max(zoom * by, 1), 16);
    const place = selection.only === null ? null : shown.placeOf(selection.only);
    centre = zoom === 1 ? null : place === null ? centre : [x(place), y(place)];
    frame();
  }

  root.append(edges, own, chosen, layer, labels);
  show(first);
  return {
    root,
    show,
    update,
    closer: () => rescale(1.5),
    farther: () => rescale(1 / 1.5),
    whole: () => rescale(0),
  };
}

export function notice() {
  return el("p", { class: "notice", role: "note" }, "This browser offers no WebGL, so the graph is a still picture here. Everything else works.");
}
