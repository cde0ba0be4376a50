// Which node is taken away: one value that the picture, the panel, the table and the address share.

import { node, positionOf } from "./data.js";

let current = null;
const listeners = [];

export const selected = () => current;

export function onSelect(listener) {
  listeners.push(listener);
}

// `from` says where the choice was made, so that the picture moves only for choices made elsewhere.
export function select(position, from = "") {
  current = position;
  const hash = position === null ? " " : `#node-${node.id[position]}`;
  try {
    history.replaceState(null, "", hash === " " ? location.pathname + location.search : hash);
  } catch {
    // Some browsers refuse for local files; the page works without it.
  }
  for (const listener of listeners) listener(position, from);
}

export function followAddress() {
  const read = () => {
    const found = /^#node-(\d+)$/.exec(location.hash);
    const position = found ? positionOf(Number(found[1])) : null;
    if (position !== null) select(position, "address");
  };
  window.addEventListener("hashchange", read);
  // A click on a link to the node that the address names already changes nothing there.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#node-"]');
    if (!link) return;
    event.preventDefault();
    const position = positionOf(Number(link.getAttribute("href").slice(6)));
    if (position !== null) select(position, "link");
  });
  read();
}
