// Something that takes a while: how far it is, and a button that ends it.

import { el } from "../dom.js";
import { number } from "../format.js";

const POLL = 500;

// `kind` is what `source.cancel` ends, `job` what the server knows the work by.
export function working(source, kind, job, title) {
  const text = el("span", {}, `${title} …`);
  const root = el("span", { class: "working muted" }, text, " ", el("button", { type: "button", class: "quiet", "aria-label": `Cancel: ${title}`, onclick: () => source.cancel(kind) }, "Cancel"));
  const begun = performance.now();
  const timer = setInterval(async () => {
    const { what, done, total } = await source.progress(job).catch(() => ({}));
    const steps = total ? `${number(Math.round(done))} of ${number(total)}` : done ? number(Math.round(done)) : "";
    text.textContent = `${title}: ${[what, steps, `${number(Math.round((performance.now() - begun) / 1000))} s`].filter(Boolean).join(", ")} `;
  }, POLL);
  return { root, stop: () => clearInterval(timer) };
}
