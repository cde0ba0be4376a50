// Where the explorer reads from: its server. Every question holds all edits; a later one of a kind makes an earlier
// one void. While the server does not answer, the page shows that it has stopped, and goes on asking.

const me = Array.from(crypto.getRandomValues(new Uint32Array(2)), (one) => one.toString(36)).join("");
const WAIT = 1000;
const POLL = 400;

export class Refusal extends Error {}
const LOST = Symbol("lost");

export function served() {
  let number = Date.now();
  let lost = false;
  const listeners = [];
  const notify = (state) => {
    if (state === lost) return;
    lost = state;
    for (const listener of listeners) listener(lost);
  };
  const running = new Map();

  async function once(path, options) {
    let answer;
    try {
      answer = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw LOST;
    }
    if (answer.status === 403) {
      notify("closed");
      throw new Refusal("This page belongs to an explorer that is closed.");
    }
    // The server stops, or has not read the graph yet. A request that is cut off gets a 500 without JSON.
    const cut = answer.status === 500 && !answer.headers.get("content-type")?.startsWith("application/json");
    if (cut || answer.status === 503) throw LOST;
    notify(false);
    if (answer.ok) return answer;
    let text = `The server answers ${answer.status}.`;
    try {
      text = (await answer.json()).error ?? text;
    } catch {
      // No JSON: the status is all there is.
    }
    const refusal = new Refusal(text);
    refusal.status = answer.status;
    throw refusal;
  }

  // `kind` names what a later question of the same kind replaces.
  async function ask(path, body = undefined, kind = null) {
    const control = new AbortController();
    if (kind) {
      running.get(kind)?.abort();
      running.set(kind, control);
    }
    const options = { signal: control.signal };
    if (body !== undefined) Object.assign(options, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    for (;;) {
      try {
        return await once(path, options);
      } catch (error) {
        if (error !== LOST) throw error;
        notify("lost");
        await new Promise((again) => setTimeout(again, WAIT));
        if (control.signal.aborted) throw new DOMException("replaced", "AbortError");
      }
    }
  }
  const json = async (...question) => (await ask(...question)).json();

  const found = {
    command: "", // which starts the server
    // A large graph is prepared while the page is open already: `waiting` hears how far that is.
    async network(waiting) {
      let answer = await ask("/api/network");
      while (answer.status === 202) {
        waiting(await answer.json());
        await new Promise((again) => setTimeout(again, POLL));
        answer = await ask("/api/network");
      }
      const value = await answer.json();
      found.command = value.command;
      return value;
    },
    // With `chosen`, also what a large graph shows in front: the effect's neighbourhood and theirs.
    effect: (edits, chosen = null, kind = "effect") => json("/api/effect", { edits, ...(chosen ? { centres: chosen.slice(0, 60) } : {}), ...(kind === "effect" ? { page: me, number: number++ } : {}) }, kind),
    preview: (edits) => json("/api/effect", { edits }, "preview"),
    singles: (edits) => json("/api/singles", { edits }, "singles"),
    neighbourhood: (nodes, others) => json("/api/neighbours", { nodes, others }, "neighbourhood"),
    neighbours: async (node) => (await json("/api/neighbours", { nodes: [node], most: 200 }, "neighbours")),
    find: async (text, most) => (await json(`/api/search?most=${most}&text=${encodeURIComponent(text)}`, undefined, "find")).node,
    features: (node) => json(`/api/features?node=${node}`, undefined, "features"),
    why: (node, job) => json(`/api/why?node=${node}&job=${job}`, undefined, "why"),
    flip: (node, job) => json(`/api/flip?node=${node}&job=${job}`, undefined, "flip"),
    // Of long questions: a name to ask by how far they are, and their end.
    job: () => `${me}-${number++}`,
    progress: (job) => json(`/api/progress?job=${job}`, undefined, "progress"),
    cancel: (kind) => running.get(kind)?.abort(),
    steer: (asked) => json("/api/ranking", asked, "steer"),
    rows: (asked) => json("/api/rows", asked, "rows"),
    export: async (kind, edits, text, job) => (await ask("/api/export", { kind, edits, text, job }, "export")).blob(),
    // Scores as they come; the browser itself comes back after an interruption.
    follow({ of, measure }, listener) {
      const stream = new EventSource(`/api/ranking?of=${of}&measure=${encodeURIComponent(measure)}`);
      stream.onmessage = (event) => listener(JSON.parse(event.data), stream);
      stream.onopen = () => notify(false);
      stream.onerror = () => stream.readyState === EventSource.CONNECTING && notify("lost");
      return stream;
    },
    onLost: (listener) => listeners.push(listener),
  };
  return found;
}
