// Who is chosen: facts about one node and what can be done with it, or with several together.

import { coloured, influenceText, rankText } from "../card.js";
import { el } from "../dom.js";
import { finder } from "../finder.js";
import { count, number, percent, score } from "../format.js";
import { nodeButton } from "../panel.js";
import { shiftText, flipText } from "./words.js";
import { working } from "./working.js";

const NEIGHBOURS = 24;

function facts(position, page) {
  const { data, report } = page;
  const { node, className } = data;
  const label = node.label?.[position] ?? -1;
  const rows = [
    [data.measureTitle, influenceText(position, page), rankText(position, page)],
    ["Degree", number(node.degree[position]), null],
    node.predicted ? ["Predicted", className(node.predicted[position]), `${percent(node.confidence[position])} sure${label >= 0 ? `, labelled ${className(label)}` : ""}`] : null,
    !node.predicted && label >= 0 ? ["Label", className(label), null] : null,
  ].filter(Boolean);
  return el("dl", { class: "facts small" }, rows.map(([term, value, more]) => el("div", {}, el("dt", {}, term), el("dd", {}, value, more ? el("span", { class: "muted" }, ` ${more}`) : null))));
}

// What the absence of this node would change, before anything is changed; with the edits that there are.
function preview(position, page) {
  const { changes, source } = page;
  const place = el("p", { class: "preview", role: "status" }, "…");
  const edit = { kind: "remove", node: position };
  let shown = null;
  place.update = async () => {
    const { edits, removed } = changes.state;
    place.hidden = changes.has(edit);
    const asked = JSON.stringify(edits);
    if (place.hidden || asked === shown) return;
    shown = asked;
    try {
      const effect = await source.preview(changes.with(edit));
      if (asked !== shown) return;
      const with_ = edits.length ? `With ${count(edits.length, "edit")} and without it` : "Without it";
      const flipped = effect.flips ? flipText(effect, { removed: [...removed, position] }, page) : "no prediction would flip";
      place.replaceChildren(`${with_}: `, el("strong", {}, flipped), `; ${shiftText(effect, page)}. Total change ${score(effect.total)}.`);
    } catch (error) {
      if (error.name !== "AbortError") place.replaceChildren(error.message);
      shown = null;
    }
  };
  place.update();
  return place;
}

const action = (text, act, properties = {}) => el("button", { type: "button", class: "quiet", onclick: act, ...properties }, text);

// A part that is asked of the server when it is opened.
function asked(title, id, load, source = null) {
  const body = el("div", { class: "body", "aria-live": "polite" });
  const part = el("details", { id }, el("summary", {}, title), body);
  let loaded = false;
  part.addEventListener("toggle", async () => {
    if (!part.open || loaded) return;
    loaded = true;
    const job = source?.job();
    const work = source ? working(source, id, job, "Asking") : null;
    body.replaceChildren(work ? work.root : el("p", { class: "muted" }, "…"));
    try {
      body.replaceChildren(...[await load(job)].flat(Infinity).filter(Boolean));
    } catch (error) {
      loaded = false;
      const text = error.name === "AbortError" ? "Cancelled: open it again to ask." : error.message;
      body.replaceChildren(el("p", { class: "muted" }, text));
    } finally {
      work?.stop();
    }
  });
  return part;
}

// What such a button says follows the state: `refresh` is called when that changes.
function removeButton(position, page) {
  const made = action("", () => page.changes.toggle({ kind: "remove", node: position }, "chosen"), { "data-remove": position });
  labelButton(made, page);
  return made;
}

function labelButton(button, { changes, data }) {
  const position = Number(button.dataset.remove);
  const removed = changes.has({ kind: "remove", node: position });
  button.textContent = removed ? "Restore" : "Remove";
  button.setAttribute("aria-label", `${removed ? "Restore" : "Remove"} ${data.nameOf(position)}`);
}

function refresh(place, page) {
  place.querySelectorAll("[data-remove]").forEach((button) => labelButton(button, page));
  place.querySelector(".preview")?.update();
}

function why(position, page) {
  return asked("Why this prediction: the removals that change it most", "why", async (job) => {
    const found = await page.source.why(position, job);
    if (!found.node.length) return el("p", { class: "muted" }, "No other removal changes it.");
    return el(
      "ol",
      { class: "rows starters" },
      found.node.map((other, at) => el("li", {}, nodeButton(other, page, "chosen"), el("span", { class: "value", title: "change of this prediction without that node" }, score(found.influence[at])), removeButton(other, page))),
    );
  }, page.source);
}

function neighbours(position, page) {
  return asked("Neighbours: remove an edge", "neighbours", async () => {
    const { neighbours, more } = await page.source.neighbours(position);
    const all = neighbours[0];
    if (!all.length) return el("p", { class: "muted" }, "It has no neighbours.");
    const left = all.length - NEIGHBOURS + more[0];
    return [
      el(
        "ul",
        { class: "rows starters" },
        all.slice(0, NEIGHBOURS).map((other) => {
          const edit = { kind: "remove_edge", edge: [position, other] };
          const name = page.data.nameOf(other);
          const button = action("", null);
          const show = () => {
            const removed = page.changes.has({ ...edit, edge: edit.edge.slice().sort((a, b) => a - b) });
            button.textContent = removed ? "Restore" : "Remove";
            button.setAttribute("aria-label", `${removed ? "Restore" : "Remove"} the edge to ${name}`);
          };
          button.addEventListener("click", () => {
            page.changes.toggle(edit, "chosen");
            show();
          });
          show();
          return el("li", {}, nodeButton(other, page, "chosen"), el("span", { class: "value muted" }, number(page.data.node.degree[other])), button);
        }),
      ),
      left > 0 ? el("p", { class: "muted" }, `${count(left, "more neighbour")} not listed: find them by name, select both with Shift.`) : null,
    ];
  });
}

function connect(position, page) {
  const { report, data, source, changes } = page;
  const part = el("details", { id: "connect" }, el("summary", {}, "Add an edge"));
  const body = el("div", { class: "body" });
  // Where edges have types: those that an edge of this node can be of.
  const kinds = report.edge_kinds.map((kind, at) => ({ ...kind, at })).filter(({ ends }) => !ends || ends.includes(data.node.kind[position]));
  const which = kinds.length > 1 ? el("select", { id: "edge-kind", onchange: () => fill() }, kinds.map(({ name, at }) => el("option", { value: at }, name))) : null;
  const fields = el("div");
  let inputs = [];
  const kind = () => kinds.find(({ at }) => !which || at === Number(which.value));
  function fill() {
    inputs = Object.entries(kind()?.values ?? {}).map(([key, value]) => [key, el("input", { type: "number", step: "any", value, id: `value-${key}` })]);
    fields.replaceChildren(...inputs.map(([key, input]) => el("p", {}, el("label", { for: `value-${key}` }, `${key} `), input)));
  }
  fill();
  const place = el("div", { class: "finder" });
  finder(place, page, {
    id: "connect",
    label: `From ${data.nameOf(position)} to`,
    find: source.find,
    choose(other) {
      const values = Object.fromEntries(inputs.map(([key, input]) => [key, Number(input.value)]));
      changes.add({ kind: "add_edge", edge: [position, other], ...(inputs.length ? { values } : {}), ...(kind()?.ends ? { type: kind().at } : {}) }, "chosen");
    },
  });
  if (which) body.append(el("p", {}, el("label", { for: "edge-kind" }, "Edge type "), which));
  body.append(fields, place);
  part.append(body);
  return part;
}

function features(position, page) {
  const { data, report, source, changes } = page;
  if (!report.features) return null;
  return asked("Set a feature", "features", async () => {
    const { count: size, feature } = await source.features(position);
    const first = feature[0]?.[0] ?? 0;
    const named = report.feature_names.length > 0;
    const columns = named ? Array.from({ length: size }, (_, column) => el("option", { value: column, selected: column === first }, data.featureName(column))) : [];
    const which = named ? el("select", { id: "feature-column" }, columns) : el("input", { type: "number", id: "feature-column", min: 0, max: size - 1, step: 1, value: first });
    const value = el("input", { type: "number", id: "feature-value", step: "any", value: 0 });
    const known = new Map(feature);
    const now = el("span", { class: "muted" });
    const show = () => (now.textContent = ` now ${number(known.get(Number(which.value)) ?? 0)}`);
    which.addEventListener("input", show);
    show();
    const form = el(
      "form",
      {
        class: "feature",
        onsubmit: (event) => {
          event.preventDefault();
          if (which.reportValidity() && value.reportValidity() && value.value !== "") changes.add({ kind: "set", node: position, feature: Number(which.value), value: Number(value.value) }, "chosen");
        },
      },
      el("label", { for: "feature-column" }, named ? "Feature" : `Feature (0 … ${size - 1})`),
      el("span", {}, which, now),
      el("label", { for: "feature-value" }, "New value"),
      el("span", {}, value, " ", el("button", { type: "submit", class: "quiet" }, "Set")),
    );
    const listed = feature.slice(0, 8).map(([column, own]) => `${named ? data.featureName(column) : column}: ${number(own)}`);
    const scale = named ? el("p", { class: "muted" }, "Values are as the model sees them.") : "";
    return [form, scale, listed.length ? el("p", { class: "muted" }, `Largest now: ${listed.join(", ")}${feature.length > 8 ? " …" : ""}`) : el("p", { class: "muted" }, "All are zero now.")];
  });
}

function flip(position, page) {
  if (!page.report.can.includes("flip")) return null;
  return asked("What would flip it", "flip", async (job) => {
    const found = await page.source.flip(position, job);
    if (!found.edits.length) return el("p", { class: "muted" }, found.text);
    const who = found.edits.map((edit) => el("li", {}, nodeButton(edit.node, page, "chosen")));
    return [el("p", {}, found.text), el("ul", { class: "rows picked" }, who), action("Remove", () => page.changes.add(found.edits, "chosen"))];
  }, page.source);
}

function one(position, page) {
  return [
    el(
      "div",
      { class: "panel-head" },
      coloured(el("h3", { id: "chosen-title", tabindex: "-1" }, page.data.nameOf(position)), page.data.classOf(position), page),
      el("div", { class: "buttons" }, removeButton(position, page), action("Close", () => page.changes.choose(null, "chosen"), { "aria-label": "Close this node" })),
    ),
    preview(position, page),
    facts(position, page),
    why(position, page),
    flip(position, page),
    neighbours(position, page),
    connect(position, page),
    features(position, page),
  ];
}

function several(chosen, page) {
  const { changes, data } = page;
  const pair = chosen.length === 2;
  const joins = (kind) => !kind.ends || [0, 1].every((at) => kind.ends.includes(data.node.kind[chosen[at]])) && (kind.ends[0] === kind.ends[1]) === (data.node.kind[chosen[0]] === data.node.kind[chosen[1]]);
  const kinds = pair ? page.report.edge_kinds.map((kind, at) => ({ ...kind, at })).filter(joins) : [];
  return [
    el("div", { class: "panel-head" }, el("h3", { id: "chosen-title", tabindex: "-1" }, `${number(chosen.length)} nodes selected`), el("div", { class: "buttons" }, action("Close", () => changes.choose(null, "chosen"), { "aria-label": "Close: select nothing" }))),
    el("ul", { class: "rows picked" }, chosen.slice(0, 30).map((position) => el("li", {}, nodeButton(position, page, "chosen"), el("button", { type: "button", class: "drop", "aria-label": `Leave ${data.nameOf(position)} out`, onclick: () => changes.choose(position, "chosen", true) }, "×")))),
    el(
      "p",
      { class: "buttons" },
      action("Remove all", () => changes.add(chosen.map((node) => ({ kind: "remove", node })), "chosen")),
      pair ? action("Remove the edge", () => changes.add({ kind: "remove_edge", edge: chosen.slice() }, "chosen")) : null,
      kinds.map((kind) => action(kind.name ? `Add an edge: ${kind.name}` : "Add an edge", () => changes.add({ kind: "add_edge", edge: chosen.slice(), ...(Object.keys(kind.values).length ? { values: kind.values } : {}), ...(kind.ends ? { type: kind.at } : {}) }, "chosen"))),
    ),
  ];
}

export function chosenPanel(place, page) {
  const { changes } = page;
  let shown = "";
  changes.onChange((state, from) => {
    const key = state.chosen.join();
    place.hidden = !state.chosen.length;
    if (key === shown) return refresh(place, page);
    shown = key;
    place.replaceChildren(...(!state.chosen.length ? [] : state.chosen.length === 1 ? one(state.chosen[0], page) : several(state.chosen, page)).filter(Boolean));
    place.parentElement.scrollTop = 0;
    if (state.chosen.length && ["table", "panel", "edits", "chosen", "finder"].includes(from)) {
      document.getElementById("chosen-title").focus({ preventScroll: true });
      const { top } = place.getBoundingClientRect();
      if (top < 0 || top > innerHeight / 2) place.scrollIntoView({ block: "start" });
    }
  });
}
