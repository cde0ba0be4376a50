// Inside the frame of a notebook's cell: what the page asks its server goes to the page around it, which asks the
// kernel. Runs before the explorer's script, which sees `fetch` and `EventSource` as anywhere.

(() => {
  const me = Array.from(crypto.getRandomValues(new Uint32Array(2)), (one) => one.toString(36)).join("");
  const waiting = new Map();
  let next = 0;
  const send = (id, message) => parent.postMessage({ nora: me, id, ...message }, "*");
  addEventListener("message", ({ source, data }) => {
    if (source === parent && data?.nora === me) waiting.get(data.id)?.(data);
  });
  const end = (id) => waiting.delete(id) && send(id, { abort: true });

  window.fetch = (path, { method = "GET", body = "", signal = null } = {}) =>
    new Promise((resolve, reject) => {
      const id = next++;
      waiting.set(id, (answer) => {
        waiting.delete(id);
        resolve(new Response(answer.body, { status: answer.status, headers: answer.headers }));
      });
      signal?.addEventListener("abort", () => end(id) && reject(new DOMException("aborted", "AbortError")));
      send(id, { method, path, body });
    });

  // Events as they come; the kernel sends each whole.
  window.EventSource = class {
    static CONNECTING = 0;
    static OPEN = 1;
    static CLOSED = 2;
    constructor(path) {
      this.readyState = 0;
      this.id = next++;
      waiting.set(this.id, ({ chunk = "" }) => {
        this.readyState = 1;
        this.onopen?.();
        for (const event of chunk.split("\n\n")) {
          const lines = event.split("\n").filter((line) => line.startsWith("data: "));
          if (lines.length && this.readyState === 1) this.onmessage?.({ data: lines.map((line) => line.slice(6)).join("\n") });
        }
      });
      send(this.id, { method: "GET", path, body: "" });
    }
    close() {
      this.readyState = 2;
      end(this.id);
    }
  };
})();
