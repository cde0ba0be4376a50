// The figure with the graph: the drawing, its zoom buttons, its legend, and what it leaves out.

import { el, withVariables } from "./dom.js";
import { count, number } from "./format.js";
import { interactive } from "./graph.js";
import { neighbourhood } from "./neighbourhood.js";
import { notice, picture } from "./picture.js";
import { scene } from "./scene.js";

function key(kind, text, colour = null) {
  const dot = el("span", { class: `dot ${kind}`, "aria-hidden": "true" });
  return el("li", {}, colour ? withVariables(dot, { "--own": `var(${colour})` }) : dot, text);
}

function classKeys(shown, { report, data, colours }) {
  if (!report.coloured_by) return [];
  const present = new Set(shown.nodes.map(data.classOf));
  const own = report.classes.map((_, index) => index).filter((index) => colours.slot(index) >= 0 && present.has(index));
  const keys = own.map((index) => key("", data.className(index), colours.colour(index)));
  const rest = [...present].filter((index) => index >= 0 && colours.slot(index) < 0).length;
  if (rest) keys.push(key("", count(rest, "other class", "other classes"), "--class-other"));
  return keys;
}

function marks({ report, selection }) {
  const { removed, effect, edge } = selection.state;
  if (edge) return [key("edge", "removed"), key("sizes", "size: influence")];
  if (!removed.length || !effect) return [key("sizes", "size: influence")];
  return [
    key("removed", "removed"),
    key("flipped", report.task === "node" ? "would flip to this class" : "a pair at it would flip"),
    key("sizes", "size: change"),
  ];
}

// What the drawing leaves out, in words.
function partly(shown, { report, data }) {
  if (shown.centre !== undefined) {
    const name = data.nameOf(shown.centre);
    const more = shown.left ? ` ${count(shown.left, "more neighbour")} ${shown.left === 1 ? "is" : "are"} not drawn.` : "";
    return `Drawn: ${name}, its neighbours, and the other nodes that its removal would change.${more}`;
  }
  const { connected, edges } = report.drawing;
  const alone = report.num_nodes - connected;
  const parts = [];
  if (shown.nodes.length < connected) {
    parts.push(`Drawn: ${number(shown.nodes.length)} of ${count(report.num_nodes, "node")}, the most influential and their neighbours.`);
  } else if (connected && alone) {
    parts.push(`${count(alone, "node")} without any edge ${alone === 1 ? "is" : "are"} not drawn.`);
  }
  if (shown.numEdges < edges) parts.push(`${number(shown.numEdges)} of the ${number(edges)} edges among them are drawn.`);
  return parts.join(" ");
}

export function canvas(place, page) {
  const { report, selection } = page;
  const all = scene(report.drawing);
  // Of a large graph only a part is drawn, so that what is chosen gets a drawing of its own.
  const part = all.nodes.length < report.drawing.connected;
  let shown = all;
  let still = null;
  let live = null;
  const stage = el("div", { class: "stage", id: "stage" });
  const drawStill = () => {
    if (still) return;
    still = picture(page, shown);
    still.root.classList.add("printed");
    place.querySelector(".frame").append(still.root);
  };
  const tools = el("div", { class: "zoom", role: "group", "aria-label": "Zoom" });
  const keys = el("ul", { class: "legend" });
  const summary = el("span");
  const hints = [
    el("span", { class: "hint mouse" }, "Point at a node to see its neighbours. Drag to move, Ctrl and wheel to zoom. "),
    el("span", { class: "hint touch" }, "Two fingers move and zoom. "),
  ];
  const figcaption = el("figcaption", {}, keys, el("p", { class: "muted" }, hints, summary));
  const button = (text, label, act) => el("button", { type: "button", "aria-label": label, title: label, onclick: () => (live ?? still)[act]() }, text);
  tools.append(button("+", "Zoom in", "closer"), button("−", "Zoom out", "farther"), button("⤢", "Show all", "whole"));
  const frame = el("div", { class: "frame" }, stage, tools);
  place.append(frame, figcaption);
  stage.setAttribute("role", "img");
  stage.setAttribute("aria-label", `The graph: ${count(all.nodes.length, "node")}, sized by influence. The ranking below lists the same nodes.`);

  try {
    live = interactive(stage, page, shown);
  } catch {
    // No WebGL; to ask beforehand would cost as much as to try.
    stage.replaceChildren();
  }
  if (!live) {
    drawStill();
    place.classList.add("still");
    place.prepend(notice());
  } else {
    place.classList.add("interactive");
    frame.append(live.card);
    // For the printer, once there is time.
    window.addEventListener("beforeprint", drawStill);
    (window.requestIdleCallback ?? setTimeout)(drawStill);
    // For tests and the curious.
    window.noraGraph = live.sigma;
  }
  const describe = () => {
    keys.replaceChildren(...classKeys(shown, page), ...marks(page));
    summary.textContent = partly(shown, page);
  };
  selection.onChange((state, from) => {
    const own = state.removed.length === 1 && !state.waiting && state.neighbours && (part || all.placeOf(state.removed[0]) === null);
    const next = own ? neighbourhood(state, page) : all;
    const drawers = [live, still].filter(Boolean);
    if (next !== shown) {
      shown = next;
      for (const one of drawers) one.show(shown);
    } else {
      for (const one of drawers) one.update(from);
    }
    describe();
  });
  describe();
}
