// The figure with the graph: the drawing, its zoom buttons, its legend, and what it leaves out.

import { className, classColour, classOf, effectOf, report, size } from "./data.js";
import { el, withVariables } from "./dom.js";
import { count, number } from "./format.js";
import { interactive } from "./graph.js";
import { notice, picture } from "./picture.js";
import { onSelect, selected } from "./selection.js";
import { drawn, placeOf } from "./view.js";

function key(kind, text, colour = null) {
  const dot = el("span", { class: `dot ${kind}`, "aria-hidden": "true" });
  return el("li", {}, colour ? withVariables(dot, { "--own": `var(${colour})` }) : dot, text);
}

function classKeys() {
  if (!report.coloured_by) return [];
  const present = new Set(drawn.map(classOf));
  const own = report.classes.map((one, index) => ({ ...one, index })).filter((one) => one.colour >= 0 && present.has(one.index));
  const keys = own.map((one) => key("", className(one.index), classColour(one.index)));
  const rest = report.classes.filter((one) => one.colour < 0).length;
  if (rest) keys.push(key("", count(rest, "other class", "other classes"), "--class-other"));
  return keys;
}

function legend(list) {
  const draw = () => {
    const chosen = selected();
    const marks =
      chosen === null || !effectOf(chosen)
        ? [key("sizes", "size: influence")]
        : [
            key("gone", "taken away"),
            key("turned", report.task === "node" ? "would change class, to this colour" : "a pair at it would turn"),
            key("sizes", "size: change"),
          ];
    list.replaceChildren(...classKeys(), ...marks);
  };
  onSelect(draw);
  draw();
}

function partly() {
  const { tied, edges, edge } = report.drawing;
  const alone = report.num_nodes - tied;
  const parts = [];
  if (drawn.length < tied) {
    parts.push(`Drawn: ${number(drawn.length)} of ${count(report.num_nodes, "node")}, the most influential with those around them.`);
  } else if (tied && alone) {
    parts.push(`${count(alone, "node")} without any edge ${alone === 1 ? "is" : "are"} not drawn.`);
  }
  if (edge.length / 2 < edges) parts.push(`${number(edge.length / 2)} of the ${number(edges)} edges among them are drawn.`);
  return parts.join(" ");
}

export function canvas(place) {
  const stage = el("div", { class: "stage", id: "stage" });
  let still = null;
  let shown = null;
  const draw = () => {
    if (still) return;
    still = picture();
    still.root.classList.add("printed");
    place.querySelector(".frame").append(still.root);
  };
  const tools = el("div", { class: "zoom", role: "group", "aria-label": "Zoom" });
  const keys = el("ul", { class: "legend" });
  const outside = el("span", { class: "outside" });
  const hints = [
    el("span", { class: "hint mouse" }, "Drag to move, Ctrl and wheel to zoom. "),
    el("span", { class: "hint touch" }, "Two fingers move and zoom. "),
  ];
  const figcaption = el("figcaption", {}, keys, el("p", { class: "muted" }, hints, partly(), " ", outside));
  const button = (text, label, act) => el("button", { type: "button", "aria-label": label, title: label, onclick: () => shown[act]() }, text);
  tools.append(button("+", "Zoom in", "closer"), button("−", "Zoom out", "farther"), button("⤢", "Show all", "whole"));
  place.append(el("div", { class: "frame" }, stage, tools), figcaption);
  stage.setAttribute("role", "img");
  stage.setAttribute("aria-label", `The graph: ${count(drawn.length, "node")}, sized by influence. The ranking below lists the same nodes.`);

  try {
    shown = interactive(stage);
  } catch {
    // No WebGL; to ask beforehand would cost as much as to try.
    stage.replaceChildren();
  }
  if (!shown) {
    draw();
    shown = still;
    place.classList.add("still");
    place.prepend(notice());
  } else {
    place.classList.add("interactive");
    // For the printer, once there is time.
    window.addEventListener("beforeprint", draw);
    (window.requestIdleCallback ?? setTimeout)(draw);
    // For tests and the curious.
    window.noraGraph = shown.sigma;
  }
  legend(keys);
  onSelect((position) => {
    outside.textContent = position !== null && placeOf(position) === null && size ? "The chosen node lies outside the drawn part." : "";
  });
}
