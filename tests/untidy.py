"""A small graph with all that makes graphs untidy."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

FEATURES, CLASSES = 5, 3


def graph(n: int = 14, edges: int = 30, seed: int = 0) -> Data:
    """Duplicates, loops and nodes without in-edges; the last node has edges."""
    random = torch.Generator().manual_seed(seed)
    index = torch.randint(n, (2, edges), generator=random)
    index[:, 0] = torch.tensor([n - 1, 0])
    index[:, 1] = torch.tensor([0, n - 1])
    x = torch.randn(n, FEATURES, generator=random).double()
    return Data(x=x, edge_index=index)
