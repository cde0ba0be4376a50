"""How small a removal flips a prediction: Cora and CiteSeer, and the graphs with planted motifs.

    python benchmarks/flip.py                     # 200 random test nodes of each, by edges and by nodes
    python benchmarks/flip.py --nodes 20 --only cora --again

    python benchmarks/flip.py --seconds 50        # stops after so many CPU seconds; the same again goes on

Every node is written as it is done, and not asked again where it is there (`--again` does). Seconds are
CPU seconds, of all threads together (in results without `cpu_seconds`, those of the wall clock).

The motif graphs are PyG's: houses on a Barabási–Albert graph, cycles and grids on a tree; nodes of motifs are
asked about. Their GCN sums without normalising: with it, constant features do not tell cycles from the tree
(0.57 on the test nodes, as good as no model). CF-GNNExplainer (Lucic et al., 2022) reports fewer than 3
edges on average on graphs of these kinds, found by gradients, on models of its own; it deletes directed
entries of the adjacency.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch_geometric.datasets import ExplainerDataset
from torch_geometric.nn import GCN

import nora

HERE = Path(__file__).parent
MOTIFS = {
    "ba-house": ("ba", {"num_nodes": 300, "num_edges": 5}, "house", {}, 80),
    "tree-cycle": ("tree", {"depth": 8}, "cycle", {"num_nodes": 6}, 60),
    "tree-grid": ("tree", {"depth": 8}, "grid", {}, 80),
}
SETTINGS = ["cora", "citeseer", *MOTIFS]


def citation(name: str) -> tuple[nora.Session, torch.Tensor, float]:
    """A trained GCN, its test nodes, and its accuracy on them; trained once."""
    path = HERE / ".cache" / f"flip-{name}"
    if path.exists():
        run = nora.load_run(path)
    else:
        run = nora.train("gcn", name, hidden_channels=256, progress=False)
        run.save(path)
    return run.session(), run.split.test, float(run.metrics["test_accuracy"])


def planted(name: str) -> tuple[nora.Session, torch.Tensor, float]:
    """A GCN that tells the nodes of motifs from others, and its test nodes that are in a motif."""
    base, sizes, motif, motif_sizes, count = MOTIFS[name]
    torch.manual_seed(0)
    data = ExplainerDataset(
        graph_generator=base,
        graph_generator_kwargs=sizes,
        motif_generator=motif,
        motif_generator_kwargs=motif_sizes,
        num_motifs=count,
    )[0]
    data.x = torch.ones(data.num_nodes, 10)
    order = torch.randperm(data.num_nodes)
    train, test = order[: int(0.8 * len(order))], order[int(0.8 * len(order)) :]
    model = GCN(10, 20, 3, int(data.y.max()) + 1, jk="cat", normalize=False)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003, weight_decay=1e-4)
    for _ in range(1000):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(data.x, data.edge_index)[train], data.y[train]
        )
        loss.backward()
        optimiser.step()
    model.eval()
    with torch.no_grad():
        right = model(data.x, data.edge_index).argmax(dim=1) == data.y
    return nora.Session(model, data), test[data.y[test] > 0], float(right[test].float().mean())


def measured(
    name: str, count: int, pairs: int, found: dict[str, Any], deadline: float
) -> Iterator[None]:
    """Every node by itself, by edges and then by nodes, until the time is up."""
    session, test, accuracy = planted(name) if name in MOTIFS else citation(name)
    chosen = test[torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:count]]
    found |= {"nodes_asked": len(chosen), "accuracy": accuracy, "pairs": pairs}
    for by in ("edges", "nodes"):
        rows = found.setdefault(by, {}).setdefault("rows", [])
        for node in chosen[len(rows) :].tolist():
            if time.process_time() > deadline:
                return
            start = time.process_time()
            one = session.flip(node, by=by, pairs=pairs, progress=False)
            rows.append(
                [
                    node,
                    one.size,
                    int(one.smallest),
                    one.at_least,
                    one.candidates,
                    round(time.process_time() - start, 4),
                ]
            )
            found[by] = {**summed(rows), "rows": rows}
            yield


def summed(rows: list[list[Any]]) -> dict[str, Any]:
    """Share flipped, mean size, share proved smallest, seconds."""
    _, sizes, smallest, at_least, candidates, seconds = (
        list(one) for one in zip(*rows, strict=True)
    )
    flipped = [size for size in sizes if size]
    return {
        "asked": len(rows),
        "flipped": len(flipped) / len(rows),
        "mean_size": sum(flipped) / max(len(flipped), 1),
        "sizes": {str(size): flipped.count(size) for size in sorted(set(flipped))},
        "proved_smallest": sum(smallest) / max(len(flipped), 1),
        "mean_at_least": sum(at_least) / len(rows),
        "mean_candidates": sum(candidates) / len(rows),
        "median_cpu_seconds": sorted(seconds)[len(rows) // 2],
        "cpu_seconds": sum(seconds),
    }


def main() -> None:
    """Run the settings asked for, and write each as it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="CPU seconds to stop after"
    )
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "flip.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    results = json.loads(arguments.out.read_text())["settings"] if arguments.out.exists() else {}
    chosen = [
        name for name in SETTINGS if any(name.startswith(prefix) for prefix in arguments.only)
    ]
    if not chosen:
        sys.exit(f"no such setting; there are: {', '.join(SETTINGS)}")
    deadline = time.process_time() + arguments.seconds
    for name in chosen:
        if arguments.again:
            results.pop(name, None)
        row = results.setdefault(name, {})
        done = [len(row.get(by, {}).get("rows", ())) for by in ("edges", "nodes")]
        if done == [row.get("nodes_asked", -1)] * 2 or time.process_time() > deadline:
            continue
        for _ in measured(name, arguments.nodes, arguments.pairs, row, deadline):
            about = {
                "command": "python benchmarks/flip.py",
                "python": platform.python_version(),
                "torch": torch.__version__,
                "cores": os.cpu_count(),
                "columns_of_rows": [
                    "node",
                    "size",
                    "smallest",
                    "at_least",
                    "candidates",
                    "seconds",
                ],
                "settings": dict(sorted(results.items())),
            }
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(dumped(about))
        for by in ("edges", "nodes"):
            if row.get(by, {}).get("rows"):
                told = row[by]
                print(
                    f"{name:11} by {by}: {told['asked']} asked, {told['flipped']:.0%} flipped, mean size "
                    f"{told['mean_size']:.2f}, {told['proved_smallest']:.0%} proved smallest, median "
                    f"{told['median_cpu_seconds']:.2f} s",
                    flush=True,
                )


def dumped(about: dict[str, Any]) -> str:
    """As JSON, a row a line."""
    text = json.dumps(about, indent=1)
    return (
        re.sub(r"\[\s*((?:[-\d.e]+,?\s*)+)\]", lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"
    )


if __name__ == "__main__":
    main()
