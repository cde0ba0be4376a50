// Influence against something else, both on logarithmic axes; dots can be pointed at and chosen.

import { axes, logarithmic } from "./axes.js";
import { svg, withVariables } from "./dom.js";
import { names } from "./names.js";

const MOST = 2400;

// The same small sideways step for the same node every time: whole numbers would hide one another.
const jitter = (position) => ((Math.sin(position * 12.9898) * 43758.5453) % 1) * 0.09;

// The first ones, and of the others every so many, so that a large graph stays quick to draw.
function sample(values, { node, ranked }) {
  const seen = ranked.filter((position) => values[position] > 0 && node.influence[position] > 0);
  if (seen.length <= MOST) return seen;
  const first = seen.slice(0, MOST / 3);
  const step = (seen.length - first.length) / (MOST - first.length);
  const rest = Array.from({ length: Math.floor((seen.length - first.length) / step) }, (_, k) => seen[first.length + Math.floor(k * step)]);
  return [...first, ...rest];
}

export function scatter({ values, spread, title, label, trend, notable }, page) {
  const { data, colours, selection } = page;
  const { node, nameOf, classOf } = data;
  const shown = sample(values, data);
  let points = [];
  const draw = (width, height) => {
    const box = { left: 52, right: width - 10, top: 30, bottom: height - 44 };
    const valuesShown = shown.map((position) => values[position]);
    const influences = shown.map((position) => node.influence[position]);
    const range = (all) => [Math.min(...all), Math.max(...all)];
    const x = logarithmic(range(valuesShown), [box.left, box.right]);
    const y = logarithmic(range(influences), [box.bottom, box.top]);
    points = shown.map((position) => [x(values[position] * Math.exp(spread ? jitter(position) : 0)), y(node.influence[position]), position]);
    const at = new Map(points.map((point) => [point[2], point]));
    const dots = points
      .slice()
      .reverse()
      .map(([cx, cy, position]) => withVariables(svg("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: 2.7 }), { "--own": `var(${colours.colour(classOf(position))})` }));
    const ends = range(valuesShown);
    const line = trend
      ? svg("line", { class: "trend", "clip-path": `url(#clip-${label})`, ...Object.fromEntries(ends.flatMap((end, k) => [[`x${k + 1}`, x(end)], [`y${k + 1}`, y(Math.exp(trend[1]) * end ** trend[0])]])) })
      : null;
    const wanted = notable.filter((position) => at.has(position)).map((position) => ({ x: at.get(position)[0], y: at.get(position)[1], text: nameOf(position) }));
    const mark = svg("g", { class: "mark" });
    const root = svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Scatter plot of influence against ${title}; described below.` },
      svg("clipPath", { id: `clip-${label}` }, svg("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top })),
      ...axes(box, x, y, title, "influence"),
      line,
      svg("g", { class: "dots" }, dots),
      ...names(wanted, points, box),
      mark,
    );
    const show = (position, hover) => {
      const point = position === null ? null : at.get(position);
      if (!point) return mark.replaceChildren();
      const right = point[0] > width * 0.7;
      mark.replaceChildren(
        svg("circle", { cx: point[0], cy: point[1], r: 6 }),
        hover ? svg("text", { x: point[0] + (right ? -11 : 11), y: point[1] + 4, "text-anchor": right ? "end" : "start" }, nameOf(position)) : "",
      );
    };
    const nearest = (event) => {
      const frame = root.getBoundingClientRect();
      const [px, py] = [((event.clientX - frame.left) * width) / frame.width, ((event.clientY - frame.top) * height) / frame.height];
      let best = null;
      let least = 14;
      for (const [cx, cy, position] of points) {
        const distance = Math.hypot(cx - px, cy - py);
        if (distance < least) [best, least] = [position, distance];
      }
      return best;
    };
    root.addEventListener("mousemove", (event) => {
      const found = nearest(event);
      root.classList.toggle("pointing", found !== null);
      show(found ?? selection.only, found !== null);
    });
    root.addEventListener("mouseleave", () => show(selection.only, false));
    root.addEventListener("click", (event) => {
      const found = nearest(event);
      if (found !== null) selection.select(found, "chart");
    });
    root.reveal = () => show(selection.only, false);
    root.reveal();
    return root;
  };
  return { draw, shown: shown.length };
}
