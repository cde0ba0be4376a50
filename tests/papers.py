"""A small graph of authors and papers, with a model that follows both types of nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

import nora

AUTHORS, PAPERS = 12, 24


class TwoLayers(nn.Module):
    """Two layers of a convolution per edge type; the classes of papers."""

    def __init__(self, types: list[tuple[str, str, str]]) -> None:
        super().__init__()
        self.first = HeteroConv({kind: SAGEConv((-1, -1), 8) for kind in types})
        self.last = HeteroConv({kind: SAGEConv((-1, -1), 3) for kind in types})

    def forward(self, x: dict[str, Tensor], edges: dict[tuple[str, str, str], Tensor]) -> Tensor:
        hidden = {kind: rows.relu() for kind, rows in self.first(x, edges).items()}
        return self.last(hidden, edges)["paper"]


def typed_papers() -> tuple[nn.Module, HeteroData, nora.NodeClassification]:
    """The model, the graph and the task."""
    chance = torch.Generator().manual_seed(1)

    def pairs(first: int, last: int, many: int) -> Tensor:
        ends = [torch.randint(0, size, (many,), generator=chance) for size in (first, last)]
        return torch.stack(ends).unique(dim=1)

    data = HeteroData()
    data["author"].x = torch.randn(AUTHORS, 4, generator=chance)
    data["paper"].x = torch.randn(PAPERS, 6, generator=chance)
    data["paper"].y = torch.randint(0, 3, (PAPERS,), generator=chance)
    writes = pairs(AUTHORS, PAPERS, 45)
    data["author", "writes", "paper"].edge_index = writes
    data["paper", "rev_writes", "author"].edge_index = writes.flip(0)
    data["paper", "cites", "paper"].edge_index = pairs(PAPERS, PAPERS, 40)
    torch.manual_seed(0)
    model = TwoLayers(data.edge_types)
    model(data.x_dict, data.edge_index_dict)
    return model.eval(), data, nora.NodeClassification(node_type="paper")
