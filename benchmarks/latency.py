"""How long one question takes beside what it changes: at any size of graph, for the first time, and live.

    python benchmarks/latency.py                        # all parts, one process after another
    python benchmarks/latency.py --only size live-gcn-3
    python benchmarks/latency.py --src PATH/TO/src --name before

Every part runs in a process of its own with one thread. Times are CPU seconds, since the machine is shared;
seconds of the clock stand beside them. Ratios are of times measured in the same process.

`size`: graphs of mean degree 8 with 10,000 and 500,000 nodes, 2-layer SAGE and GAT, a prepared session: what
a call of `influence` for one node takes, `what_if` of one node, and one removal more (3,000 against 30).
`first`: 300 removals of a power-law graph of a million nodes and ten million edges, 2-layer SAGE of width 64,
in forward passes of the same process. `live-gcn-2`, `live-sage-3` and so on: edges of the ogbn-arxiv graph
(2 or 3 layers, 256 hidden, batch norm, random weights, see `arxiv.py`) that come and go, one at a time and
100 in one batch. Removed edges are drawn from the edges, so most are at hubs; added ones join random nodes.
Beside the time of an edit: the rows it reaches in each layer, and the time of the matrix products of these
rows alone. At the end the predictions are compared with a fresh pass, and both with one in float64.
`start`: the first call of a process on Cora beside its second.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "latency.json"
SIZES = {
    "gcn": {"hidden_channels": 256},
    "sage": {"hidden_channels": 256},
    "gat": {"hidden_channels": 32, "heads": 8},
}
SMALL, LARGE = 10_000, 500_000


def timed(work: Callable[[], Any]) -> dict[str, float]:
    """CPU seconds of all threads, and seconds of the clock."""
    start, clock = time.process_time(), time.perf_counter()
    work()
    return {"cpu": time.process_time() - start, "clock": time.perf_counter() - clock}


def median(times: list[dict[str, float]]) -> dict[str, float]:
    """The median of each kind of time."""
    return {kind: statistics.median(one[kind] for one in times) for kind in times[0]}


def peak_gb() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def size() -> dict[str, Any]:
    """What a question of a prepared session takes, on a small and on a large graph."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.nn import GAT, GraphSAGE
    from torch_geometric.utils import to_undirected

    import nora

    found: dict[str, Any] = {}
    for name, kind in (("sage", GraphSAGE), ("gat", GAT)):
        for n in (SMALL, LARGE):
            generator = torch.Generator().manual_seed(0)
            ends = [torch.arange(n).repeat(4), torch.randint(0, n, (4 * n,), generator=generator)]
            edges = to_undirected(torch.stack(ends), num_nodes=n)
            data = Data(x=torch.randn(n, 16, generator=generator), edge_index=edges)
            torch.manual_seed(0)
            session = nora.Session(kind(16, 32, 2, 8).eval(), data)
            nodes = torch.randperm(n, generator=generator)[:3000]

            def ask(count: int, session: Any = session, nodes: Any = nodes) -> None:
                session.influence(
                    "exact",
                    nodes=nodes[:count],
                    backend="compiled",
                    verify=0,
                    progress=False,
                    workers=1,
                )

            ask(20)
            session.what_if(int(nodes[0]))
            few = median([timed(partial(ask, 30)) for _ in range(5)])
            many = median([timed(partial(ask, 3000)) for _ in range(3)])
            ids = nodes[1:22].tolist()
            found.setdefault(name, {})[str(n)] = {
                "call": median([timed(partial(ask, 1)) for _ in range(21)]),
                "what_if": median([timed(partial(session.what_if, v)) for v in ids]),
                "removal": {key: (many[key] - few[key]) / 2970 for key in few},
            }
        small, large = (found[name][str(n)] for n in (SMALL, LARGE))
        found[name]["ratio"] = {key: large[key]["cpu"] / small[key]["cpu"] for key in small}
    return found


def first(nodes: int = 1_000_000, edges: int = 10_000_000) -> dict[str, Any]:
    """The first question about a large power-law graph: ends are drawn in proportion to rank^-0.5."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.nn import SAGEConv

    import nora

    def graph(nodes: int, edges: int) -> Any:
        generator = torch.Generator().manual_seed(0)
        # The inverse of the cumulated weights rank^-0.5, which are about 2 sqrt(rank).
        ends = (torch.rand(2, edges // 2, generator=generator).square() * nodes).long()
        ends = torch.randperm(nodes, generator=generator)[ends.clamp(max=nodes - 1)]
        x = torch.randn(nodes, 64, generator=generator)
        return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1))

    class Sage(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = SAGEConv(64, 64), SAGEConv(64, 20)

        def forward(self, x: Any, edge_index: Any) -> Any:
            return self.second(self.first(x, edge_index).relu(), edge_index)

    torch.manual_seed(0)
    model = Sage().eval()
    # Imports and compiled loops are the process's, whatever the graph.
    nora.influence(model, graph(2000, 20_000), "exact", progress=False, verify=2)
    data = graph(nodes, edges)
    with torch.no_grad():
        passes = [timed(lambda: model(data.x, data.edge_index)) for _ in range(3)]
    pass_gb = peak_gb()
    asked = torch.randperm(nodes, generator=torch.Generator().manual_seed(1))[:300]
    answers: list[Any] = []

    def ask() -> None:
        answers.append(nora.influence(model, data, "exact", nodes=asked, progress=False))

    question, a_pass = timed(ask), median(passes[1:])
    return {
        "nodes": nodes,
        "edges": edges,
        "pass": a_pass,
        "question": question,
        "passes": question["cpu"] / a_pass["cpu"],
        "pass_peak_gb": pass_gb,
        "peak_gb": peak_gb(),
        "sum": float(answers[0].scores.nansum()),
        "details": answers[0].details,
    }


def quantile(values: list[float], share: float) -> float:
    """The smallest value that so many are not above."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class Reach:
    """What an edit of edges reaches: rows by layer, and the time of their matrix products alone.

    Args:
        name: The architecture.
        edge_index: The graph's edges; edits change few of them.
        num_nodes: Number of nodes.
        widths: Of the features, of each hidden layer, and of the output.
    """

    def __init__(self, name: str, edge_index: Any, num_nodes: int, widths: list[int]) -> None:
        import numpy as np
        from scipy.sparse import csr_matrix

        ends = edge_index.numpy()
        shape = (num_nodes, num_nodes)
        self.adjacency = csr_matrix((np.ones(ends.shape[1]), ends), shape)
        self.name, self.widths = name, widths

    def rows(self, edges: list[tuple[int, int]]) -> list[int]:
        """The rows that change in each layer's output; GCN normalises the neighbours again."""
        import numpy as np

        reached = np.unique(np.array(edges))
        found = []
        for layer in range(len(self.widths) - 1):
            if layer or self.name == "gcn":
                reached = np.union1d(reached, self.adjacency[reached].indices)
            found.append(len(reached))
        return found

    def products(self, edges: list[tuple[int, int]]) -> float:
        """CPU seconds of the matrix products of changed rows."""
        import torch

        spent = 0.0
        sizes = zip(self.rows(edges)[:-1], self.widths[1:-1], self.widths[2:], strict=True)
        for rows, width, out in sizes:
            given, weight = torch.rand(rows, width), torch.rand(width, out)
            # SAGE has one for the neighbours and one for the node itself.
            for _ in range(2 if self.name == "sage" else 1):
                start = time.process_time()
                given @ weight
                spent += time.process_time() - start
        return spent


def edited(
    made: Any, remove: list[Any], add: list[Any], edits: int, batch: int, reach: Reach
) -> tuple[dict[str, Any], Any, Any]:
    """Times of edits; the predictions and the graph after all of them."""
    import nora

    preparing = timed(lambda: made.apply(nora.Edits(remove_edges=[remove.pop()])))
    made.apply(nora.Edits(add_edges=[add.pop()]))
    found: dict[str, Any] = {"preparing": preparing}
    times: dict[str, list[float]] = {"removed": [], "added": []}
    edges: dict[str, list[tuple[int, int]]] = {"removed": [], "added": []}
    for _ in range(edits):
        for kind, rest in (("removed", remove), ("added", add)):
            edge = rest.pop()
            one = nora.Edits(**{"remove_edges" if kind == "removed" else "add_edges": [edge]})
            times[kind].append(timed(lambda one=one: made.apply(one))["cpu"])
            edges[kind].append(edge)
    for kind in times:
        rows = [reach.rows([edge]) for edge in edges[kind]]
        products = [reach.products([edge]) for edge in edges[kind]]
        found[kind] = {
            "median": statistics.median(times[kind]),
            "p95": quantile(times[kind], 0.95),
            "rows_median": [statistics.median(layer) for layer in zip(*rows, strict=True)],
            "rows_p95": [quantile(layer, 0.95) for layer in zip(*rows, strict=True)],
            "products_median": statistics.median(products),
            "products_p95": quantile(products, 0.95),
        }
    some = [*remove[: batch // 2], *add[: batch // 2]]
    together = nora.Edits(remove_edges=some[: batch // 2], add_edges=some[batch // 2 :])
    found["batch_of_100"] = {
        **timed(lambda: made.apply(together)),
        "rows": reach.rows(some),
        "products": reach.products(some),
    }
    return found | {"how": made.how}, made.predictions, made.data


def live(name: str, layers: int, edits: int = 40, batch: int = 100) -> dict[str, Any]:
    """Edges of the ogbn-arxiv graph that come and go for good."""
    import torch

    import nora
    from arxiv import CATEGORIES, load

    data = load()[0]
    torch.manual_seed(0)
    features = data.x.size(1)
    sizes = {**SIZES[name], "num_layers": layers, "norm": True}
    model = nora.build_model(name, features, CATEGORIES, **sizes).eval()
    chance, there = random.Random(0), data.edge_index.size(1)
    known = set(map(tuple, data.edge_index.t().tolist()))
    gone, come = set(), set()
    while len(gone) < edits + batch // 2 + 2:
        gone.add(tuple(sorted(data.edge_index[:, chance.randrange(there)].tolist())))
    while len(come) < edits + batch // 2 + 2:
        pair = tuple(sorted(chance.sample(range(data.num_nodes), 2)))
        if pair not in known:
            come.add(pair)
    del known
    remove, add = sorted(gone), sorted(come)
    chance.shuffle(remove)
    chance.shuffle(add)
    reach = Reach(
        name, data.edge_index, data.num_nodes, [features, *[256] * (layers - 1), CATEGORIES]
    )

    def a_pass(graph: Any) -> Any:
        with torch.no_grad():
            return model(graph.x, graph.edge_index).softmax(dim=-1)

    pass_time = median([timed(lambda: a_pass(data)) for _ in range(2)])
    found, predictions, graph = edited(nora.Live(model, data), remove, add, edits, batch, reach)
    fresh = a_pass(graph)
    graph.x, model = graph.x.double(), model.double()
    truth = a_pass(graph)
    return {
        "nodes": data.num_nodes,
        "edges": there // 2,
        "pass": pass_time,
        **found,
        "largest_difference_to_a_pass": float((predictions - fresh).abs().max()),
        "largest_error": float((predictions - truth).abs().max()),
        "largest_error_of_a_pass": float((fresh - truth).abs().max()),
        "peak_gb": peak_gb(),
    }


def start() -> dict[str, Any]:
    """The first call of a process on Cora, without imports, and the second."""
    import torch

    import nora

    data = nora.load_dataset("cora").data
    torch.manual_seed(0)
    model = nora.build_model("gcn", data.x.size(1), 7).eval()
    with torch.no_grad():
        model(data.x, data.edge_index)
    nodes = torch.arange(100)

    def ask() -> None:
        nora.influence(model, data, "exact", nodes=nodes, backend="compiled", progress=False)

    return {"first": timed(ask), "second": timed(ask), "third": timed(ask)}


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "size": size,
    "start": start,
    **{f"live-{name}-{layers}": partial(live, name, layers) for name in SIZES for layers in (2, 3)},
    "first": first,
}


def main() -> None:
    """Run the parts asked for, and write each as it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--src", type=Path, help="the src folder of another version")
    parser.add_argument("--name", default="now", help="what the results are kept under")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        warnings.simplefilter("ignore")
        print(json.dumps(PARTS[given.only[0]]()))
        return
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if given.src is not None:
        environment["PYTHONPATH"] = str(given.src)
    for part in given.only:
        command = [sys.executable, __file__, "--here", "--only", part]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        report = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        report |= {"command": "python benchmarks/latency.py", "cores": os.cpu_count()}
        report["python"] = platform.python_version()
        found = json.loads(done.stdout.splitlines()[-1])
        report.setdefault(given.name, {})[part] = found
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(part, json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()
