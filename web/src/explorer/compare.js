// Two states side by side: what was kept, and what is now.

import { el } from "../dom.js";
import { count, number, score } from "../format.js";
import { nodeButton } from "../panel.js";
import { editText } from "./words.js";

const LISTED = 40;

const flipped = (effect) => {
  const found = new Map();
  effect?.node?.forEach((position, at) => effect.from[at] !== effect.to[at] && found.set(position, effect.to[at]));
  return found;
};

export function compare(place, page) {
  const { changes, data, report } = page;
  const { state } = changes;
  const section = place.closest("section");
  const column = (edits) => (edits.length ? edits.map((edit) => el("li", {}, editText(edit, data))) : [el("li", { class: "muted" }, "no edits")]);
  const list = (title, positions, kept, now) =>
    positions.length
      ? [
          el("h4", {}, title, el("span", { class: "muted" }, ` ${number(positions.length)}`)),
          el(
            "ul",
            { class: "differences" },
            positions.slice(0, LISTED).map((position) =>
              el("li", {}, nodeButton(position, page, "table"), el("span", { class: "muted" }, ` ${data.className(kept.get(position) ?? data.classOf(position))} | ${data.className(now.get(position) ?? data.classOf(position))}`)),
            ),
          ),
        ]
      : null;
  function draw() {
    section.hidden = !state.against;
    if (!state.against) return place.replaceChildren();
    const nothing = { total: 0, flips: 0, reached: 0, node: [], from: [], to: [] };
    const other = state.other ?? null;
    const own = state.edits.length ? state.effect : nothing;
    const row = (title, of, text) => el("tr", {}, el("th", { scope: "row" }, title), [other, own].map((one) => el("td", { class: "number", "data-value": one && !one.problem ? of(one) : null }, one && !one.problem ? text(of(one)) : one?.problem ? "not possible" : "…")));
    const [kept, now] = [flipped(other), flipped(own)];
    const differs = [...new Set([...kept.keys(), ...now.keys()])].filter((position) => kept.get(position) !== now.get(position));
    place.replaceChildren(
      ...[
        el(
          "div",
          { class: "sheet" },
          el(
            "table",
            {},
            el("caption", { class: "hidden" }, "The state that was kept beside the state now"),
            el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, "Kept"), el("th", { scope: "col" }, "Now"))),
            el(
              "tbody",
              {},
              el("tr", {}, el("th", { scope: "row" }, "Edits"), [state.against, state.edits].map((edits) => el("td", {}, el("ul", {}, column(edits))))),
              row("Total change", (one) => one.total, score),
              row("Flips", (one) => one.flips, number),
              row("Changes", (one) => one.reached, number),
            ),
          ),
        ),
        report.task === "node" ? list("Predicted class differs (kept | now)", differs, kept, now) : null,
        report.task === "node" && other && own && !differs.length ? el("p", { class: "muted" }, "Every node has the same predicted class in both.") : null,
        differs.length > LISTED ? el("p", { class: "muted" }, `${count(differs.length - LISTED, "more node")} not listed.`) : null,
        el(
          "p",
          { class: "buttons" },
          el("button", { type: "button", class: "quiet", onclick: swap }, "Swap the two"),
          el("button", { type: "button", class: "quiet", onclick: () => changes.against(null) }, "Stop comparing"),
        ),
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
  }
  function swap() {
    const [kept, now] = [state.against, state.edits];
    changes.against(now);
    changes.load(kept, "compare");
  }
  changes.onChange(draw);
  draw();
}
