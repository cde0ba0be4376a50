"""How small a removal flips a prediction: Cora and CiteSeer, and the graphs with planted motifs.

    python benchmarks/flip.py                     # 200 random test nodes of each, by edges and by nodes
    python benchmarks/flip.py --nodes 20 --only cora

The motif graphs are PyG's: houses on a Barabási–Albert graph, cycles and grids on a tree; nodes of motifs are
asked about. CF-GNNExplainer (Lucic et al., 2022) reports fewer than 3 edges on average on graphs of these
kinds, found by gradients, on models of its own; it deletes directed entries of the adjacency.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch_geometric.datasets import ExplainerDataset
from torch_geometric.nn import GCN

import nora
from by_setting import run_settings

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


def measured(name: str, nodes: int, pairs: int) -> dict[str, Any]:
    """Share flipped, mean size, share proved smallest, seconds; by edges and by nodes."""
    session, test, accuracy = planted(name) if name in MOTIFS else citation(name)
    chosen = test[torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:nodes]]
    found: dict[str, Any] = {"nodes": len(chosen), "accuracy": accuracy}
    for by in ("edges", "nodes"):
        start = time.perf_counter()
        flips = [session.flip(int(n), by=by, pairs=pairs, progress=False) for n in chosen]
        sizes = [one.size for one in flips if one.size]
        found[by] = {
            "flipped": len(sizes) / len(flips),
            "mean_size": sum(sizes) / max(len(sizes), 1),
            "sizes": {str(size): sizes.count(size) for size in sorted(set(sizes))},
            "proved_smallest": sum(one.smallest for one in flips) / max(len(sizes), 1),
            "mean_candidates": sum(one.candidates for one in flips) / len(flips),
            "seconds": time.perf_counter() - start,
            "median_seconds": sorted(one.seconds for one in flips)[len(flips) // 2],
        }
        row = found[by]
        print(
            f"{name:11} by {by}: {row['flipped']:.0%} flipped, mean size {row['mean_size']:.2f}, "
            f"{row['proved_smallest']:.0%} proved smallest, median {row['median_seconds']:.2f} s",
            flush=True,
        )
    return found


if __name__ == "__main__":
    run_settings("flip", __doc__, SETTINGS, measured, nodes=200, pairs=20_000)
