// The graph, drawn by sigma (WebGL); where that is not to be had, a still picture and a notice.

import Graph from "graphology";
import Sigma from "sigma";
import { createNodeBorderProgram } from "@sigma/node-border";
import { colours, onTheme } from "./appearance.js";
import { nameOf, report } from "./data.js";
import { onSelect, select, selected } from "./selection.js";
import { drawLabel, drawLabels } from "./labels.js";
import { affected, drawn, edges, look, placeOf } from "./view.js";

const nodeProgram = createNodeBorderProgram({
  borders: [
    { size: { attribute: "thick", defaultValue: 0.12, mode: "relative" }, color: { attribute: "ring" } },
    { size: { fill: true }, color: { attribute: "color" } },
  ],
});

function build() {
  const graph = new Graph({ multi: false, type: "undirected" });
  drawn.forEach((position, at) => {
    graph.addNode(String(at), { x: report.drawing.x[at], y: report.drawing.y[at], size: 3, label: nameOf(position) });
  });
  for (const [from, to] of edges()) if (!graph.hasEdge(from, to)) graph.addEdge(String(from), String(to));
  return graph;
}

function drawHover(context, data, settings, colour) {
  context.beginPath();
  context.arc(data.x, data.y, data.size + 3, 0, 2 * Math.PI);
  context.lineWidth = 1.5;
  context.strokeStyle = colour("--ink");
  context.stroke();
  drawLabel(context, data, "right", 650, colour);
}

// Where the camera sees all these places, not closer than is good for the eye.
function around(places, sigma) {
  const seen = places.map((place) => sigma.getNodeDisplayData(String(place)));
  const [low, high] = [Math.min, Math.max].map((of) => ["x", "y"].map((axis) => of(...seen.map((one) => one[axis]))));
  const extent = Math.max(high[0] - low[0], high[1] - low[1]);
  const ratio = Math.min(Math.max(1.5 * extent, 0.3), 1);
  return ratio > 0.85 ? { x: 0.5, y: 0.5, ratio: 1 } : { x: (low[0] + high[0]) / 2, y: (low[1] + high[1]) / 2, ratio };
}

export function interactive(stage) {
  let colour = colours();
  let changes = new Map();
  let hovered = null;
  let labels = [];
  let moved = false;
  const graph = build();
  const sigma = new Sigma(graph, stage, {
    nodeProgramClasses: { bordered: nodeProgram },
    defaultNodeType: "bordered",
    // Only noted here; drawn when all are known, so that none covers another.
    defaultDrawNodeLabel: (context, data) => data.label && labels.push(data),
    defaultDrawNodeHover: (context, data, settings) => drawHover(context, data, settings, colour),
    labelRenderedSizeThreshold: 11,
    labelGridCellSize: 90,
    labelDensity: 0.7,
    zIndex: true,
    stagePadding: 24,
    minCameraRatio: 0.04,
    maxCameraRatio: 1.6,
    minEdgeThickness: 0.4,
    allowInvalidContainer: true,
    nodeReducer(key, data) {
      const own = look(Number(key), selected(), changes);
      return { ...data, size: own.radius, color: colour(own.colour), ring: colour(own.ring), thick: own.thick, forceLabel: own.label, label: own.layer === 0 && key !== hovered ? "" : data.label, zIndex: own.layer };
    },
    edgeReducer(key, data) {
      const place = selected() === null ? null : placeOf(selected());
      const own = place !== null && graph.hasExtremity(key, String(place));
      if (own) return { ...data, size: 1.2, color: colour("--tie-chosen"), zIndex: 1 };
      return { ...data, size: 1, color: colour(selected() === null ? "--tie" : "--tie-faded"), zIndex: 0 };
    },
  });

  sigma.on("beforeRender", () => (labels = []));
  sigma.on("afterRender", () => drawLabels(sigma.getCanvases().labels.getContext("2d"), labels, colour));
  sigma.on("clickNode", ({ node }) => select(drawn[Number(node)], "graph"));
  sigma.on("clickStage", () => select(null, "graph"));
  sigma.on("enterNode", ({ node }) => {
    hovered = node;
    stage.classList.add("pointing");
  });
  sigma.on("leaveNode", () => {
    hovered = null;
    stage.classList.remove("pointing");
  });
  // The page scrolls as ever: the wheel zooms with Ctrl or ⌘ only, one finger scrolls, two zoom.
  stage.addEventListener("wheel", (event) => !(event.ctrlKey || event.metaKey) && event.stopPropagation(), { capture: true, passive: true });
  for (const kind of ["touchstart", "touchmove", "touchend"]) {
    stage.addEventListener(kind, (event) => event.touches.length < 2 && event.stopPropagation(), { capture: true, passive: true });
  }
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const move = (state) => (calm.matches ? sigma.getCamera().setState({ ...sigma.getCamera().getState(), ...state }) : sigma.getCamera().animate(state, { duration: 350 }));

  onSelect((position, from) => {
    changes = affected(position);
    sigma.refresh({ skipIndexation: false });
    const place = position === null ? null : placeOf(position);
    if (position === null) {
      if (moved) move({ x: 0.5, y: 0.5, ratio: 1 });
      moved = false;
    } else if (place !== null && from !== "graph") {
      move(around([place, ...changes.keys()], sigma));
      moved = true;
    }
  });
  onTheme(() => {
    colour = colours();
    sigma.refresh();
  });
  sigma.refresh(); // The first time, names were noted before anybody listened.
  return {
    sigma,
    closer: () => (calm.matches ? move({ ratio: sigma.getCamera().getState().ratio / 1.5 }) : sigma.getCamera().animatedZoom({ duration: 200 })),
    farther: () => (calm.matches ? move({ ratio: sigma.getCamera().getState().ratio * 1.5 }) : sigma.getCamera().animatedUnzoom({ duration: 200 })),
    whole: () => move({ x: 0.5, y: 0.5, ratio: 1 }),
  };
}
