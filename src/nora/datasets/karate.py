"""Zachary's karate club: 34 members, four communities, no features (one-hot)."""

from __future__ import annotations

from torch_geometric.datasets import KarateClub

from nora.datasets import DATASETS, Dataset


@DATASETS.register("karate", "Zachary's karate club: 34 members, 4 communities (embedded)")
def karate() -> Dataset:
    """PyG's copy of the club; it needs no file."""
    data = KarateClub()[0]
    del data.train_mask
    names = tuple(f"member {number + 1}" for number in range(data.num_nodes))
    return Dataset("karate", data, num_classes=4, node_names=names)
