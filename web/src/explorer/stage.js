// The graph of the explorer, drawn by sigma. A small graph is drawn whole; of a large one every node is a dot in the
// background, and in front of it what the state is about: removed and selected nodes, their neighbours, and nodes that change.

import Graph from "graphology";
import Sigma from "sigma";
import { createNodeBorderProgram } from "@sigma/node-border";
import { colours as themeColours, onTheme } from "../appearance.js";
import { card } from "../card.js";
import { drawLabels } from "../labels.js";
import { backdrop, rgb } from "./backdrop.js";
import { pickByPlace, unread, unreadEdges } from "./hits.js";
import { changesOf, looks } from "./look.js";
import { edgeLayer } from "./edgelayer.js";

const Disc = createNodeBorderProgram({
  borders: [
    { size: { attribute: "thick", defaultValue: 0.12, mode: "relative" }, color: { attribute: "ring" } },
    { size: { fill: true }, color: { attribute: "color" } },
  ],
});
// Where nodes have types, each type has a shape: how far a point is from the middle decides it.
const SHAPES = { disc: "length(v_diffVector)", square: "1.42 * max(abs(v_diffVector.x), abs(v_diffVector.y))", diamond: "abs(v_diffVector.x) + abs(v_diffVector.y)" };
const shaped = (distance) =>
  class extends unread(Disc) {
    getDefinition() {
      const known = super.getDefinition();
      return { ...known, FRAGMENT_SHADER_SOURCE: known.FRAGMENT_SHADER_SOURCE.replace("length(v_diffVector)", distance) };
    }
  };
const nodePrograms = Object.fromEntries(Object.entries(SHAPES).map(([name, distance]) => [name, shaped(distance)]));
export const shapeOf = (kind) => Object.keys(SHAPES)[kind % 3];
const NAMED = 10;
const SHOWN_CHANGES = 900;
const LEADERS = 40;
const NEAR_PIXELS = 9;
const ON_PIXELS = 3;
// So long the picture waits for an answer before it shows what was clicked without it: drawn once instead of twice.
const PATIENCE = 120;
const key = (edge) => `${Math.min(...edge)}-${Math.max(...edge)}`;

export function stage(place, page) {
  const { report, data, changes: actions, source } = page;
  const { drawing } = report;
  const { state } = actions;
  let colour = themeColours();
  let changes = new Map();
  let mode = "class";
  let look = looks(page, mode);
  let hovered = null;
  let lit = null;
  let labels = [];
  let neighbourhood = null;
  let patience = null;
  const graph = new Graph({ multi: false, type: "undirected" });
  const hover = card(page);
  const marks = new Map(); // edges that are removed or added

  function put(position) {
    const id = String(position);
    if (!graph.hasNode(id)) graph.addNode(id, { x: drawing.x[position], y: drawing.y[position], size: 3, label: data.nameOf(position), type: shapeOf(data.node.kind?.[position] ?? 0) });
  }
  // All edges that are drawn, as pairs of positions, and each node's others.
  let pairs = [];
  const neighbours = new Map();
  function link(edges) {
    pairs = edges;
    neighbours.clear();
    const beside = (one, other) => (neighbours.get(one) ?? neighbours.set(one, []).get(one)).push(other);
    for (let at = 0; at < pairs.length; at += 2) {
      beside(pairs[at], pairs[at + 1]);
      beside(pairs[at + 1], pairs[at]);
    }
    lines.set(pairs, drawing.x, drawing.y);
  }
  const layer = (name) => {
    const canvas = document.createElement("canvas");
    canvas.className = name;
    place.append(canvas);
    return canvas;
  };

  const behind = layer("backdrop dots");
  const between = layer("backdrop");
  const lines = edgeLayer(between);
  if (drawing.whole) {
    for (const position of data.node.id) put(position);
    link(drawing.edge);
  }
  const dots = drawing.whole ? null : backdrop(behind, { ...drawing, slot: (position) => { const own = page.colours.slot(data.classOf(position)); return own >= 0 ? own : 8; } });
  const front = document.createElement("div");
  front.className = "front";
  place.append(front);

  const leaders = () => new Set(data.ranked.slice(0, NAMED).map(String));
  let first = leaders();
  const sigma = new Sigma(graph, front, {
    nodeProgramClasses: nodePrograms,
    defaultNodeType: "disc",
    edgeProgramClasses: { line: unreadEdges },
    defaultDrawNodeLabel: (context, one) => one.label && labels.push(one),
    defaultDrawNodeHover: (context, one) => {
      context.beginPath();
      context.arc(one.x, one.y, one.size + 3, 0, 2 * Math.PI);
      context.lineWidth = 1.5;
      context.strokeStyle = colour("--ink");
      context.stroke();
    },
    labelRenderedSizeThreshold: 11,
    labelGridCellSize: 90,
    labelDensity: 0.7,
    zIndex: true,
    stagePadding: 24,
    minCameraRatio: 0.01,
    maxCameraRatio: 1.6,
    minEdgeThickness: 0.5,
    enableEdgeEvents: true,
    allowInvalidContainer: true,
    nodeReducer(id, one) {
      const own = look(Number(id), state, changes, colour);
      const quiet = lit !== null && !lit.has(id) && own.layer < 4;
      const label = (own.layer === 0 && id !== hovered) || quiet ? "" : one.label;
      const tint = quiet ? { color: colour("--faded"), ring: colour("--faded") } : { color: own.color, ring: own.ring };
      const named = own.label || (!state.edits.length && first.has(id));
      return { ...one, size: own.radius, ...tint, thick: own.thick, forceLabel: named && !quiet, label, zIndex: quiet ? 0 : own.layer };
    },
    edgeReducer(id, one) {
      const mark = marks.get(id);
      if (mark) return { ...one, size: 3, color: colour(mark === "remove_edge" ? "--removed" : "--accent"), zIndex: 4 };
      if (hovered !== null && (hovered === id || graph.hasExtremity(id, hovered))) return { ...one, size: 1.8, color: colour("--edge-lit"), zIndex: 3 };
      return { ...one, size: 1.3, color: colour("--edge-chosen"), zIndex: 1 };
    },
  });
  // Two quick clicks are two clicks, not one that zooms: there are buttons and the wheel.
  sigma.getMouseCaptor().on("mousedown", () => (sigma.getMouseCaptor().clicks = 0));
  pickByPlace(sigma, graph, () => pairs, drawing);
  sigma.setCustomBBox({ x: [0, 10000], y: [0, 10000] });
  const ends = (values) => values.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
  const [across, up] = [ends(drawing.x), ends(drawing.y)];
  // The camera that sees everything: pages are wider than high, and so are most graphs.
  const all = () => {
    const { width, height } = sigma.getDimensions();
    const side = Math.min(width, height);
    const share = ([low, high], room) => ((high - low) / 10000) * (side / room);
    return { x: (across[0] + across[1]) / 20000, y: (up[0] + up[1]) / 20000, ratio: Math.min(1.2, Math.max(0.2, 1.03 * Math.max(share(across, width), share(up, height)))) };
  };

  // What a large graph shows in front: who the state is about, and their edges, which the server knows.
  function arrange(centres, others, found) {
    neighbourhood = found;
    graph.clear();
    for (const position of [...centres, ...others, ...found.neighbours.flat()]) put(position);
    for (const position of found.edge) put(position);
    link(found.edge);
    mark();
    sigma.refresh({ schedule: true });
  }
  async function bring() {
    if (drawing.whole) return;
    const centres = [...new Set([...state.removed, ...state.chosen, ...state.edits.flatMap((edit) => edit.edge ?? [edit.node])])].slice(0, 60);
    const touched = [...changes.keys()].slice(0, SHOWN_CHANGES);
    const others = centres.length ? touched : data.ranked.slice(0, LEADERS);
    let found;
    try {
      found = await source.neighbourhood(centres, others);
    } catch {
      return; // replaced by a later one, or shown elsewhere
    }
    arrange(centres, others, found);
  }

  // Edges that stand out are sigma's: those that are removed or added, and those of whom the state or the pointer is about.
  function drawEdge(from, to) {
    if (from === to) return;
    put(from);
    put(to);
    if (!graph.hasEdge(String(from), String(to))) graph.addUndirectedEdgeWithKey(key([from, to]), String(from), String(to));
  }
  function mark() {
    graph.clearEdges();
    marks.clear();
    for (const edit of state.edits) {
      if (!edit.edge) continue;
      drawEdge(...edit.edge);
      marks.set(key(edit.edge), edit.kind);
    }
    const pointed = hovered === null ? [] : hovered.includes("-") ? [] : [Number(hovered)];
    if (hovered?.includes("-")) drawEdge(...hovered.split("-").map(Number));
    for (const position of [...state.removed, ...state.chosen, ...pointed]) {
      for (const other of neighbours.get(position) ?? []) drawEdge(position, other);
    }
    between.classList.toggle("faded", hovered !== null || (state.edits.length > 0 && drawing.whole));
    behind.classList.toggle("faded", state.edits.length > 0);
  }

  sigma.on("beforeRender", () => (labels = []));
  sigma.on("afterRender", () => {
    drawLabels(sigma.getCanvases().labels.getContext("2d"), labels, colour);
    if (!state.waiting && patience === null) place.dataset.drawn = location.hash; // which state is to be seen
    drawBehind();
  });
  function drawBehind(again = false) {
    const view = sigma.getRenderParams();
    const { zoomRatio } = view;
    lines.draw(view, rgb(colour(pairs.length > 5000 ? "--edge-many" : "--edge")), again);
    if (!dots) return;
    const slots = Array.from({ length: 10 }, (_, at) => rgb(colour(at === 8 ? "--class-other" : at === 9 ? "--faded" : `--class-${at}`)));
    const plain = !report.coloured_by || mode !== "class";
    const used = plain ? slots.map(() => rgb(colour("--faded"))) : slots;
    const size = Math.min(7, Math.max(1.6, 600 / Math.sqrt(report.num_nodes)) / Math.sqrt(Math.max(zoomRatio, 0.02)));
    dots.draw(view, used, size, plain ? 0.8 : 0.55, again);
  }

  const act = (position, event) => {
    const picks = event.shiftKey || page.clicks === "select";
    hide();
    if (picks) actions.choose(position, "graph", event.shiftKey);
    else actions.toggle({ kind: "remove", node: position }, "graph");
  };
  const spot = (event, pixels = NEAR_PIXELS) => {
    if (!dots) return null;
    const here = sigma.viewportToGraph({ x: event.x, y: event.y });
    const there = sigma.viewportToGraph({ x: event.x + pixels, y: event.y });
    return dots.nearest(here.x, here.y, Math.abs(there.x - here.x));
  };
  // A dot that is hit goes before an edge that passes by.
  const edgeAt = sigma.getEdgeAtPoint;
  sigma.getEdgeAtPoint = (x, y) => (spot({ x, y }, ON_PIXELS) === null ? edgeAt(x, y) : null);
  sigma.on("clickNode", ({ node, event }) => act(Number(node), event.original));
  sigma.on("clickEdge", ({ edge, event }) => {
    const ends = edge.split("-").map(Number);
    if (event.original.shiftKey || page.clicks === "select") actions.choose(ends, "graph");
    else if (marks.get(edge) === "add_edge") actions.drop(state.edits.find((edit) => edit.kind === "add_edge" && key(edit.edge) === edge), "graph");
    else actions.toggle({ kind: "remove_edge", edge: ends }, "graph");
  });
  sigma.on("clickStage", ({ event }) => {
    const position = spot(event);
    if (position !== null) act(position, event.original);
    else if (state.chosen.length) actions.choose(null, "graph");
  });

  function show(position) {
    const id = String(position);
    hovered = graph.hasNode(id) ? id : null;
    lit = hovered !== null && drawing.whole ? new Set([id, ...(neighbours.get(position) ?? []).map(String)]) : null;
    front.classList.add("pointing");
    const { x, y } = sigma.graphToViewport({ x: drawing.x[position], y: drawing.y[position] });
    const size = hovered !== null ? sigma.scaleSize(sigma.getNodeDisplayData(id).size) : 4;
    hover.show(position, x, y, size + 12, place.clientWidth, place.clientHeight);
    light();
  }
  function light() {
    mark();
    sigma.refresh({ schedule: true });
  }
  let behindShown = null;
  function hide() {
    hovered = lit = behindShown = null;
    hover.hide();
    front.classList.remove("pointing");
  }
  sigma.on("enterNode", ({ node }) => show(Number(node)));
  sigma.on("leaveNode", () => {
    hide();
    light();
  });
  sigma.on("enterEdge", ({ edge }) => {
    hovered = edge;
    front.classList.add("pointing");
    light();
  });
  sigma.on("leaveEdge", () => {
    hide();
    light();
  });
  if (dots) {
    sigma.getMouseCaptor().on("mousemovebody", (event) => {
      if (hovered !== null && graph.hasNode(hovered)) return;
      const inside = event.x >= 0 && event.y >= 0 && event.x <= place.clientWidth && event.y <= place.clientHeight;
      const position = inside && !event.original.buttons ? spot(event) : null;
      if (position === behindShown) return;
      hide();
      behindShown = position;
      if (position !== null) show(position);
      behindShown = position;
    });
  }
  sigma.getCamera().on("updated", () => hover.hide());
  // The page scrolls as ever: the wheel zooms with Ctrl or ⌘ only, one finger scrolls, two zoom.
  front.addEventListener("wheel", (event) => !(event.ctrlKey || event.metaKey) && event.stopPropagation(), { capture: true, passive: true });
  for (const kind of ["touchstart", "touchmove", "touchend"]) {
    front.addEventListener(kind, (event) => event.touches.length < 2 && event.stopPropagation(), { capture: true, passive: true });
  }
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const camera = sigma.getCamera();
  const move = (to) => (calm.matches ? camera.setState({ ...camera.getState(), ...to }) : camera.animate(to, { duration: 350 }));

  function prepare() {
    look = looks(page, mode);
    first = leaders();
    changes = changesOf(state.effect, data);
  }
  function redraw() {
    prepare();
    // With the next frame: what a click changes at once and the answer may then be painted together.
    sigma.refresh({ schedule: true });
  }
  onTheme(() => {
    colour = themeColours();
    redraw();
  });
  function showState(from) {
    clearTimeout(patience);
    patience = null;
    const answered = from === "answer" ? state.effect?.neighbourhood : null;
    if (answered) {
      prepare();
      arrange(answered.nodes, answered.others, answered);
      return;
    }
    mark();
    redraw();
    bring();
  }
  actions.onChange((_, from) => {
    if (from === "singles" || from === "compare") return;
    if (state.waiting) patience ??= setTimeout(() => showState("waiting"), PATIENCE);
    else showState(from);
    if (state.chosen.length && !["graph", "answer"].includes(from) && from !== "address") {
      const position = state.chosen[state.chosen.length - 1];
      const { ratio } = camera.getState();
      move({ x: drawing.x[position] / 10000, y: drawing.y[position] / 10000, ratio: Math.min(ratio, drawing.whole ? 0.6 : 0.25) });
    }
  });
  let settled = false;
  data.onRanking((progress) => {
    if (settled) return;
    settled = progress.status === "done";
    if (settled) {
      redraw();
      if (!drawing.whole && !state.edits.length) bring();
    }
  });
  camera.setState({ ...camera.getState(), ...all() });
  redraw();
  bring();
  return {
    sigma,
    card: hover.root,
    placeOf: (position) => sigma.graphToViewport({ x: drawing.x[position], y: drawing.y[position] }),
    colourBy(next) {
      mode = next;
      redraw();
    },
    closer: () => move({ ratio: camera.getState().ratio / 1.5 }),
    farther: () => move({ ratio: camera.getState().ratio * 1.5 }),
    whole: () => move(all()),
    left: () => (neighbourhood ? neighbourhood.more.reduce((a, b) => a + b, 0) : 0),
    // The picture as a canvas; drawn and copied at once, while its pixels are still there.
    picture() {
      sigma.refresh();
      drawBehind(true);
      const layers = [behind, between, ...["edges", "nodes", "edgeLabels", "labels"].map((name) => sigma.getCanvases()[name])].filter((one) => one?.width);
      const made = document.createElement("canvas");
      [made.width, made.height] = [sigma.getCanvases().nodes.width, sigma.getCanvases().nodes.height];
      const context = made.getContext("2d");
      context.fillStyle = colour("--paper");
      context.fillRect(0, 0, made.width, made.height);
      for (const layer of layers) {
        context.globalAlpha = Number(getComputedStyle(layer).opacity);
        context.filter = getComputedStyle(layer).filter;
        context.drawImage(layer, 0, 0, made.width, made.height);
      }
      return made;
    },
  };
}
