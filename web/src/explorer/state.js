// What is changed, what is chosen, what it is compared with: one state that all parts of the page share, and that is
// the address. A change of the edits is a step of the browser's history.

import { read, written } from "./address.js";
import { Refusal } from "./served.js";

const ends = (edit) => (edit.edge ? edit.edge : [edit.node]);
const same = (a, b) => written([{ ...a, value: 0, values: {} }]) === written([{ ...b, value: 0, values: {} }]);

export function createState(source, report) {
  let asked = 0;
  const listeners = [];
  const state = { edits: [], chosen: [], against: null, effect: null, singles: null, other: null, waiting: false, problem: null, removed: [], neighbours: null };
  let at = 0;
  let last = 0;
  const notify = (from) => {
    for (const listener of listeners) listener(state, from);
  };
  // An edge is removed in all its directions; an added one has one direction where the graph's edges do.
  const ordered = ({ kind, edge }) => (kind === "remove_edge" || report.undirected ? edge.slice().sort((a, b) => a - b) : edge);

  async function ask(from) {
    const question = ++asked;
    state.removed = state.edits.filter((edit) => edit.kind === "remove").map((edit) => edit.node);
    state.waiting = true;
    state.problem = null;
    state.singles = null;
    if (!state.edits.length) Object.assign(state, { effect: null, waiting: false });
    notify(from);
    if (!state.edits.length) return;
    try {
      const effect = await source.effect(state.edits, report.drawing.whole ? null : state.chosen);
      if (question !== asked) return;
      const alone = state.edits.length === 1 ? [{ total: effect.total, flips: effect.flips }] : null;
      Object.assign(state, { effect, singles: alone, waiting: false });
      notify("answer");
      if (alone) return;
      const singles = await source.singles(state.edits);
      if (question !== asked) return;
      state.singles = singles;
      notify("singles");
    } catch (error) {
      if (question !== asked || error.name === "AbortError") return;
      if (!(error instanceof Refusal)) throw error;
      if (error.status === 409) return;
      Object.assign(state, { effect: null, waiting: false, problem: error.message });
      notify("answer");
    }
  }

  async function compare() {
    const { against } = state;
    state.other = null;
    if (!against) return notify("compare");
    try {
      const other = await source.effect(against, null, "other");
      if (state.against === against) state.other = other;
    } catch (error) {
      if (!(error instanceof Refusal)) return;
      state.other = { problem: error.message };
    }
    notify("compare");
  }

  // Edits and then more of them: those that contradict a later one go, and an edge that was removed and added again is
  // as it was. Of an address, too: what it says twice counts once.
  function joined(edits, more) {
    let found = edits.slice();
    for (const given of more) {
      const edit = given.edge ? { ...given, edge: ordered(given) } : given;
      const opposite = { remove_edge: "add_edge", add_edge: "remove_edge" }[edit.kind];
      const undone = opposite ? found.findIndex((other) => same({ ...edit, kind: opposite }, other)) : -1;
      if (undone >= 0) {
        found.splice(undone, 1);
        continue;
      }
      found = found.filter((other) => !same(edit, other));
      if (edit.kind === "remove") found = found.filter((other) => other.kind === "remove" || !ends(other).includes(edit.node));
      found.push(edit);
    }
    return found;
  }

  const hash = () => `#${written(state.edits, state.against)}`;
  function go(edits, from) {
    state.edits = edits;
    at += 1;
    last = at;
    history.pushState({ at, last }, "", hash());
    return ask(from);
  }

  // Back, forward, or an address that was typed.
  function readAddress() {
    at = history.state?.at ?? 0;
    last = Math.max(last, at);
    const given = read(location.hash, report.num_nodes);
    const [edits, against] = [joined([], given.edits), given.against && joined([], given.against)];
    const other = written(against ?? []) !== written(state.against ?? []) || Boolean(against) !== Boolean(state.against);
    state.edits = edits;
    state.against = against;
    if (other) compare();
    return ask("address");
  }
  window.addEventListener("popstate", readAddress);

  return {
    get state() {
      return state;
    },
    onChange: (listener) => listeners.push(listener),
    start: readAddress,
    again: () => ask("again"),
    find: (edit) => state.edits.findIndex((other) => same(edit, other)),
    has(edit) {
      return this.find(edit) >= 0;
    },
    // What the edits would be with these: nothing is changed.
    with: (more) => joined(state.edits, [more].flat()),
    add: (more, from = "") => go(joined(state.edits, [more].flat()), from),
    drop(edit, from = "") {
      return go(state.edits.filter((other) => !same(edit, other)), from);
    },
    toggle(edit, from = "") {
      const own = edit.edge ? { ...edit, edge: ordered(edit) } : edit;
      return this.has(own) ? this.drop(own, from) : this.add(own, from);
    },
    clear: (from = "") => go([], from),
    load: (edits, from = "") => go(edits, from),
    get canUndo() {
      return state.edits.length > 0 || at > 0;
    },
    get canRedo() {
      return at < last;
    },
    undo() {
      if (at > 0) history.back();
      else if (state.edits.length) go(state.edits.slice(0, -1), "undo");
    },
    redo() {
      if (at < last) history.forward();
    },
    // Of one node, or of several with `more`.
    choose(positions, from = "", more = false) {
      const given = positions === null ? [] : [positions].flat();
      if (!more) state.chosen = given;
      else for (const one of given) state.chosen = state.chosen.includes(one) ? state.chosen.filter((other) => other !== one) : [...state.chosen, one];
      notify(from || "choose");
    },
    against(edits) {
      state.against = edits;
      history.replaceState({ at, last }, "", hash());
      return compare();
    },
    select(position, from) {
      this.choose(position, from);
    },
  };
}
