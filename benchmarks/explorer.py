"""The explorer's latency: from the click to the painted effect, in Chromium, and what it takes in memory.

    python benchmarks/explorer.py                      # demo, Cora, PubMed, the ogbn-arxiv topology
    python benchmarks/explorer.py --only demo cora --clicks 40
    python benchmarks/explorer.py --server --edits 1000 # answers over HTTP alone, and memory before and after

A click is the change of the state that a click makes; the effect is painted when the panel shows its total
and two frames have passed since; `answer_ms` is the request alone. The ranking is finished
or stopped before, except in `while_ranking`. Headless Chromium draws WebGL on the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

import nora

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

OUT = Path(__file__).parent / "results" / "explorer.json"
SETTINGS = ("demo", "cora", "pubmed", "arxiv-topology")
GOAL = {"arxiv-topology": 300.0}

CLICK = """async node => {
    const painted = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const panel = document.getElementById("panel");
    await painted();
    const start = performance.now();
    history.replaceState(history.state, "", "#remove=" + node);
    window.dispatchEvent(new PopStateEvent("popstate"));
    await new Promise((done, fail) => {
        const look = () => {
            const busy = panel.getAttribute("aria-busy") !== "false";
            const there = panel.querySelector(".facts dd[data-value]");
            if (!busy && there && document.querySelectorAll(".edits li").length === 1) done();
            else if (performance.now() - start > 60000) fail(new Error("no effect"));
            else setTimeout(look, 1);
        };
        look();
    });
    await painted();
    const asked = performance.getEntriesByType("resource").filter(one => one.name.endsWith("/api/effect"));
    const answer = asked[asked.length - 1].duration;
    performance.clearResourceTimings();
    return [performance.now() - start, answer, Number(panel.querySelector(".facts dd").dataset.value)];
}"""


def subject(name: str) -> tuple[Any, Any, dict[str, Any]]:
    if name == "arxiv-topology":
        from arxiv import arxiv_topology

        model, data = arxiv_topology("gcn", hidden_channels=256)
        return model, data, {}
    run = nora.train("gcn", "polarised" if name == "demo" else name, progress=False)
    named = {"names": run.dataset.node_names, "class_names": run.dataset.class_names}
    return run.model, run.data, named


def megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def spread(values: list[tuple[float, float]]) -> dict[str, float]:
    ordered, answers = (sorted(column) for column in zip(*values, strict=True))
    at = round(0.95 * (len(ordered) - 1))
    return {
        "median_ms": round(statistics.median(ordered), 1),
        "p95_ms": round(ordered[at], 1),
        "answer_ms": round(statistics.median(answers), 1),
        "answer_p95_ms": round(answers[at], 1),
        "clicks": len(ordered),
    }


def measure(play: Any, name: str, clicks: int) -> dict[str, Any]:
    from chromium import launch

    model, data, named = subject(name)
    start = time.perf_counter()
    explorer = nora.explore(model, data, browser=False, **named)
    ready = time.perf_counter() - start
    browser = launch(play)
    page = browser.new_page(viewport={"width": 1360, "height": 900})
    page.set_default_timeout(300_000)
    start = time.perf_counter()
    page.goto(explorer.url)
    page.wait_for_selector("body.ready")
    page.wait_for_timeout(500)
    loaded = time.perf_counter() - start
    chance = random.Random(0)
    nodes = [chance.randrange(int(data.num_nodes)) for _ in range(2 * clicks + 3)]

    def click(some: list[int]) -> list[tuple[float, float]]:
        found = []
        for node in some:
            took, answer, total = page.evaluate(CLICK, node)
            found.append((took, answer))
            told[node] = total
        return found

    told: dict[int, float] = {}
    click(nodes[:3])  # compiled, and warm
    ranking = explorer._explorations.ranking
    busy = click(nodes[3 : clicks + 3]) if ranking.status == "running" else []
    ranking.pause()
    quiet = click(nodes[clicks + 3 :])
    few = chance.sample(sorted(told), 5)
    wrong = max(
        abs(told[node] - nora.what_if(model, data, node).total) / max(told[node], 1e-6)
        for node in few
    )
    heap = page.evaluate("performance.memory ? performance.memory.usedJSHeapSize / 1e6 : null")
    found = {
        "nodes": int(data.num_nodes),
        "edges": int(data.edge_index.size(1)),
        "quiet": spread(quiet),
        "while_ranking": spread(busy) if busy else None,
        "goal_median_ms": GOAL.get(name, 100.0),
        "largest_relative_error_of_5": wrong,
        "server_ready_seconds": round(ready, 2),
        "page_ready_seconds": round(loaded, 2),
        "server_megabytes": megabytes(),
        "page_heap_megabytes": None if heap is None else round(heap, 1),
    }
    browser.close()
    explorer.close()
    return found


def measure_server(name: str, edits: int) -> dict[str, Any]:
    """Random edits in a row over one connection each, answered while nothing else runs."""
    from loopback import Client

    model, data, named = subject(name)
    with nora.explore(model, data, browser=False, **named) as explorer:
        explorer._explorations.worker.submit(2, lambda: None).result()  # what is practised is over
        client, chance = Client(explorer), random.Random(0)
        took: list[float] = []
        before = 0.0
        for at in range(edits):
            nodes = chance.sample(range(int(data.num_nodes)), chance.choice((1, 1, 2, 3)))
            asked = {"edits": [{"kind": "remove", "node": node} for node in nodes]}
            start = time.perf_counter()
            told = client.ask("/api/effect", asked)
            took.append(1e3 * (time.perf_counter() - start))
            if at % max(edits // 5, 1) == 0:
                true = nora.what_if(model, data, nodes).total
                assert abs(told["total"] - true) <= 1e-4 * max(true, 1e-3), (
                    nodes,
                    told["total"],
                    true,
                )
            if at == edits // 4:
                before = megabytes()
        ordered = sorted(took)
        return {
            "edits": edits,
            "median_ms": round(statistics.median(ordered), 1),
            "p95_ms": round(ordered[round(0.95 * (edits - 1))], 1),
            "megabytes_after_a_quarter": before,
            "megabytes_after_all": megabytes(),
            "load_average": round(os.getloadavg()[0], 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=SETTINGS, choices=SETTINGS)
    parser.add_argument("--clicks", type=int, default=60)
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--edits", type=int, default=1000)
    asked = parser.parse_args()
    kept = json.loads(OUT.read_text()) if OUT.exists() else {}
    kept |= {
        "command": "python benchmarks/explorer.py, and with --server",
        "nora": nora.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }

    def keep(kind: str, name: str, found: dict[str, Any]) -> None:
        print(kind, name, json.dumps(found), flush=True)
        kept.setdefault(kind, {})[name] = found
        OUT.write_text(json.dumps(kept, indent=1) + "\n")

    if asked.server:
        for name in asked.only:
            keep("server", name, measure_server(name, asked.edits))
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        for name in asked.only:
            found = measure(play, name, asked.clicks)
            found["load_average"] = round(os.getloadavg()[0], 1)
            keep("page", name, found)


if __name__ == "__main__":
    main()
