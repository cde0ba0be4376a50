// Files to export: the picture, the changes, a program, a report.

import { el } from "../dom.js";
import { announcement } from "./words.js";
import { working } from "./working.js";

function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function exporting(place, page, drawn) {
  const { changes, source } = page;
  const status = el("span", { class: "muted", role: "status" });
  const button = (text, title, act) => {
    const made = el("button", { type: "button", class: "quiet", title }, text);
    made.addEventListener("click", async () => {
      made.disabled = true;
      status.textContent = "";
      try {
        await act();
      } catch (error) {
        if (error.name !== "AbortError") status.textContent = error.message;
      } finally {
        made.disabled = false;
      }
    });
    return made;
  };
  const file = (kind, name) => async () => {
    const job = source.job();
    const work = kind === "report" ? working(source, "export", job, "The report is being written") : null;
    if (work) status.replaceChildren(work.root);
    try {
      save(await source.export(kind, changes.state.edits, announcement(changes.state, page), job), name);
    } finally {
      work?.stop();
      status.textContent = "";
    }
  };
  source.onLost(() => (status.textContent = ""));
  place.append(
    el("span", { class: "label" }, "Export"),
    drawn ? button("PNG", "The picture as it is now", () => new Promise((done) => drawn.picture().toBlob((blob) => done(save(blob, "graph.png"))))) : "",
    button("CSV", "Every prediction that changes", file("csv", "changes.csv")),
    button("Python", "A program that asks the same", file("python", "what_if.py")),
    button("Report", "A page of the graph as it is after the edits, ranked again; one file", file("report", "report.html")),
    location.protocol === "blob:" ? "" : button("Link", "Copy the address of this state, for another window of this browser", async () => {
      await navigator.clipboard.writeText(location.href);
      status.textContent = "The address is copied.";
    }),
    status,
  );
}
