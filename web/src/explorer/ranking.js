// The rankings beside the picture: nodes, edges and fragile nodes by any measure, as they come in; filtered, in pages, and
// every row has a button to remove it. Nodes are sorted here, of the others the server tells page after page.

import { el } from "../dom.js";
import { count, number } from "../format.js";
import { edgeColumns, fragileColumns, nodeColumns } from "./columns.js";

const PAGE = 15;
const CAPTIONS = {
  nodes: "Nodes by influence. Choose a heading to sort by it.",
  edges: "Edges by what their removal changes.",
  fragile: "Nodes whose predicted class flips when a single other node is removed.",
};
const COUNTED = { nodes: "node", edges: "edge", fragile: "fragile node" };

function chooser(id, label, values, name, again) {
  if (!values) return null;
  const counts = new Map();
  for (const one of values) counts.set(one, (counts.get(one) ?? 0) + 1);
  const known = [...counts.keys()].filter((one) => one >= 0).sort((a, b) => counts.get(b) - counts.get(a));
  if (known.length < 2 && counts.size < 2) return null;
  return el("select", { id, "aria-label": label, onchange: again }, el("option", { value: "" }, `${label}: all`), known.map((one) => el("option", { value: one }, `${name(one)} (${number(counts.get(one))})`)));
}

// What nodes are filtered by; `fits` looks at one, `asked` is the same for the server.
function filters(page, again) {
  const { data, report } = page;
  const { node } = data;
  const search = el("input", { id: "table-search", type: "search", autocomplete: "off", spellcheck: "false", placeholder: data.named ? "Name" : "Number", oninput: again });
  const byClass = chooser("table-class", "Predicted", node.predicted, data.className, again);
  const byLabel = chooser("table-label", "Label", node.label, data.className, again);
  const degree = el("input", { id: "table-degree", type: "number", min: 0, step: 1, placeholder: "0", oninput: again });
  const groups = report.groups.map(({ name, values, group }, at) => chooser(`table-group-${at}`, name.replace(/^./, (letter) => letter.toUpperCase()), group, (one) => values[one], again));
  const chosen = (select) => (select?.value ? Number(select.value) : null);
  const read = () => {
    const group = groups.map((select, at) => [at, chosen(select)]).filter(([, value]) => value !== null);
    return { class: chosen(byClass), label: chosen(byLabel), degree: Math.max(0, Math.floor(Number(degree.value) || 0)), text: search.value.trim().slice(0, 200), group };
  };
  return {
    read,
    fits() {
      const { class: own, label, degree: least, text, group } = read();
      return (p) => node.degree[p] >= least && (own === null || node.predicted[p] === own) && (label === null || node.label[p] === label) && group.every(([at, value]) => report.groups[at].group[p] === value) && data.matches(p, text);
    },
    parts: [el("label", { for: "table-search" }, "Search"), search, byClass, byLabel, ...groups, el("span", { class: "least" }, el("label", { for: "table-degree" }, "Degree at least"), degree)],
  };
}

export function ranking(place, page) {
  const { data, changes, source, rankings } = page;
  const { node } = data;
  let of = null;
  let measured = null;
  let shown = [];
  let sorted = null;
  let down = false;
  let at = 0;
  let rows = [];
  let total = 0;
  const again = () => {
    at = 0;
    work();
  };
  const wanted = filters(page, again);
  const status = el("p", { class: "status", role: "status" });
  const body = el("tbody");
  const caption = el("caption", { class: "hidden" });
  const heading = el("tr");
  const back = el("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const forth = el("button", { type: "button", onclick: () => turn(1) }, "Next");
  const kind = (column) => [column.number ? "number" : "", column.wide ? "wide" : "", column.key].join(" ");
  const bar = el("progress", { max: 1, value: 0, "aria-label": "Influences computed" });
  const text = el("span");
  const steer = el("button", { type: "button", class: "quiet", onclick: () => rankings.steer().catch(() => {}) });
  const progress = el("p", { class: "streaming", hidden: true }, bar, text, steer);
  const views = rankings.names.map(([value, text]) => el("label", { class: "choice" }, el("input", { type: "radio", name: "ranking-of", value, checked: value === rankings.state.of, onchange: () => rankings.look(value) }), text));
  const measure = el("select", { id: "measure", onchange: () => rankings.by(measure.value) }, rankings.measures.map(([value, text]) => el("option", { value }, text)));
  const byMeasure = el("span", { class: "control" }, el("label", { for: "measure" }, "Measure"), measure);

  // Columns and rows are of one ranking: those of another go before anything of this one is drawn.
  function head() {
    ({ of, measure: measured } = rankings.state);
    byMeasure.hidden = of === "fragile";
    at = 0;
    shown = { nodes: nodeColumns, edges: edgeColumns, fragile: fragileColumns }[of](page);
    sorted = shown[0];
    down = false;
    rows = [];
    total = 0;
    caption.textContent = CAPTIONS[of];
    heading.replaceChildren(
      ...shown.map((column) =>
        el("th", { scope: "col", class: kind(column) }, of === "nodes" ? el("button", { type: "button", onclick: () => order(column) }, column.title, el("span", { class: "arrow", "aria-hidden": "true" })) : el("span", { class: "head" }, column.title)),
      ),
    );
  }
  function order(column) {
    down = column === sorted ? !down : Boolean(column.down);
    sorted = column;
    again();
  }
  function turn(by) {
    at += by;
    if (of === "nodes") draw();
    else work();
  }
  function work() {
    showProgress();
    if (of !== "nodes") return load();
    const collator = new Intl.Collator("en", { numeric: true });
    const sign = down ? -1 : 1;
    rows = data.ranked.filter(wanted.fits());
    if (sorted.key !== "rank" || down) {
      const compare = sorted.number ? (a, b) => a - b : collator.compare;
      const keys = new Map(rows.map((p) => [p, sorted.value(p)]));
      const { rank } = node;
      rows.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || (rank[a] || Infinity) - (rank[b] || Infinity) || 0);
    }
    total = rows.length;
    [...heading.children].forEach((head, index) => head.setAttribute("aria-sort", shown[index] === sorted ? (down ? "descending" : "ascending") : "none"));
    draw();
  }
  // A page of what the server ranks.
  async function load() {
    const asked = { of, measure: measured };
    let found;
    try {
      const { class: own, label, degree, text, group } = wanted.read();
      found = await source.rows({ ...asked, start: at * PAGE, most: PAGE, class: own, label, degree, text, group });
    } catch {
      return; // replaced by a later question, or text elsewhere
    }
    if (asked.of !== of || asked.measure !== measured) return;
    total = found.count;
    const most = Math.max(...(found.influence ?? []).map(Math.abs), 1e-12);
    if (found.edge) rows = found.edge.map((edge, k) => ({ at: found.start + k, edge, influence: found.influence[k], most }));
    else rows = found.node.map((one, k) => ({ at: found.start + k, node: one, flips: found.flips[k], by: found.by[k] }));
    draw();
  }
  function line(row) {
    const nodes = typeof row === "number" ? [row] : row.edge ?? [row.node];
    const cells = shown.map((column) => {
      const tag = column.key === "name" ? "th" : "td";
      return el(tag, { scope: tag === "th" ? "row" : null, class: kind(column) }, column.cell(row));
    });
    const picked = nodes.every((one) => changes.state.chosen.includes(one));
    const removed = row.edge ? changes.has({ kind: "remove_edge", edge: row.edge }) : nodes.some((one) => changes.has({ kind: "remove", node: one }));
    return el("tr", { "data-node": nodes.join("-"), class: picked ? "selected" : removed ? "removed" : null }, cells);
  }
  function draw() {
    const pages = Math.max(1, Math.ceil(total / PAGE));
    at = Math.min(Math.max(at, 0), pages - 1);
    const from = at * PAGE;
    const part = of === "nodes" ? rows.slice(from, from + PAGE) : rows;
    // Where the focus is in the table it stays there.
    const held = body.contains(document.activeElement) ? [document.activeElement.closest("tr").dataset.node, document.activeElement.closest("td, th").className] : null;
    body.replaceChildren(...part.map(line));
    if (held) [...body.children].find((row) => row.dataset.node === held[0])?.getElementsByClassName(held[1])[0]?.querySelector("button")?.focus();
    const what = COUNTED[of];
    const none = rankings.progress.status === "done" ? `No ${what} matches.` : "Nothing found yet.";
    status.textContent = part.length ? `${number(from + 1)} to ${number(from + part.length)} of ${count(total, what)}` : none;
    back.disabled = at === 0;
    forth.disabled = at >= pages - 1;
  }
  function showProgress() {
    const { done, total: all, status: now, problem } = rankings.progress;
    const exact = of !== "nodes" || data.isExact();
    progress.hidden = (now === "done" && exact) || now === "waiting";
    bar.hidden = now === "done";
    bar.max = all || 1;
    bar.value = done ?? 0;
    text.textContent = now === "failed" ? ` This ranking failed: ${problem}` : ` ${number(done)} of ${number(all)} ${of === "edges" ? "edges" : of === "fragile" ? "nodes tried" : "influences"}${now === "paused" ? ", paused" : ", more are being computed"}. `;
    if (now === "preparing") text.textContent = " The engine is being prepared and compared with the model; the first effects wait for it. ";
    steer.textContent = now === "running" ? "Pause" : "Continue";
    if (now === "done") text.textContent = `≈ These influences are estimates (${data.progress.method}); what you see on removing a node is exact.`;
    steer.hidden = ["failed", "done", "preparing"].includes(now);
  }
  let last = 0;
  rankings.onChange(() => {
    const other = of !== rankings.state.of || measured !== rankings.state.measure;
    if (other) head();
    showProgress();
    if (!other && rankings.progress.status === "running" && performance.now() - last < 700) return;
    last = performance.now();
    work();
  });
  changes.onChange((_, from) => !["singles", "compare", "answer"].includes(from) && draw());
  place.append(
    el("div", { class: "controls" }, el("fieldset", { class: "control" }, el("legend", {}, "Show"), views), byMeasure),
    progress,
    el("div", { class: "tools explorer-tools" }, wanted.parts, status),
    el("div", { class: "sheet" }, el("table", {}, caption, el("thead", {}, heading), body)),
    el("nav", { class: "pager", "aria-label": "Pages of the ranking" }, back, forth),
  );
  head();
  showProgress();
  work();
}
