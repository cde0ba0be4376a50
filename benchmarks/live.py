"""How long one edge takes that comes or goes for good, on the real ogbn-arxiv citation graph.

    python benchmarks/live.py                   # GCN, SAGE and GAT; 100 insertions and 100 deletions each
    python benchmarks/live.py --only gcn --edits 20

Features are stand-ins (see `arxiv.py`). Edges are drawn at random: those that go from the graph's own,
those that come from all pairs of nodes; undirected, so both directions at once. The part `live` makes edits
for good (`Live.apply`, which tells who has changed), `what_if` tells the effect of each on the graph that was
prepared once. A pass is the bare forward pass, timed in the same process. At the end the predictions after
all edits are compared with a fresh pass. Seconds are those of the wall clock; CPU seconds stand beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import nora
from arxiv import arxiv_topology
from nora.graph.edge_lookup import EdgeLookup

HERE = Path(__file__).parent
SIZES = {
    "gcn": {"hidden_channels": 256},
    "sage": {"hidden_channels": 256},
    "gat": {"hidden_channels": 32, "heads": 8},
}


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds, and CPU seconds of all threads."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - cpu


def memory() -> float:
    """What the process holds, in GB; while the model runs it holds its messages, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1e6


def told(times: list[tuple[float, float]]) -> dict[str, Any]:
    """Median and largest."""
    seconds, cpu = zip(*times, strict=True)
    return {
        "count": len(times),
        "median_seconds": statistics.median(seconds),
        "largest_seconds": max(seconds),
        "median_cpu_seconds": statistics.median(cpu),
    }


def edges_of(data: Any, count: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Edges that go, and pairs that come."""
    chance, there = random.Random(0), EdgeLookup(data).types[None]
    every = data.edge_index.size(1)
    gone, come = set(), set()
    while len(gone) < count:
        gone.add(tuple(sorted(data.edge_index[:, chance.randrange(every)].tolist())))
    while len(come) < count:
        a, b = sorted(chance.sample(range(data.num_nodes), 2))
        if not bool(there.holds(torch.tensor([[a], [b]]))):
            come.add((a, b))
    return sorted(gone), sorted(come)


def measured(name: str, part: str, count: int, passes: int) -> dict[str, Any]:
    """One model: `live`, or `what_if`."""
    model, data = arxiv_topology(name, epochs=2, **SIZES[name])  # speed alone matters
    gone, come = edges_of(data, count)
    remove = [nora.Edits(remove_edges=[pair]) for pair in gone]
    add = [nora.Edits(add_edges=[pair]) for pair in come]

    def full_pass(graph: Any) -> torch.Tensor:
        with torch.no_grad():
            return model(graph.x, graph.edge_index).softmax(dim=-1)

    found: dict[str, Any] = {"nodes": data.num_nodes, "edges": data.num_edges // 2}
    found["pass"] = told([timed(lambda: full_pass(data)) for _ in range(passes)])
    found["memory_gb_before"] = memory()
    if part == "what_if":
        session = nora.Session(model, data)
        session.prepared.expect(1000)  # as a page does that many will ask
        ask = session.what_if
        found["preparing_seconds"] = timed(lambda: ask(remove[0]))[0]
    else:
        live = nora.Live(model, data)
        ask = live.apply
        found["preparing_seconds"] = timed(lambda: ask(remove[0]))[0]
    ask(add[0])  # the first ones are compared with the definition
    times: dict[str, list[tuple[float, float]]] = {"removed": [], "added": []}
    for less, more in zip(remove[1:], add[1:], strict=False):
        times["removed"].append(timed(lambda less=less: ask(less)))
        times["added"].append(timed(lambda more=more: ask(more)))
    for key, each in times.items():
        found[key] = told(each)
        found[key]["ratio"] = found["pass"]["median_seconds"] / found[key]["median_seconds"]
        found[key]["cpu_ratio"] = (
            found["pass"]["median_cpu_seconds"] / found[key]["median_cpu_seconds"]
        )
    if part == "live":
        found["how"] = live.how
        error = (live.predictions - full_pass(live.data)).abs().max()
        found["largest_error_after_all"] = float(error)
    found["load_average"] = os.getloadavg()[0]
    found["memory_gb_after"] = memory()
    return found


def main() -> None:
    """Measure the models asked for, and write each as it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--parts", nargs="*", default=["live", "what_if"])
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "live.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    results = json.loads(arguments.out.read_text())["settings"] if arguments.out.exists() else {}
    for name, part in [(name, part) for name in arguments.only for part in arguments.parts]:
        row = measured(name, part, arguments.edits, arguments.passes)
        results.setdefault(name, {})[part] = row
        about = {
            "command": "python benchmarks/live.py",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cores": os.cpu_count(),
            "settings": dict(sorted(results.items())),
        }
        arguments.out.write_text(json.dumps(about, indent=1) + "\n")
        for kind in ("removed", "added"):
            print(
                f"{name:5} {part:8} {kind:8} {1000 * row[kind]['median_seconds']:7.1f} ms, "
                f"{row[kind]['ratio']:6.0f} x a pass (CPU {row[kind]['cpu_ratio']:.0f} x)",
                flush=True,
            )


if __name__ == "__main__":
    main()
