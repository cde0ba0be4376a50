// Names of nodes on the canvas: the important first, each beside its node where no other name is.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';
const SIZE = 13;

const shortened = (text) => (text.length > 32 ? `${text.slice(0, 31)}…` : text);

function box(context, data, side) {
  const width = context.measureText(shortened(data.label)).width;
  const [x, y] = {
    right: [data.x + data.size + 5, data.y],
    left: [data.x - data.size - 5 - width, data.y],
    above: [data.x - width / 2, data.y - data.size - 9],
    below: [data.x - width / 2, data.y + data.size + 10],
  }[side];
  return { x, y: y + SIZE / 3, left: x - 2, right: x + width + 2, top: y - 9, bottom: y + 9 };
}

const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

// Text with an outline in the paper's colour stays readable on any ground.
function drawLabel(context, data, side, weight, colour) {
  if (!data.label) return null;
  context.font = `${weight} ${SIZE}px ${FONT}`;
  const place = box(context, data, side);
  context.lineJoin = "round";
  context.lineWidth = 4;
  context.strokeStyle = colour("--paper");
  context.strokeText(shortened(data.label), place.x, place.y);
  context.fillStyle = colour("--ink");
  context.fillText(shortened(data.label), place.x, place.y);
  return place;
}

export function drawLabels(context, labels, colour) {
  const taken = [];
  context.font = `550 ${SIZE}px ${FONT}`;
  const { clientWidth: width, clientHeight: height } = context.canvas;
  const inside = (one) => one.left >= 0 && one.right <= width && one.top >= 0 && one.bottom <= height;
  const free = (one) => inside(one) && !taken.some((other) => meet(other, one));
  for (const data of labels.sort((a, b) => b.zIndex - a.zIndex || b.size - a.size)) {
    const side = ["right", "left", "above", "below"].find((one) => free(box(context, data, one)));
    if (side) taken.push(drawLabel(context, data, side, 550, colour));
  }
}
