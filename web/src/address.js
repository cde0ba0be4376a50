// The selection in the address, so that back goes back and a link can be sent: `#node-17`.

export function followAddress({ selection, data }) {
  const named = () => {
    const found = /^#node-(\d+)$/.exec(location.hash);
    return found ? data.positionOf(Number(found[1])) : null;
  };
  const read = () => {
    if (named() !== selection.only) selection.select(named(), "address");
  };
  selection.onChange((state, from) => {
    if (from === "address" || state.waiting || named() === selection.only) return;
    const hash = selection.only === null ? "" : `#node-${data.node.id[selection.only]}`;
    try {
      history.pushState(null, "", hash || location.pathname + location.search);
    } catch {
      location.hash = hash || "#none"; // Some browsers refuse the other for local files.
    }
  });
  window.addEventListener("popstate", read);
  window.addEventListener("hashchange", read);
  // A click on a link to the node that the address names already changes nothing there.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#node-"]');
    if (!link) return;
    event.preventDefault();
    const position = data.positionOf(Number(link.getAttribute("href").slice(6)));
    if (position !== null) selection.select(position, "link");
  });
  read();
}
