// What the edits do, at the foot of the window while the panel that tells it is out of sight.

import { el } from "../dom.js";
import { announcement } from "./words.js";

export function following(place, panel, page) {
  const { changes } = page;
  const text = el("p", { class: "text" });
  place.append(
    text,
    el("button", { type: "button", class: "quiet", onclick: () => changes.undo() }, "Undo"),
    el("button", { type: "button", class: "quiet", onclick: () => panel.scrollIntoView({ block: "center" }) }, "Show"),
  );
  let seen = true;
  const draw = () => {
    const { state } = changes;
    place.hidden = seen || !state.edits.length;
    if (!state.waiting) text.textContent = announcement(state, page);
  };
  new IntersectionObserver(([entry]) => {
    seen = entry.isIntersecting;
    draw();
  }).observe(panel);
  changes.onChange(draw);
}
