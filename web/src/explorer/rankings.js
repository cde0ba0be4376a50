// Which ranking is looked at, by which measure, and its progress: scores of nodes stream in, rows of the others are
// asked for page by page.

export function rankings(page) {
  const { source, data, report } = page;
  const listeners = [];
  const state = { of: "nodes", measure: "change" };
  let progress = data.progress;
  let nodes = null;
  let other = null;
  const notify = () => {
    for (const listener of listeners) listener(state);
  };
  const ended = ({ status }) => status === "done" || status === "failed";

  function followNodes() {
    nodes?.close();
    nodes = source.follow({ of: "nodes", measure: state.measure }, (part, stream) => {
      data.take(part);
      if (ended(part)) stream.close();
      if (state.of === "nodes") notify();
    });
  }
  function followOther() {
    other?.close();
    other = null;
    if (state.of === "nodes") return;
    progress = { status: "waiting", done: 0, total: 0 };
    other = source.follow({ ...state }, (part, stream) => {
      progress = part;
      if (ended(part)) stream.close();
      notify();
    });
  }
  return {
    state,
    get progress() {
      return state.of === "nodes" ? data.progress : progress;
    },
    names: [["nodes", "Nodes"], ["edges", "Edges"], ...(report.can.includes("fragile") ? [["fragile", "Fragile nodes"]] : [])],
    measures: report.measures.map((one) => [one, data.measureText(one)]),
    onChange: (listener) => listeners.push(listener),
    start: followNodes,
    look(of) {
      state.of = of;
      followOther();
      notify();
    },
    by(measure) {
      state.measure = measure;
      data.use(measure);
      followNodes();
      followOther();
      notify();
    },
    steer: () => source.steer({ act: (state.of === "nodes" ? data.progress : progress).status === "running" ? "pause" : "start", ...state }),
  };
}
