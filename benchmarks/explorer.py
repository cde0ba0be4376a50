"""The explorer's latency from the click to the painted effect in Chromium, part by part; memory; answers.

    python benchmarks/explorer.py                      # clicks on demo, Cora, PubMed, the ogbn-arxiv topology
    python benchmarks/explorer.py --only demo cora --clicks 40
    python benchmarks/explorer.py --server             # edits over HTTP alone, one client and eight at once
    python benchmarks/explorer.py --start              # from the call to the first paint and effect; clicks

A click is a mouse click on a node of the picture. Its effect is painted when the panel tells the total, the
picture has been drawn with it, and two more frames have passed. Parts of that time:

- `server_ms`: what the server says that it took for the answer (`Server-Timing`);
- `network_ms`: the rest of the request, as the browser sees it;
- `page_ms`: script, style and layout of the page (`Performance.getMetrics` of the DevTools protocol);
- `rest_ms`: drawing, compositing and waiting for frames; `drawing_cpu_ms` is the processor time of Chromium's
  graphics process for one click. Headless Chromium without a graphics card draws WebGL on the processor, so
  that this part is the machine's, not the explorer's: `without_picture` are the same clicks in a browser that
  has no WebGL, where the page shows everything but the picture.

With `--start` one thread prepares and answers; seconds and milliseconds are wall clock, `cpu_` those of the
process, which a busy machine does not change. With `--server` random edits of all kinds are asked, and
answers compared with full passes of the model (`nora.what_if(…, method="brute")`), in double precision up to
50,000 nodes.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import random
import re
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch_geometric.utils import k_hop_subgraph

import nora

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

OUT = Path(__file__).parent / "results" / "explorer.json"
SETTINGS = ("demo", "cora", "pubmed", "arxiv-topology")
GOAL = {"arxiv-topology": 300.0}
# How many answers are compared with a full pass, which takes seconds on the largest graph.
COMPARED = {"demo": 1000, "cora": 1000, "pubmed": 60, "arxiv-topology": 8}
CLIENTS = 8
LARGE = 50_000

TOOLS = """
    const frames = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const panel = document.getElementById("panel"), stage = document.getElementById("stage");
    const until = (there) => new Promise((done, fail) => {
        const late = setTimeout(() => fail(new Error("no effect")), 60000);
        const look = () => there() && (watch.disconnect(), clearTimeout(late), done());
        const watch = new MutationObserver(look);
        watch.observe(panel, {attributes: true, childList: true, subtree: true});
        watch.observe(stage, {attributes: true});
        look();
    });
    const drawn = () => !window.noraGraph || stage.dataset.drawn === location.hash;
"""
RESET = f"""async () => {{{TOOLS}
    history.replaceState(history.state, "", location.pathname);
    window.dispatchEvent(new PopStateEvent("popstate"));
    await until(() => drawn() && !panel.querySelector(".edits li"));
    await frames();
    await new Promise(done => setTimeout(done, 60));
    performance.clearResourceTimings();
}}"""
CLICK = (
    "async ([spot, node]) => {"
    + TOOLS
    + """
    const start = performance.now();
    if (spot) {
        const box = stage.getBoundingClientRect();
        const at = {clientX: box.left + spot[0], clientY: box.top + spot[1], bubbles: true};
        const mouse = stage.querySelector(".sigma-mouse");
        for (const kind of ["mousedown", "mouseup", "click"]) mouse.dispatchEvent(new MouseEvent(kind, at));
    } else {
        history.replaceState(history.state, "", "#remove=" + node);
        window.dispatchEvent(new PopStateEvent("popstate"));
    }
    await until(() => panel.getAttribute("aria-busy") === "false"
        && panel.querySelectorAll(".edits li").length === 1
        && panel.querySelector(".facts dd[data-value]") && drawn());
    await frames();
    const took = performance.now() - start;
    const asked = performance.getEntriesByType("resource").filter(one => one.name.endsWith("/api/effect"));
    const last = asked[asked.length - 1];
    return {
        took, answer: last.duration, server: last.serverTiming[0].duration,
        node: Number(/remove=(\\d+)/.exec(location.hash)[1]),
        total: Number(panel.querySelector(".facts dd").dataset.value),
    };
}"""
)
SPOT = """node => {
    const {x, y} = window.noraPlaces(node);
    return [x, y];
}"""


def subject(name: str) -> tuple[Any, Any, dict[str, Any]]:
    if name == "arxiv-topology":
        from arxiv import arxiv_topology

        # How well it is trained does not matter to how long an answer takes.
        model, data = arxiv_topology("gcn", epochs=3, hidden_channels=256)
        return model, data, {}
    run = nora.train("gcn", "polarised" if name == "demo" else name, progress=False)
    named = {"names": run.dataset.node_names, "class_names": run.dataset.class_names}
    return run.model, run.data, named


def truth(model: Any, data: Any, **edits: Any) -> float:
    """The total change by full passes in double precision: in single, sums over many nodes are off.

    The largest graph has no room for that. There passes are in single precision, and only nodes count that
    are three edges from what is edited, as far as two layers of GCN carry it: what changes beyond rounds.
    rounding.
    """
    if int(data.num_nodes) > LARGE:
        ends = [node for pair in edits.get("remove_edges", []) for node in pair]
        ends += [node for pair in edits.get("add_edges", []) for node in pair]
        ends += [*edits.get("remove", []), *edits.get("features", {})]
        change = nora.what_if(model, data, nora.Edits(**edits), method="brute").change
        reached = k_hop_subgraph(ends, 3, data.edge_index, num_nodes=data.num_nodes)[0]
        return float(change[reached].double().sum())
    exact, graph = copy.deepcopy(model).double(), copy.copy(data)
    graph.x = data.x.double()
    if "features" in edits:
        edits["features"] = {node: row.double() for node, row in edits["features"].items()}
    session = nora.Session(exact, graph, once=True)
    return session.what_if(nora.Edits(**edits), method="brute").total


def megabytes(pid: int | str = "self") -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def processes(kind: str) -> list[int]:
    """Chromium's processes of one kind that this process has started."""
    parents, kinds = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            kinds[int(entry.name)] = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        parents[int(entry.name)] = int(stat[1])

    def ours(pid: int) -> bool:
        while pid in parents:
            if pid == os.getpid():
                return True
            pid = parents[pid]
        return False

    flag = f"--type={kind}".encode()
    return [pid for pid, words in kinds.items() if flag in words and ours(pid)]


def cpu_ms(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(stat[11]) + int(stat[12])
    return 1e3 * ticks / os.sysconf("SC_CLK_TCK")


def at95(values: list[float]) -> float:
    return sorted(values)[round(0.95 * (len(values) - 1))]


def spread(clicks: list[dict[str, float]], drawing: float | None) -> dict[str, float]:
    def middle(key: str) -> float:
        return round(statistics.median(one[key] for one in clicks), 1)

    for one in clicks:
        one["network"] = one["answer"] - one["server"]
        one["rest"] = one["took"] - one["answer"] - one["page"]
    found = {
        "median_ms": middle("took"),
        "p95_ms": round(at95([one["took"] for one in clicks]), 1),
        "server_ms": middle("server"),
        "network_ms": middle("network"),
        "page_ms": middle("page"),
        "rest_ms": middle("rest"),
        "clicks": len(clicks),
    }
    if drawing is not None:
        found["drawing_cpu_ms"] = round(drawing / len(clicks), 1)
    return found


class Clicker:
    """A page, and clicks in it."""

    def __init__(self, play: Any, explorer: Any, picture: bool) -> None:
        from chromium import CHROMIUM, FLAGS

        flags = [*FLAGS] if picture else ["--no-sandbox", "--disable-gpu", "--disable-3d-apis"]
        self.browser = play.chromium.launch(executable_path=CHROMIUM, headless=True, args=flags)
        self.picture = picture
        self.page = self.browser.new_page(viewport={"width": 1360, "height": 900})
        self.page.set_default_timeout(300_000)
        self.tools = self.page.context.new_cdp_session(self.page)
        self.tools.send("Performance.enable")
        start = time.perf_counter()
        self.page.goto(explorer.url)
        self.page.wait_for_selector("body.ready")
        self.page.wait_for_timeout(500)
        self.ready = round(time.perf_counter() - start, 2)

    def _worked(self) -> float:
        """Milliseconds of script, style and layout so far."""
        found = {
            one["name"]: one["value"]
            for one in self.tools.send("Performance.getMetrics")["metrics"]
        }
        parts = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
        return 1e3 * sum(found[one] for one in parts)

    def click(
        self, nodes: list[int], told: dict[int, float]
    ) -> tuple[list[dict[str, float]], float]:
        found, gpu = [], processes("gpu-process")
        drawing = 0.0
        for node in nodes:
            self.page.evaluate(RESET)
            spot = self.page.evaluate(SPOT, node) if self.picture else None
            before, drawn = self._worked(), cpu_ms(gpu)
            one = self.page.evaluate(CLICK, [spot, node])
            one["page"] = self._worked() - before
            drawing += cpu_ms(gpu) - drawn
            told[int(one["node"])] = one["total"]
            found.append(one)
        return found, drawing


def measure(play: Any, name: str, clicks: int) -> dict[str, Any]:
    model, data, named = subject(name)
    alone = megabytes()
    start = time.perf_counter()
    explorer = nora.explore(model, data, browser=False, **named)
    ready = time.perf_counter() - start
    chance = random.Random(0)
    nodes = [chance.randrange(int(data.num_nodes)) for _ in range(2 * clicks + 3)]
    told: dict[int, float] = {}
    ranking = explorer._explorations.ranking
    pages: dict[bool, Clicker] = {}
    found: dict[str, Any] = {
        "nodes": int(data.num_nodes),
        "edges": int(data.edge_index.size(1)),
        "goal_median_ms": GOAL.get(name, 100.0),
        "server_ready_seconds": round(ready, 2),
    }
    for picture in (True, False):
        page = pages[picture] = Clicker(play, explorer, picture)
        page.click(nodes[:3], told)  # compiled, and warm
        if picture:
            busy = []
            if ranking.status == "running":
                busy, drawing = page.click(nodes[3 : clicks + 3], told)
            found["while_ranking"] = spread(busy, drawing) if busy else None
            found["page_ready_seconds"] = page.ready
        ranking.pause()
        explorer._explorations.answers.recent._held.clear()  # nothing is answered from before
        quiet, drawing = page.click(nodes[clicks + 3 :], told)
        found["quiet" if picture else "without_picture"] = spread(
            quiet, drawing if picture else None
        )
        if picture:
            heap = "performance.memory.usedJSHeapSize / 1e6"
            found["page_heap_megabytes"] = round(page.page.evaluate(heap), 1)
            found["page_process_megabytes"] = max(megabytes(pid) for pid in processes("renderer"))
        page.browser.close()
    few = chance.sample(sorted(told), 5)
    true = {node: truth(model, data, remove=[node]) for node in few}
    found["largest_relative_error_of_5"] = max(
        abs(told[node] - true[node]) / max(true[node], 1e-2) for node in few
    )
    found["server_megabytes"] = megabytes()
    found["of_which_before_exploring"] = alone
    explorer.close()
    return found


def random_edits(data: Any, chance: random.Random) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One to three edits of all kinds as the page sends them, and as `nora.what_if` takes them."""
    nodes = int(data.num_nodes)
    told: list[dict[str, Any]] = []
    asked: dict[str, Any] = {"remove": [], "remove_edges": [], "add_edges": [], "features": {}}
    used: set[int] = set()
    for kind in chance.sample(
        ("remove", "remove", "remove_edge", "add_edge", "set"), chance.choice((1, 1, 2, 3))
    ):
        if kind == "remove_edge":
            at = chance.randrange(data.edge_index.size(1))
            one, other = data.edge_index[:, at].tolist()
        else:
            one, other = chance.sample(range(nodes), 2)
        near = data.edge_index[1][data.edge_index[0] == one]
        if (
            {one, other} & used
            or one == other
            or (kind == "add_edge" and bool((near == other).any()))
        ):
            continue
        used |= {one, other}
        edge = sorted((one, other))
        if kind == "remove":
            told.append({"kind": kind, "node": one})
            asked["remove"].append(one)
        elif kind == "remove_edge":
            told.append({"kind": kind, "edge": edge})
            asked["remove_edges"].append(tuple(edge))
        elif kind == "add_edge":
            told.append({"kind": kind, "edge": edge})
            asked["add_edges"].append(tuple(edge))
        else:
            feature, value = chance.randrange(data.x.size(1)), round(chance.uniform(-1, 1), 3)
            told.append({"kind": kind, "node": one, "feature": feature, "value": value})
            row = data.x[one].clone()
            row[feature] = value
            asked["features"][one] = row
    if not told:
        return random_edits(data, chance)
    return told, {key: value for key, value in asked.items() if value}


def measure_server(name: str, edits: int) -> dict[str, Any]:
    """Random edits in a row by one client, then by eight at once; memory before and after."""
    from loopback import Client

    model, data, named = subject(name)
    with nora.explore(model, data, browser=False, **named) as explorer:
        explorer._explorations.worker.submit(2, lambda: None).result()  # what is warmed up is over
        explorer._server.config.app.allowance.rate = 1e6
        made = [random_edits(data, random.Random(seed)) for seed in range(edits)]
        parts = [made[: edits // 2], made[edits // 2 :]]
        answers: dict[int, float] = {}
        took: dict[str, list[float]] = {"one_client": [], "eight_clients": []}
        sizes = [megabytes()]

        def ask(client: Client, which: list[int], key: str) -> None:
            for at in which:
                start = time.perf_counter()
                answers[at] = client.ask("/api/effect", {"edits": made[at][0]})["total"]
                took[key].append(1e3 * (time.perf_counter() - start))
                if at % max(edits // 8, 1) == 0:
                    sizes.append(megabytes())

        ask(Client(explorer), list(range(len(parts[0]))), "one_client")
        rest = list(range(len(parts[0]), edits))
        threads = [
            threading.Thread(target=ask, args=(Client(explorer), rest[k::CLIENTS], "eight_clients"))
            for k in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sizes.append(megabytes())
        assert len(answers) == edits
        answers = explorer._explorations.answers
        kept, pages = len(answers.recent), len(answers._latest)
        assert kept <= answers.recent.most and pages <= answers._latest.most
        compared = random.Random(1).sample(range(edits), min(edits, COMPARED[name]))
        errors = []
        for at in compared:
            true = truth(model, data, **made[at][1])
            errors.append(abs(answers[at] - true) / max(true, 1e-2))
        return {
            "edits": edits,
            **{
                f"{key}_{part}": round(value, 1)
                for key, values in took.items()
                for part, value in (
                    ("median_ms", statistics.median(values)),
                    ("p95_ms", at95(values)),
                )
            },
            "megabytes": sizes,
            "answers_kept": kept,
            "compared_with_full_passes": len(compared),
            "largest_relative_error": max(errors),
            "load_average": round(os.getloadavg()[0], 1),
        }


def measure_start(play: Any, name: str, clicks: int) -> dict[str, Any]:
    """From `nora.explore` to the first paint, the graph and the first effect; then clicks; in one thread."""
    from chromium import CHROMIUM, FLAGS
    from loopback import Client

    torch.set_num_threads(1)
    model, data, named = subject(name)
    browser = play.chromium.launch(executable_path=CHROMIUM, headless=True, args=[*FLAGS])
    page = browser.new_page(viewport={"width": 1360, "height": 900})
    page.set_default_timeout(900_000)
    start, used = time.perf_counter(), time.process_time()
    found: dict[str, Any] = {}

    def reached(what: str) -> None:
        found[f"{what}_seconds"] = round(time.perf_counter() - start, 2)
        found[f"cpu_{what}_seconds"] = round(time.process_time() - used, 2)

    explorer = nora.explore(model, data, browser=False, **named)
    reached("address")
    page.goto(explorer.url)
    page.wait_for_url(re.compile(r":\d+/$"))
    while not page.evaluate("performance.getEntriesByName('first-contentful-paint').length"):
        page.wait_for_timeout(20)
    reached("first_paint")
    page.wait_for_selector("body.ready")
    reached("graph_drawn")
    page.close()
    client = Client(explorer, timeout=900)
    chance = random.Random(1)
    nodes = [chance.randrange(int(data.num_nodes)) for _ in range(clicks + 3)]

    def click(node: int) -> tuple[float, float]:
        begun, worked = time.perf_counter(), time.process_time()
        client.ask("/api/effect", {"edits": [{"kind": "remove", "node": node}], "around": []})
        return 1e3 * (time.perf_counter() - begun), 1e3 * (time.process_time() - worked)

    click(nodes[0])
    reached("first_effect")
    explorer._explorations.ranking.pause()
    explorer._explorations.worker.submit(2, lambda: None).result()  # what is warmed up is over
    for node in nodes[1:3]:
        click(node)
    wall, cpu = zip(*(click(node) for node in nodes[3:]), strict=True)
    found |= {
        "click_median_ms": round(statistics.median(wall), 1),
        "click_p95_ms": round(at95(list(wall)), 1),
        "cpu_click_median_ms": round(statistics.median(cpu), 1),
        "cpu_click_p95_ms": round(at95(list(cpu)), 1),
        "clicks": clicks,
        "server_megabytes": megabytes(),
    }
    browser.close()
    explorer.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=SETTINGS, choices=SETTINGS)
    parser.add_argument("--clicks", type=int, default=40)
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--start", action="store_true")
    parser.add_argument("--edits", type=int, default=1000)
    asked = parser.parse_args()

    def keep(kind: str, name: str, found: dict[str, Any]) -> None:
        print(kind, name, json.dumps(found), flush=True)
        kept = json.loads(OUT.read_text()) if OUT.exists() else {}
        kept |= {
            "command": "python benchmarks/explorer.py, and with --server or --start",
            "nora": nora.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        }
        kept.setdefault(kind, {})[name] = found
        OUT.write_text(json.dumps(kept, indent=1) + "\n")

    if asked.server:
        for name in asked.only:
            keep("server", name, measure_server(name, asked.edits))
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        for name in asked.only:
            found = (measure_start if asked.start else measure)(play, name, asked.clicks)
            found["load_average"] = round(os.getloadavg()[0], 1)
            keep("start" if asked.start else "page", name, found)


if __name__ == "__main__":
    main()
