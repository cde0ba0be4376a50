// The removed nodes and edges: one state that the picture, the panel, the table and the address share.
//
// A state is {removed, effect, neighbours, waiting, edge}: positions, what their removal changes (null: not known here),
// the neighbours of the first, and whether an answer is still to come; or no position, and the edge that is chosen
// instead, as {source, target, influence, flips, rank}.

const NOTHING = { removed: [], effect: null, neighbours: null, waiting: false, edge: null };

export function createSelection(source) {
  let state = NOTHING;
  let asked = 0;
  const listeners = [];
  const notify = (from) => {
    for (const listener of listeners) listener(state, from);
  };

  // `from` says where the choice was made, so that the picture moves only for choices made elsewhere.
  function select(chosen, from = "") {
    const removed = chosen === null ? [] : [chosen].flat();
    const question = ++asked;
    if (!removed.length) {
      state = NOTHING;
      return notify(from);
    }
    const answers = [source.effect(removed), source.neighbours(removed[0])];
    const settle = ([effect, neighbours]) => {
      // A later question has been asked meanwhile: its answer counts.
      if (question !== asked) return;
      state = { ...NOTHING, removed, effect, neighbours };
      notify(from);
    };
    if (!answers.some((one) => one instanceof Promise)) return settle(answers);
    state = { ...NOTHING, removed, waiting: true };
    notify(from);
    return Promise.all(answers).then(settle);
  }

  function selectEdge(edge, from = "") {
    asked++;
    state = { ...NOTHING, edge };
    notify(from);
  }

  return {
    get state() {
      return state;
    },
    // The removed node, if it is a single one.
    get only() {
      return state.removed.length === 1 ? state.removed[0] : null;
    },
    select,
    selectEdge,
    onChange: (listener) => listeners.push(listener),
  };
}
