// The explorer's script: asks the server for the graph, makes the parts of the page and lets them share one state.

import { themeButton } from "../appearance.js";
import { el, withVariables } from "../dom.js";
import { finder } from "../finder.js";
import { count, number } from "../format.js";
import { classesOf, palette } from "../palette.js";
import { rankings } from "./rankings.js";
import { chosenPanel } from "./chosen.js";
import { compare } from "./compare.js";
import { MODES } from "./look.js";
import { nodes } from "./nodes.js";
import { panel } from "./panel.js";
import { ranking } from "./ranking.js";
import { served } from "./served.js";
import { shapeOf, stage } from "./stage.js";
import { createState } from "./state.js";
import { exporting } from "./exporting.js";
import { announcement } from "./words.js";
import { following } from "./following.js";

const at = (id) => document.getElementById(id);
const source = served();

// Without its server the page can do nothing: it says so where it is seen, and offers nothing else.
function banner(place) {
  source.onLost((state) => {
    place.hidden = !state;
    for (const part of [at("main"), at("finder")]) part.inert = Boolean(state);
    const { command } = source;
    const again = command ? ["Start it again: ", el("code", {}, command)] : ["Start it again: call nora.explore in Python."];
    place.replaceChildren(
      ...(state === "closed"
        ? ["This explorer was closed, and another one runs in its place. Open the address that the terminal shows."]
        : state
          ? [el("strong", {}, "The server has stopped."), " ", ...again]
          : []),
    );
  });
}

function legend(place, page) {
  const { report, data, colours, changes } = page;
  const key = (kind, text, colour = null) => {
    const dot = el("span", { class: `dot ${kind}`, "aria-hidden": "true" });
    return el("li", {}, colour ? withVariables(dot, { "--own": `var(${colour})` }) : dot, text);
  };
  const draw = () => {
    const mode = page.mode;
    const classes = mode === "class" && report.coloured_by ? report.classes.map((_, index) => index).filter((index) => colours.slot(index) >= 0 && report.classes[index].count) : [];
    const rest = mode === "class" && report.coloured_by ? report.classes.filter((one, index) => one.count && colours.slot(index) < 0).length : 0;
    const { edits } = changes.state;
    const has = (kind) => edits.some((edit) => edit.kind === kind);
    const marks = edits.length
      ? [
          has("remove") ? key("removed", "removed") : "",
          key("flipped", report.task === "node" ? "flips to this class" : "a pair at it flips"),
          has("remove_edge") ? key("line removed-edge", "removed edge") : "",
          has("add_edge") ? key("line added-edge", "added edge") : "",
          key("sizes", "size: change"),
        ].filter(Boolean)
      : [key("sizes", data.progress.status === "done" ? "size: influence" : "size: degree")];
    const scale = { change: ["changes most", "--class-4"], influence: ["most influential", "--class-3"], error: ["prediction differs from the label", "--class-4"] }[mode];
    const kinds = data.node.kind ? report.groups[0].values.map((name, at) => key(`shape ${shapeOf(at)}`, name, "--class-other")) : [];
    place.replaceChildren(
      ...kinds,
      ...classes.map((index) => key("", data.className(index), colours.colour(index))),
      ...(rest ? [key("", count(rest, "other class", "other classes"), "--class-other")] : []),
      ...(scale ? [key("", scale[0], scale[1]), key("", mode === "error" ? "equals the label, or no label" : "least", "--faded")] : []),
      ...marks,
    );
  };
  changes.onChange(draw);
  data.onRanking(draw);
  page.onMode.push(draw);
  draw();
}

function controls(place, page, drawn) {
  const select = el("select", { id: "colour-by", onchange: () => page.setMode(select.value) }, MODES.filter(([value]) => value !== "error" || (page.data.node.label && page.data.node.predicted)).map(([value, text]) => el("option", { value }, text)));
  const clicks = ["select", "remove"].map((value) =>
    el("label", { class: "choice" }, el("input", { type: "radio", name: "clicks", value, checked: value === page.clicks, onchange: () => (page.clicks = value) }), value === "remove" ? "removes" : "selects"),
  );
  const keep = el("button", { type: "button", class: "quiet", title: "Keep this state, change more, and see both side by side", onclick: () => page.changes.against(page.changes.state.edits.slice()) }, "Keep to compare");
  place.append(
    el("span", { class: "control" }, el("label", { for: "colour-by" }, "Colour by"), select),
    el("fieldset", { class: "control" }, el("legend", {}, "A click"), clicks),
    keep,
  );
  page.setMode = (mode) => {
    page.mode = mode;
    drawn?.colourBy(mode);
    for (const listener of page.onMode) listener();
  };
}

function keyboard(page) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select");
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !typing) {
      event.preventDefault();
      if (event.shiftKey) page.changes.redo();
      else page.changes.undo();
    } else if (event.key === "/" && !typing) {
      event.preventDefault();
      at("finder-input").focus();
    } else if (event.key === "Delete" && !typing && page.changes.state.chosen.length) {
      page.changes.add(page.changes.state.chosen.map((node) => ({ kind: "remove", node })), "keyboard");
    } else if (event.key === "Escape" && !typing && page.changes.state.chosen.length) {
      page.changes.choose(null, "keyboard");
    }
  });
}

function picture(page) {
  const place = at("stage");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `The graph: ${count(page.report.num_nodes, "node")}, ${count(page.report.num_edges, "edge")}. The search and the ranking lead to the same nodes.`);
  try {
    const drawn = stage(place, page);
    at("frame").append(drawn.card);
    const button = (text, label, act) => el("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    at("zoom").append(button("+", "Zoom in", drawn.closer), button("−", "Zoom out", drawn.farther), button("⤢", "Show all", drawn.whole));
    // For tests and the curious.
    window.noraGraph = drawn.sigma;
    window.noraPlaces = drawn.placeOf;
    return drawn;
  } catch (error) {
    console.info(error.message);
    place.replaceChildren();
    at("frame").prepend(el("p", { class: "notice", role: "note" }, "This browser offers no WebGL, so there is no picture. The search, the ranking and all effects work."));
    return null;
  }
}

async function begin() {
  themeButton(at("theme"));
  banner(at("banner"));
  const report = await source.network(({ what, seconds }) => {
    at("facts").textContent = `Preparing: ${what}, ${number(Math.round(seconds))} s`;
  });
  const data = nodes(report);
  const colours = palette(report);
  const changes = createState(source, report);
  const page = { source, report, data, colours, changes, selection: changes, clicks: "select", mode: "class", onMode: [] };
  page.rankings = rankings(page);
  changes.onChange((state) => colours.attend(state.edits.length ? classesOf(state, data) : []));
  if (report.title) document.title = `${report.title} · NORA explorer`;
  at("title").textContent = report.title || "Remove a node";
  at("facts").textContent = `${count(report.num_nodes, "node")}, ${count(report.num_edges, "edge")}${report.task === "link" ? `, ${count(report.num_items, "pair")} predicted` : report.classes.length ? `, ${number(report.classes.length)} classes` : ""}`;
  const drawn = picture(page);
  controls(at("controls"), page, drawn);
  legend(at("legend"), page);
  finder(at("finder"), page, { find: source.find, choose: (position) => changes.choose(position, "finder") });
  panel(at("panel"), page);
  chosenPanel(at("chosen"), page);
  ranking(at("table"), page);
  compare(at("compare"), page);
  exporting(at("exporting"), page, drawn);
  following(at("following"), at("panel"), page);
  keyboard(page);
  changes.onChange((state) => {
    if (!state.waiting) at("announcer").textContent = announcement(state, page);
  });
  page.rankings.start();
  document.body.classList.add("ready");
  await changes.start();
}

begin().catch((error) => {
  at("banner").hidden = false;
  at("banner").textContent = `The explorer could not start: ${error.message}`;
});
