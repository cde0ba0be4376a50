// The charts, each with a caption that says in words what it shows.

import { axes, linear } from "./axes.js";
import { el, svg, withVariables } from "./dom.js";
import { count, fixed, number, percent } from "./format.js";
import { nodeButton } from "./panel.js";
import { scatter } from "./scatter.js";

// Charts are drawn for the width they have, so that their text keeps its size.
function figure(page, title, draw, ...caption) {
  const stage = el("div", { class: "chart" });
  let current = null;
  let last = 0;
  const redraw = (width) => {
    if (Math.abs(width - last) < 2) return;
    last = width;
    current = draw(width, Math.round(Math.min(Math.max(width * 0.68, 250), 400)));
    stage.replaceChildren(current);
  };
  new ResizeObserver(([entry]) => entry.contentRect.width > 0 && redraw(entry.contentRect.width)).observe(stage);
  page.selection.onChange(() => {
    // Of many classes others have a colour now.
    if (page.report.classes.length > 8 && last) {
      const width = last;
      last = 0;
      redraw(width);
    }
    current?.reveal?.();
  });
  return el("figure", { class: "card" }, el("h3", {}, title), stage, el("figcaption", {}, ...caption));
}

// A comma stays with its name.
const joined = (positions, end, page) =>
  positions.flatMap((position, index) => [
    " ",
    el("span", { class: "mention" }, nodeButton(position, page, "chart"), index < positions.length - 1 ? "," : end),
  ]);

// The shares worth naming, each number of nodes once: of few nodes, 1 % and 3 % may be the same one.
function milestones(spread, { report }) {
  const distinct = spread.shares.filter(([, amount], index, all) => !index || amount !== all[index - 1][1]);
  const few = distinct.length < spread.shares.length;
  return distinct.map(([share, amount, carried]) => ({
    at: amount / report.scored,
    carried,
    label: `${few ? (amount === 1 ? "first" : `first ${number(amount)}`) : `top ${percent(share)}`}: ${percent(carried)}`,
    text: few
      ? `the first ${amount === 1 ? "node carries" : `${number(amount)} carry`} ${percent(carried)}`
      : `the top ${percent(share)} (${number(amount)}) carry ${percent(carried)}`,
  }));
}

const LINE = 17;

function spreadChart(spread, page) {
  const found = milestones(spread, page);
  const draw = (width, height) => {
    const box = { left: 52, right: width - 22, top: 30, bottom: height - 44 };
    const x = linear([0, 1], [box.left, box.right]);
    const y = linear([0, 1], [box.bottom, box.top]);
    const path = spread.curve.map(([a, b], index) => `${index ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
    // From the highest downwards, each a line below the one before: under the curve there is room.
    let free = -Infinity;
    const marks = found
      .slice()
      .reverse()
      .map(({ at, carried, label }) => {
        const line = Math.max(y(carried) + 5, free);
        free = line + LINE;
        const right = at > 0.6;
        return svg(
          "g",
          { class: "share" },
          svg("circle", { cx: x(at), cy: y(carried), r: 4.5 }),
          svg("text", { x: x(at) + (right ? -11 : 11), y: line + (right ? LINE : 0), "text-anchor": right ? "end" : "start" }, label),
        );
      });
    return svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Lorenz curve of influence; described below." },
      ...axes(box, x, y, "share of nodes, the most influential first", "share of influence"),
      svg("line", { class: "trend", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
      svg("path", { class: "area", d: `${path}L${x(1)} ${y(0)}Z` }),
      svg("path", { class: "curve", d: path }),
      ...marks,
    );
  };
  const text = found.map((one) => one.text).join(", ");
  return figure(
    page,
    "A few carry much",
    draw,
    `Of all influence, ${text}; half of it lies with ${count(spread.half, "node")}. The dashed line: if all nodes were equal.`,
  );
}

const agreement = (found) => `Rank correlation ${fixed(found.spearman, 2)}; ${found.shared} of the top ${found.first} in common.`;

function outliers(found, values, page) {
  const { node } = page.data;
  // Of an estimate, what lies off the trend may be its own error.
  if (!found.trend || page.report.estimate) return [];
  const surprise = (position) => Math.log(node.influence[position]) - found.trend[1] - found.trend[0] * Math.log(values[position]);
  const above = found.notable.filter((position) => surprise(position) > 0).sort((a, b) => surprise(b) - surprise(a));
  const below = found.notable.filter((position) => surprise(position) <= 0).sort((a, b) => surprise(a) - surprise(b));
  return [above.length ? [" Above the trend:", joined(above, ".", page)] : "", below.length ? [" Below:", joined(below, ".", page)] : ""];
}

// Who is not among the dots, and why.
function left(values, shown, { data, report }) {
  const { node, ranked } = data;
  const zero = ranked.filter((position) => !(values[position] > 0 && node.influence[position] > 0)).length;
  const rest = ranked.length - zero;
  return [
    zero ? ` ${count(zero, "node")} with a value of 0 ${zero === 1 ? "has" : "have"} no place on logarithmic axes.` : "",
    shown < rest ? ` Drawn: ${number(shown)} of ${count(report.scored, "node")}, the first ones and a sample of the others.` : "",
  ];
}

function against(found, page) {
  const values = page.data.node[found.key];
  const title = found.key === "degree" ? "degree" : "PageRank";
  const { draw, shown } = scatter({ values, spread: found.key === "degree", title, label: found.key, trend: found.trend, notable: found.notable }, page);
  if (!shown) return null;
  const part = left(values, shown, page);
  return figure(page, `${page.report.yardstick ?? "Influence"} against ${title}`, draw, agreement(found), outliers(found, values, page), part);
}

function other(found, index, page) {
  const { draw, shown } = scatter({ values: found.score, spread: false, title: `score by ${found.name}`, label: `other-${index}`, trend: found.trend, notable: found.notable }, page);
  if (!shown) return null;
  const part = left(found.score, shown, page);
  return figure(page, `${page.report.method_name} against ${found.name}`, draw, agreement(found), ` Linear correlation ${fixed(found.pearson, 2)}.`, outliers(found, found.score, page), part);
}

export function charts(place, page) {
  const { report } = page;
  const all = [report.spread ? spreadChart(report.spread, page) : null, ...report.against.map((found) => against(found, page)), ...report.others.map((found, index) => other(found, index, page))];
  const shown = all.filter(Boolean);
  place.append(...shown);
  place.classList.toggle("three", shown.length % 3 === 0);
}
