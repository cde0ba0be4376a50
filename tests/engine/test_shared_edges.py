"""Layers with the same edges share what is made of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from nora.engine.engine import Engine
from nora.engine.exec.kernels.choice import pick_backend
from nora.engine.ir import edges
from nora.engine.ir import space as spaces
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem

LAYERS = {
    "GCNConv": lambda: pyg.GCNConv(6, 6),
    "SAGEConv": lambda: pyg.SAGEConv(6, 6),
    "GATConv": lambda: pyg.GATConv(6, 6),
    "RGCNConv": lambda: pyg.RGCNConv(6, 6, 2),
    "GATv2Conv": lambda: pyg.GATv2Conv(6, 6),
    "GENConv": lambda: pyg.GENConv(6, 6),
}


class Layers(nn.Module):
    def __init__(self, make, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in range(count))

    def forward(self, x, edge_index, edge_type):
        for layer in self.layers:
            typed = isinstance(layer, pyg.RGCNConv)
            x = (layer(x, edge_index, edge_type) if typed else layer(x, edge_index)).tanh()
        return x


@pytest.mark.parametrize("name", LAYERS)
def test_three_layers_sort_their_edges_as_often_as_two(name, hubs, monkeypatch):
    sorted_: list[int] = []

    def counted(row, column, num_nodes):
        sorted_.append(len(row))
        return csr(row, column, num_nodes)

    csr = edges.csr
    monkeypatch.setattr(edges, "csr", counted)
    monkeypatch.setattr(spaces, "csr", counted)
    hubs.edge_type = torch.arange(hubs.num_edges) % 2

    def sorts(layers: int) -> int:
        sorted_.clear()
        problem = build_problem(Layers(LAYERS[name], layers).double(), hubs)
        engine = Engine.prepare(problem, pick_backend("vectorised", problem, 3))
        engine.influences(EditBatch.remove_nodes(torch.tensor([0, 7, 120])))
        return len(sorted_)

    assert 0 < sorts(3) == sorts(2)  # the first layer alone reads rows that never change
