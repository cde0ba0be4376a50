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
from half import half

pytestmark = pytest.mark.filterwarnings("ignore:Converting sparse tensor:UserWarning")
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


class Light(nn.Module):
    """A map of rows, then propagation without weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin, self.conv = nn.Linear(inputs, outputs), pyg.LGConv()

    def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
        return self.conv(self.lin(x), adj_t)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "gcn": lambda: Layers(pyg.GCNConv),
    "sage": lambda: Layers(pyg.SAGEConv),
    "graph": lambda: Layers(pyg.GraphConv),
    "gin": lambda: Layers(lambda a, b: pyg.GINConv(nn.Linear(a, b))),
    "sgc": lambda: Layers(pyg.SGConv),
    "ssg": lambda: Layers(lambda a, b: pyg.SSGConv(a, b, 0.1)),
    "lightgcn": lambda: Layers(Light),
    "products": Products,
}


def dense(weighted: bool, loops: bool = False) -> Tensor:
    """Rows are targets, columns sources; no node is its own neighbour, unless there are loops."""
    random = torch.Generator().manual_seed(1)
    there = torch.rand(N, N, generator=random) < 0.25
    there = there | torch.diag(torch.arange(N) % 3 == 0) if loops else there.fill_diagonal_(False)
    weight = torch.rand(N, N, generator=random) + 0.5 if weighted else torch.ones(N, N)
    return (there * weight).double()


@torch.no_grad()
def by_hand(
    model: nn.Module, x: Tensor, matrix: Tensor, stored: Callable[[Tensor], Tensor]
) -> Tensor:
    """Every node's influence from the definition."""
    before = model(x, stored(matrix)).softmax(dim=-1)
    found = []
    for node in range(N):
        keep = torch.arange(N) != node
        part = stored(matrix[keep][:, keep])
        found.append((before[keep] - model(x[keep], part).softmax(dim=-1)).abs().sum())
    return torch.stack(found)


STORED: dict[str, Callable[[Tensor], Tensor]] = {
    "csr": lambda matrix: matrix.to_sparse_csr(),
    "coo": lambda matrix: matrix.to_sparse().coalesce(),
}


def ask(model: nn.Module, x: Tensor, adj_t: Tensor, backend: str) -> nora.Influence:
    """The engine's answer."""
    return nora.influence(
        model, Data(x=x, adj_t=adj_t), "exact", forward=lambda m, d: m(d.x, d.adj_t),
        backend=backend, progress=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "backend", "weighted", "loops", "stored"),
    half(MODELS, ["vectorised", "compiled"], [False, True], [False, True], STORED),
)
def test_an_adjacency_alone_is_followed(
    name: str, backend: str, weighted: bool, loops: bool, stored: str
) -> None:
    torch.manual_seed(0)
    model, matrix = MODELS[name]().double().eval(), dense(weighted, loops)
    x = torch.randn(N, FEATURES, dtype=torch.double)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = ask(model, x, STORED[stored](matrix), backend)
    assert "fallback" not in found.details
    wanted = by_hand(model, x, matrix, STORED[stored])
    torch.testing.assert_close(found.scores, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["gat2", "res"])
def test_messages_along_a_compressed_matrix_fall_back_with_what_helps(name: str) -> None:
    layer = {"gat2": pyg.GATv2Conv, "res": pyg.ResGatedGraphConv}[name]
    torch.manual_seed(0)
    model, matrix = Layers(layer).double().eval(), dense(False)
    x = torch.randn(N, FEATURES, dtype=torch.double)
    with pytest.warns(RuntimeWarning, match="to_sparse_coo"):
        found = ask(model, x, STORED["csr"](matrix), "vectorised")
    wanted = by_hand(model, x, matrix, STORED["csr"])
    torch.testing.assert_close(found.scores, wanted, rtol=1e-9, atol=1e-9)
    assert "fallback" not in ask(model, x, STORED["coo"](matrix), "vectorised").details
