"""Graphs given as a sparse `adj_t`: followed, and right; the oracle cuts rows and columns by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import nora

N, FEATURES, CLASSES = 12, 5, 3


class Layers(nn.Module):
    """Two layers on an adjacency matrix."""

    def __init__(self, layer: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.first, self.second = layer(FEATURES, 4), layer(4, CLASSES)

    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        return self.second(self.first(x, adj_t).relu(), adj_t)


class Products(nn.Module):
    """The matrix itself, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        return adj_t @ (adj_t @ self.lin(x)).relu()


MODELS: dict[str, Callable[[], nn.Module]] = {
    "gcn": lambda: Layers(pyg.GCNConv),
    "sage": lambda: Layers(pyg.SAGEConv),
    "graph": lambda: Layers(pyg.GraphConv),
    "gin": lambda: Layers(lambda a, b: pyg.GINConv(nn.Linear(a, b))),
    "sgc": lambda: Layers(pyg.SGConv),
    "products": Products,
}


def dense(weighted: bool) -> Tensor:
    """Rows are targets, columns sources; nobody is their own neighbour."""
    random = torch.Generator().manual_seed(1)
    there = (torch.rand(N, N, generator=random) < 0.25) & ~torch.eye(N, dtype=torch.bool)
    weight = torch.rand(N, N, generator=random) + 0.5 if weighted else torch.ones(N, N)
    return (there * weight).double()


@torch.no_grad()
def by_hand(model: nn.Module, x: Tensor, matrix: Tensor) -> Tensor:
    """Every node's influence from the definition."""
    before = model(x, matrix.to_sparse_csr()).softmax(dim=-1)
    found = []
    for node in range(N):
        keep = torch.arange(N) != node
        part = matrix[keep][:, keep].to_sparse_csr()
        found.append((before[keep] - model(x[keep], part).softmax(dim=-1)).abs().sum())
    return torch.stack(found)


@pytest.mark.parametrize("weighted", [False, True], ids=["ones", "weights"])
@pytest.mark.parametrize("backend", ["vectorised", "compiled"])
@pytest.mark.parametrize("name", MODELS)
def test_an_adjacency_alone_is_followed(name: str, backend: str, weighted: bool) -> None:
    torch.manual_seed(0)
    model, matrix = MODELS[name]().double().eval(), dense(weighted)
    x = torch.randn(N, FEATURES, dtype=torch.double)
    data = Data(x=x, adj_t=matrix.to_sparse_csr())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = nora.influence(
            model, data, "exact", forward=lambda m, d: m(d.x, d.adj_t), backend=backend,
            progress=False,
        )  # fmt: skip
    assert "fallback" not in found.details
    torch.testing.assert_close(found.scores, by_hand(model, x, matrix), rtol=1e-9, atol=1e-9)
