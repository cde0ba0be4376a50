"""How small a removal flips a prediction: Cora and CiteSeer, and the graphs with planted motifs.

    python benchmarks/flip.py                     # 200 random test nodes of each, by edges and by nodes
    python benchmarks/flip.py --nodes 20 --only cora --again

Every part is written as it is done, and not done again where it is there (`--again` does).

The motif graphs are PyG's: houses on a Barabási–Albert graph, cycles and grids on a tree; nodes of motifs are
asked about. CF-GNNExplainer (Lucic et al., 2022) reports fewer than 3 edges on average on graphs of these
kinds, found by gradients, on models of its own; it deletes directed entries of the adjacency.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
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
    """A trained GCN, its test nodes, and its accuracy on them."""
    run = nora.train("gcn", name, hidden_channels=256, progress=False)
    return run.session(), run.split.test, float(run.metrics.get("test", float("nan")))


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
    model = GCN(10, 20, 3, int(data.y.max()) + 1, jk="cat")
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-4)
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


def measured(name: str, count: int, pairs: int, found: dict[str, Any]) -> Iterator[None]:
    """Share flipped, mean size, share proved smallest, seconds; by edges, then by nodes."""
    session, test, accuracy = planted(name) if name in MOTIFS else citation(name)
    chosen = test[torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:count]]
    found |= {"nodes_asked": len(chosen), "accuracy": accuracy, "pairs": pairs}
    for by in ("edges", "nodes"):
        if by in found:
            continue
        start = time.perf_counter()
        flips = [session.flip(int(n), by=by, pairs=pairs, progress=False) for n in chosen]
        sizes = [one.size for one in flips if one.size]
        found[by] = {
            "flipped": len(sizes) / len(flips),
            "mean_size": sum(sizes) / max(len(sizes), 1),
            "sizes": {str(size): sizes.count(size) for size in sorted(set(sizes))},
            "proved_smallest": sum(one.smallest for one in flips) / max(len(sizes), 1),
            "mean_candidates": sum(one.candidates for one in flips) / len(flips),
            "mean_at_least": sum(one.at_least for one in flips) / len(flips),
            "seconds": time.perf_counter() - start,
            "median_seconds": sorted(one.seconds for one in flips)[len(flips) // 2],
        }
        row = found[by]
        print(
            f"{name:11} by {by}: {row['flipped']:.0%} flipped, mean size {row['mean_size']:.2f}, "
            f"{row['proved_smallest']:.0%} proved smallest, median {row['median_seconds']:.2f} s",
            flush=True,
        )
        yield


def main() -> None:
    """Run the settings asked for, and write each as it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=20_000)
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
    for name in chosen:
        if arguments.again:
            results.pop(name, None)
        row = results.setdefault(name, {})
        if {"edges", "nodes"} <= set(row):
            continue
        for _ in measured(name, arguments.nodes, arguments.pairs, row):
            about = {
                "command": "python benchmarks/flip.py",
                "python": platform.python_version(),
                "torch": torch.__version__,
                "cores": os.cpu_count(),
                "settings": dict(sorted(results.items())),
            }
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
