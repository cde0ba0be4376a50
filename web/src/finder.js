// "Find a node": a text field with a list of matches (the ARIA combobox pattern).

import { el } from "./dom.js";
import { ordinal } from "./format.js";

const MOST = 8;

// `find` gives matching positions, or a promise of them; `choose` gets the selected one.
export function finder(place, { data, selection }, { id = "finder", label = "Find a node", find = data.find, choose: take = (position) => selection.select(position, "finder") } = {}) {
  const { named, nameOf, node } = data;
  let asked = 0;
  let found = [];
  let active = -1;
  let waiting = null; // for the matches of what was typed last
  const list = el("ul", { id: `${id}-list`, role: "listbox", "aria-label": "Matching nodes", hidden: true });
  const input = el("input", {
    id: `${id}-input`,
    type: "search",
    role: "combobox",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: named ? "Name" : "Number",
    "aria-controls": `${id}-list`,
    "aria-expanded": "false",
    "aria-autocomplete": "list",
  });
  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (position) => {
    input.value = nameOf(position);
    close();
    take(position);
  };
  const mark = () => {
    [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === active)));
    if (active >= 0) input.setAttribute("aria-activedescendant", `${id}-option-${active}`);
    else input.removeAttribute("aria-activedescendant");
  };
  const option = (position, index) =>
    el(
      "li",
      {
        id: `${id}-option-${index}`,
        role: "option",
        "aria-selected": "false",
        // Before the field loses the focus, which closes the list.
        onmousedown: (event) => {
          event.preventDefault();
          choose(position);
        },
      },
      el("span", { class: "name" }, nameOf(position)),
      el("span", { class: "muted" }, node.rank[position] > 0 ? ordinal(node.rank[position]) : "not scored"),
    );
  const look = () => {
    const question = ++asked;
    const answer = find(input.value, MOST);
    if (!(answer instanceof Promise)) return show(answer);
    // A later text has been typed meanwhile: its matches count. Errors are shown elsewhere.
    waiting = answer.then((positions) => question === asked && document.activeElement === input && show(positions), () => {}).then(() => question === asked && (waiting = null));
    return waiting;
  };
  // The matches that are shown may be those of a text before.
  const accept = async () => {
    while (waiting) await waiting;
    if (found.length && !list.hidden) choose(found[Math.max(active, 0)]);
  };
  const show = (positions) => {
    found = positions;
    active = -1;
    const empty = input.value.trim() && !found.length;
    list.replaceChildren(
      ...(empty ? [el("li", { class: "muted", role: "option", "aria-disabled": "true" }, "No such node")] : found.map(option)),
    );
    list.hidden = !found.length && !empty;
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark();
  };
  input.addEventListener("input", look);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) look();
      if (!found.length) return;
      active = (active + (event.key === "ArrowDown" ? 1 : -1) + found.length) % found.length;
      mark();
    } else if (event.key === "Enter") {
      if (waiting) accept();
      else if (found.length && !list.hidden) choose(found[Math.max(active, 0)]);
    } else if (event.key === "Escape") {
      close();
    }
  });
  place.append(el("label", { for: `${id}-input` }, label), el("div", { class: "combobox" }, input, list));
}
