"""A small network with relations: two camps that follow and answer mostly their own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.datasets import Dataset


def camps(users: int = 40, seed: int = 0) -> Dataset:
    """Users of even number are in camp 0; every fourth answers herself; user 1 is of no camp."""
    random = torch.Generator().manual_seed(seed)
    camp = torch.arange(users) % 2
    same = camp.unsqueeze(0) == camp.unsqueeze(1)

    def some(inside: float, outside: float) -> Tensor:
        chance = torch.where(same, inside, outside)
        chance.fill_diagonal_(0.0)
        return (torch.rand(users, users, generator=random) < chance).nonzero().t().contiguous()

    data = HeteroData()
    data["user"].x = torch.arange(users)
    data["user"].y = camp.clone()
    data["user"].y[1] = -1
    data["user"].num_nodes = users
    loops = torch.arange(0, users, 4).repeat(2, 1)
    data["user", "friend", "user"].edge_index = some(0.3, 0.02)
    data["user", "reply", "user"].edge_index = torch.cat([some(0.2, 0.0), loops], dim=1)
    for kind in data.edge_types:
        data[kind].count = torch.arange(data[kind].edge_index.size(1))
    return Dataset(
        "camps",
        data,
        num_classes=2,
        class_names=("even", "odd"),
        node_ratios=(0.8, 0.1, 0.1),
        negatives=3,
    )
