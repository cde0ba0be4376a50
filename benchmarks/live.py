"""How long one edge takes that comes or goes for good, on the real ogbn-arxiv citation graph.

    python benchmarks/live.py                   # GCN, SAGE and GAT; 100 insertions and 100 deletions each
    python benchmarks/live.py --only gcn --edits 20

Features are stand-ins (see `arxiv.py`). Edges are drawn at random: those that go from the graph's own, those
that come from all pairs of nodes; undirected, so both directions at once. `apply` makes an edit for good and
tells who has changed; `what_if` tells the effect of one edge on the graph that was prepared once. A pass is a
full forward pass on the edited graph, timed in the same process. At the end the predictions after all edits
are compared with a fresh pass. Seconds are those of the wall clock; CPU seconds stand beside them.
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
    chance = random.Random(0)
    every = data.edge_index.size(1)
    gone = {
        tuple(sorted(data.edge_index[:, chance.randrange(every)].tolist())) for _ in range(count)
    }
    there = set(gone)
    come: set[tuple[int, int]] = set()
    while len(come) < count:
        a, b = sorted(chance.sample(range(data.num_nodes), 2))
        if not bool(((data.edge_index[0] == a) & (data.edge_index[1] == b)).any()):
            come.add((a, b))
    return sorted(there), sorted(come)


def measured(name: str, count: int, passes: int) -> dict[str, Any]:
    """One model."""
    model, data = arxiv_topology(name, epochs=2, **SIZES[name])  # speed alone matters
    gone, come = edges_of(data, count)
    session = nora.Session(model, data)

    def what_if(edits: nora.Edits, method: str = "exact") -> Callable[[], Any]:
        return lambda: session.what_if(edits, method=method)

    remove = [nora.Edits(remove_edges=[pair]) for pair in gone]
    add = [nora.Edits(add_edges=[pair]) for pair in come]
    found: dict[str, Any] = {"nodes": data.num_nodes, "edges": data.num_edges // 2}
    found["pass"] = told([timed(what_if(one, "brute")) for one in remove[:passes]])
    found["preparing_seconds"] = timed(
        lambda: session.influence(nodes=list(range(3)), progress=False)
    )[0]
    what_if(remove[0])(), what_if(add[0])()  # compared with the definition once
    found["what_if_removed"] = told([timed(what_if(one)) for one in remove[1:]])
    found["what_if_added"] = told([timed(what_if(one)) for one in add[1:]])
    live = nora.Live(model, data)
    found["live_preparing_seconds"] = timed(lambda: live.apply(remove[0]))[0]
    live.apply(add[0])
    times: dict[str, list[tuple[float, float]]] = {"deletions": [], "insertions": []}
    for less, more in zip(remove[1:], add[1:], strict=True):
        times["deletions"].append(timed(lambda less=less: live.apply(less)))
        times["insertions"].append(timed(lambda more=more: live.apply(more)))
    found["live"] = {"how": live.how} | {key: told(each) for key, each in times.items()}
    graph = live.data
    with torch.no_grad():
        truth = model(graph.x, graph.edge_index).softmax(dim=-1)
    found["live"]["largest_error"] = float((live.predictions - truth).abs().max())
    one_pass = found["pass"]["median_seconds"]
    found["ratios"] = {
        "what_if_removed": one_pass / found["what_if_removed"]["median_seconds"],
        "what_if_added": one_pass / found["what_if_added"]["median_seconds"],
        "live_deletion": one_pass / found["live"]["deletions"]["median_seconds"],
        "live_insertion": one_pass / found["live"]["insertions"]["median_seconds"],
    }
    return found


def main() -> None:
    """Measure the models asked for, and write each as it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "live.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    results = json.loads(arguments.out.read_text())["settings"] if arguments.out.exists() else {}
    for name in arguments.only:
        results[name] = measured(name, arguments.edits, arguments.passes)
        about = {
            "command": "python benchmarks/live.py",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cores": os.cpu_count(),
            "load_average": os.getloadavg()[0],
            "settings": dict(sorted(results.items())),
        }
        arguments.out.write_text(json.dumps(about, indent=1) + "\n")
        print(
            name, json.dumps(results[name]["ratios"]), json.dumps(results[name]["live"]), flush=True
        )


if __name__ == "__main__":
    main()
