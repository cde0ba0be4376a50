// The ranking beside the picture: nodes by influence as it comes in; sorted, filtered, in pages; every row can be taken
// away from here.

import { coloured } from "../card.js";
import { el, withVariables } from "../dom.js";
import { count, number, percent, score } from "../format.js";
import { nodeButton } from "../panel.js";

const PAGE = 15;

function columns(page) {
  const { data, changes } = page;
  const { node, className, nameOf } = data;
  const chip = (index) => coloured(el("span", { class: "chip" }, className(index)), index, page);
  const wrong = (p) => node.predicted && node.label && node.label[p] >= 0 && node.label[p] !== node.predicted[p];
  const most = () => Math.max(node.influence[data.ranked[0]] ?? 0, 1e-12);
  const value = (p) => node.influence[p] ?? -1;
  return [
    { key: "rank", title: "Rank", value: (p) => node.rank[p] || Infinity, number: true, cell: (p) => (node.rank[p] ? number(node.rank[p]) : "–") },
    { key: "name", title: "Node", value: nameOf, cell: (p) => nodeButton(p, page, "table") },
    {
      key: "influence",
      title: "Influence",
      value,
      number: true,
      down: true,
      cell: (p) =>
        node.influence[p] === null
          ? el("span", { class: "muted" }, "…")
          : [withVariables(el("span", { class: "amount", "aria-hidden": "true" }), { "--share": `${100 * Math.min(node.influence[p] / most(), 1)}%` }), data.isExact(p) ? "" : "≈\u202f", score(node.influence[p])],
    },
    { key: "degree", title: "Degree", value: (p) => node.degree[p], number: true, down: true, cell: (p) => number(node.degree[p]) },
    node.predicted && { key: "predicted", title: "Predicted", value: (p) => className(node.predicted[p]), wide: true, cell: (p) => chip(node.predicted[p]) },
    node.predicted && { key: "confidence", title: "Sure", value: (p) => node.confidence[p], number: true, wide: true, cell: (p) => percent(node.confidence[p]) },
    node.label && {
      key: "label",
      title: "Label",
      value: (p) => (node.label[p] >= 0 ? className(node.label[p]) : ""),
      wide: true,
      cell: (p) => (node.label[p] < 0 ? el("span", { class: "muted" }, "–") : [className(node.label[p]), wrong(p) ? el("span", { class: "muted" }, " (differs)") : null]),
    },
    {
      key: "act",
      title: "Remove",
      value: (p) => (changes.has({ kind: "remove", node: p }) ? 0 : 1),
      number: true,
      cell: (p) => {
        const gone = changes.has({ kind: "remove", node: p });
        return el("button", { type: "button", class: "quiet", "aria-label": `${gone ? "Put back" : "Take away"} ${nameOf(p)}`, onclick: () => changes.toggle({ kind: "remove", node: p }, "ranking") }, gone ? "Put back" : "Remove");
      },
    },
  ].filter(Boolean);
}

function chooser(id, label, values, { data }, again) {
  if (!values) return null;
  const counts = new Map();
  for (const one of values) counts.set(one, (counts.get(one) ?? 0) + 1);
  const known = [...counts.keys()].filter((one) => one >= 0).sort((a, b) => counts.get(b) - counts.get(a));
  if (known.length < 2) return null;
  return el("select", { id, "aria-label": label, onchange: again }, el("option", { value: "" }, `${label}: all`), known.map((one) => el("option", { value: one }, `${data.className(one)} (${number(counts.get(one))})`)));
}

export function ranking(place, page) {
  const { data, changes, source } = page;
  const { node } = data;
  const shown = columns(page);
  let sorted = shown[0];
  let down = false;
  let at = 0;
  let rows = [];
  const again = () => {
    at = 0;
    work();
  };
  const search = el("input", { id: "table-search", type: "search", autocomplete: "off", spellcheck: "false", placeholder: data.named ? "Name" : "Number" });
  const byClass = chooser("table-class", "Predicted", node.predicted, page, again);
  const byLabel = chooser("table-label", "Label", node.label, page, again);
  const degree = el("input", { id: "table-degree", type: "number", min: 0, step: 1, placeholder: "0", oninput: again });
  const status = el("p", { class: "status", role: "status" });
  const body = el("tbody");
  const back = el("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const forth = el("button", { type: "button", onclick: () => turn(1) }, "Next");
  const kind = (column) => [column.number ? "number" : "", column.wide ? "wide" : "", column.key].join(" ");
  const heads = shown.map((column) => el("th", { scope: "col", class: kind(column) }, el("button", { type: "button", onclick: () => order(column) }, column.title, el("span", { class: "arrow", "aria-hidden": "true" }))));
  const bar = el("progress", { max: 1, value: 0, "aria-label": "Influences found out" });
  const told = el("span");
  const steer = el("button", { type: "button", class: "quiet" });
  const progress = el("p", { class: "streaming", hidden: true }, bar, told, steer);
  steer.addEventListener("click", () => source.steer(data.progress.status === "running" ? "pause" : "start").catch(() => {}));

  function order(column) {
    down = column === sorted ? !down : Boolean(column.down);
    sorted = column;
    again();
  }
  function turn(by) {
    at += by;
    draw();
  }
  function work() {
    const collator = new Intl.Collator("en", { numeric: true });
    const sign = down ? -1 : 1;
    const [own, label, least] = [byClass?.value, byLabel?.value, Number(degree.value) || 0];
    rows = data.ranked.filter(
      (p) => node.degree[p] >= least && (!own || node.predicted[p] === Number(own)) && (!label || node.label[p] === Number(label)) && data.matches(p, search.value),
    );
    if (sorted.key !== "rank" || down) {
      const compare = sorted.number ? (a, b) => a - b : collator.compare;
      const keys = new Map(rows.map((p) => [p, sorted.value(p)]));
      rows.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || (node.rank[a] || Infinity) - (node.rank[b] || Infinity) || 0);
    }
    heads.forEach((head, index) => head.setAttribute("aria-sort", shown[index] === sorted ? (down ? "descending" : "ascending") : "none"));
    draw();
  }
  function line(p) {
    const cells = shown.map((column) => {
      const tag = column.key === "name" ? "th" : "td";
      return el(tag, { scope: tag === "th" ? "row" : null, class: kind(column) }, column.cell(p));
    });
    return el("tr", { "data-node": p, class: changes.state.chosen.includes(p) ? "selected" : changes.has({ kind: "remove", node: p }) ? "gone" : null }, cells);
  }
  function draw() {
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    at = Math.min(Math.max(at, 0), pages - 1);
    const part = rows.slice(at * PAGE, (at + 1) * PAGE);
    // Where the focus is in the table it stays there.
    const held = body.contains(document.activeElement) ? [document.activeElement.closest("tr").dataset.node, document.activeElement.closest("td, th").className] : null;
    body.replaceChildren(...part.map(line));
    if (held) [...body.children].find((row) => row.dataset.node === held[0])?.getElementsByClassName(held[1])[0]?.querySelector("button")?.focus();
    const from = at * PAGE;
    status.textContent = rows.length ? `${number(from + 1)} to ${number(from + part.length)} of ${count(rows.length, "node")}` : "No node matches.";
    back.disabled = at === 0;
    forth.disabled = at >= pages - 1;
  }
  function tell() {
    const { done, total, status: now, problem } = data.progress;
    progress.hidden = (now === "done" && data.isExact()) || now === "waiting";
    bar.hidden = now === "done";
    bar.max = total;
    bar.value = done;
    told.textContent = now === "failed" ? ` Influences cannot be found out: ${problem}` : ` ${number(done)} of ${number(total)} influences${now === "paused" ? ", stopped" : ", the others are on their way"}. `;
    steer.textContent = now === "running" ? "Stop" : "Go on";
    if (now === "done") told.textContent = `≈ These influences are estimates (${data.progress.method}); what you see on removing a node is exact.`;
    steer.hidden = now === "failed" || now === "done";
  }
  search.addEventListener("input", again);
  let last = 0;
  data.onRanking((now) => {
    tell();
    if (now.status === "running" && performance.now() - last < 700) return;
    last = performance.now();
    work();
  });
  changes.onChange((_, from) => from !== "singles" && from !== "compare" && draw());
  place.append(
    progress,
    el(
      "div",
      { class: "tools explorer-tools" },
      el("label", { for: "table-search" }, "Search"),
      search,
      byClass,
      byLabel,
      el("span", { class: "least" }, el("label", { for: "table-degree" }, "Degree at least"), degree),
      status,
    ),
    el("div", { class: "sheet" }, el("table", {}, el("caption", { class: "hidden" }, "Nodes by influence. Choose a heading to sort by it."), el("thead", {}, el("tr", {}, heads)), body)),
    el("nav", { class: "pager", "aria-label": "Pages of the ranking" }, back, forth),
  );
  tell();
  work();
}
