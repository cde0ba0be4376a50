// What every component of a page is given: its source, its nodes, its colours, and the removed nodes.

import { nodes } from "./nodes.js";
import { classesOf, palette } from "./palette.js";
import { createSelection } from "./selection.js";

export function createPage(source) {
  const report = source.value;
  const data = nodes(report);
  const colours = palette(report);
  const selection = createSelection(source);
  // Before anybody draws.
  selection.onChange((state) => colours.attend(classesOf(state, data)));
  return { source, report, data, colours, selection };
}
