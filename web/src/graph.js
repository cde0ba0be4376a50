// The graph, drawn by sigma (WebGL).

import Graph from "graphology";
import Sigma from "sigma";
import { createNodeBorderProgram } from "@sigma/node-border";
import { colours as themeColours, onTheme } from "./appearance.js";
import { card } from "./card.js";
import { drawLabels } from "./labels.js";
import { affected, chosenEdge, look } from "./scene.js";

const nodeProgram = createNodeBorderProgram({
  borders: [
    { size: { attribute: "thick", defaultValue: 0.12, mode: "relative" }, color: { attribute: "ring" } },
    { size: { fill: true }, color: { attribute: "color" } },
  ],
});
const MANY_EDGES = 2500;

function fill(graph, shown, data) {
  graph.clear();
  shown.nodes.forEach((position, at) => {
    graph.addNode(String(at), { x: shown.x[at], y: shown.y[at], size: 3, label: data.nameOf(position) });
  });
  for (const [from, to] of shown.edges()) {
    if (from !== to && !graph.hasEdge(String(from), String(to))) graph.addEdge(String(from), String(to));
  }
}

function drawHover(context, data, settings, colour) {
  context.beginPath();
  context.arc(data.x, data.y, data.size + 3, 0, 2 * Math.PI);
  context.lineWidth = 1.5;
  context.strokeStyle = colour("--ink");
  context.stroke();
}

// Where the camera sees all these places, not closer than is good for the eye.
function around(places, sigma) {
  const seen = places.map((place) => sigma.getNodeDisplayData(String(place))).filter(Boolean);
  if (!seen.length) return { x: 0.5, y: 0.5, ratio: 1 };
  const [low, high] = [Math.min, Math.max].map((of) => ["x", "y"].map((axis) => of(...seen.map((one) => one[axis]))));
  const extent = Math.max(high[0] - low[0], high[1] - low[1]);
  const ratio = Math.min(Math.max(1.5 * extent, 0.3), 1);
  return ratio > 0.85 ? { x: 0.5, y: 0.5, ratio: 1 } : { x: (low[0] + high[0]) / 2, y: (low[1] + high[1]) / 2, ratio };
}

// Draws a scene; `show` draws another one, `update` the same after a removal or its undo.
export function interactive(stage, page, first) {
  const { data, selection } = page;
  let shown = first;
  let colour = themeColours();
  let changes = new Map();
  let hovered = null;
  let lit = null;
  let labels = [];
  let moved = false;
  let picked = null;
  const graph = new Graph({ multi: false, type: "undirected" });
  const hover = card(page);
  fill(graph, shown, data);
  const sigma = new Sigma(graph, stage, {
    nodeProgramClasses: { bordered: nodeProgram },
    defaultNodeType: "bordered",
    // Only noted here; drawn when all are known, so that none covers another.
    defaultDrawNodeLabel: (context, one) => one.label && labels.push(one),
    defaultDrawNodeHover: (context, one, settings) => drawHover(context, one, settings, colour),
    labelRenderedSizeThreshold: 11,
    labelGridCellSize: 90,
    labelDensity: 0.7,
    zIndex: true,
    stagePadding: 24,
    minCameraRatio: 0.04,
    maxCameraRatio: 1.6,
    minEdgeThickness: 0.5,
    allowInvalidContainer: true,
    nodeReducer(key, one) {
      const own = look(shown, Number(key), selection.state, changes, page);
      const quiet = lit !== null && !lit.has(key);
      const label = (own.layer === 0 && key !== hovered) || (quiet && own.layer < 3) ? "" : one.label;
      const tint = quiet && own.layer < 3 ? { color: colour("--faded"), ring: colour("--faded") } : { color: colour(own.colour), ring: colour(own.ring) };
      return { ...one, size: own.radius, ...tint, thick: own.thick, forceLabel: own.label && !quiet, label, zIndex: quiet ? 0 : own.layer };
    },
    edgeReducer(key, one) {
      if (hovered !== null && graph.hasExtremity(key, hovered)) return { ...one, size: 1.6, color: colour("--edge-lit"), zIndex: 2 };
      if (picked && graph.hasExtremity(key, picked[0]) && graph.hasExtremity(key, picked[1])) return { ...one, size: 4, color: colour("--edge-lit"), zIndex: 3 };
      const { removed, edge } = selection.state;
      const places = removed.map(shown.placeOf).filter((place) => place !== null);
      if (places.some((place) => graph.hasExtremity(key, String(place)))) return { ...one, size: 1.3, color: colour("--edge-chosen"), zIndex: 1 };
      const quiet = hovered !== null || edge || (removed.length && shown.centre === undefined);
      const many = removed.length || shown.numEdges > MANY_EDGES;
      return { ...one, size: 1, color: colour(quiet ? "--edge-faded" : many ? "--edge-many" : "--edge"), zIndex: 0 };
    },
  });

  sigma.on("beforeRender", () => (labels = []));
  sigma.on("afterRender", () => drawLabels(sigma.getCanvases().labels.getContext("2d"), labels, colour));
  sigma.on("clickNode", ({ node }) => selection.select(shown.nodes[Number(node)], "graph"));
  sigma.on("clickStage", () => selection.select(null, "graph"));
  const leave = () => {
    hovered = lit = null;
    hover.hide();
    stage.classList.remove("pointing");
  };
  sigma.on("enterNode", ({ node }) => {
    hovered = node;
    lit = new Set([node, ...shown.neighbours[Number(node)].map(String)]);
    stage.classList.add("pointing");
    const own = sigma.getNodeDisplayData(node);
    const { x, y } = sigma.framedGraphToViewport(own);
    hover.show(shown.nodes[Number(node)], x, y, sigma.scaleSize(own.size) + 12, stage.clientWidth, stage.clientHeight);
    sigma.refresh({ skipIndexation: true });
  });
  sigma.on("leaveNode", () => {
    leave();
    sigma.refresh({ skipIndexation: true });
  });
  sigma.getCamera().on("updated", hover.hide);
  // The page scrolls as ever: the wheel zooms with Ctrl or ⌘ only, one finger scrolls, two zoom.
  stage.addEventListener("wheel", (event) => !(event.ctrlKey || event.metaKey) && event.stopPropagation(), { capture: true, passive: true });
  for (const kind of ["touchstart", "touchmove", "touchend"]) {
    stage.addEventListener(kind, (event) => event.touches.length < 2 && event.stopPropagation(), { capture: true, passive: true });
  }
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const camera = sigma.getCamera();
  const move = (state) => (calm.matches ? camera.setState({ ...camera.getState(), ...state }) : camera.animate(state, { duration: 350 }));
  const middle = { x: 0.5, y: 0.5, ratio: 1 };

  // The chosen edge is drawn in any case; of very many edges only some are.
  function drawTie() {
    if (graph.hasEdge("chosen")) graph.dropEdge("chosen");
    picked = chosenEdge(shown, selection.state)?.map(String) ?? null;
    if (picked && picked[0] !== picked[1] && !graph.hasEdge(...picked)) graph.addEdgeWithKey("chosen", ...picked);
  }

  onTheme(() => {
    colour = themeColours();
    sigma.refresh();
  });
  sigma.refresh(); // The first time, names were noted before anybody listened.
  return {
    sigma,
    card: hover.root,
    show(next) {
      leave();
      shown = next;
      changes = affected(shown, selection.state.effect, data);
      fill(graph, shown, data);
      drawTie();
      sigma.refresh();
      camera.setState(middle);
      moved = false;
    },
    update(from) {
      colour = themeColours();
      changes = affected(shown, selection.state.effect, data);
      drawTie();
      sigma.refresh({ skipIndexation: false });
      const places = picked ?? selection.state.removed.map(shown.placeOf).filter((place) => place !== null);
      if (!selection.state.removed.length && !picked) {
        if (moved) move(middle);
        moved = false;
      } else if (places.length && from !== "graph") {
        move(around([...places, ...changes.keys()], sigma));
        moved = true;
      }
    },
    closer: () => (calm.matches ? move({ ratio: camera.getState().ratio / 1.5 }) : camera.animatedZoom({ duration: 200 })),
    farther: () => (calm.matches ? move({ ratio: camera.getState().ratio * 1.5 }) : camera.animatedUnzoom({ duration: 200 })),
    whole: () => move(middle),
  };
}
