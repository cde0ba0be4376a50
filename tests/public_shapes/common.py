"""What shapes have in common: their registry, and parts that many of them share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.utils import degree

import sparse_stand_in

sparse_stand_in.install()

import torch_scatter  # noqa: E402
import torch_sparse  # noqa: E402
from torch_sparse import SparseTensor, matmul  # noqa: E402

__all__ = [
    "FAMILY", "SHAPES", "Ends", "SparseTensor", "Weighed", "adjacency", "matmul", "shape", "symmetric",
    "torch_scatter", "torch_sparse",
]  # fmt: skip
SHAPES: dict[str, type[nn.Module]] = {}
FAMILY: dict[str, str] = {}


def shape(model: type[nn.Module]) -> type[nn.Module]:
    """Decorator: a model of a shape; its family is its module."""
    SHAPES[model.__name__] = model
    FAMILY[model.__name__] = model.__module__.rpartition(".")[2].replace("_", " ")
    return model


class Ends(nn.Module):
    """A linear map at either end, as most have."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(i, h), nn.Linear(h, o)


class Weighed(pyg.MessagePassing):
    """Sums of neighbours with a weight for each edge."""

    def __init__(self) -> None:
        super().__init__(aggr="add")

    def forward(self, x: Tensor, edge_index: Tensor, norm: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x, norm=norm)

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        return norm.view(-1, 1) * x_j


def symmetric(edge_index: Tensor, n: int, dtype: Any) -> Tensor:
    """The weight of every edge by the degrees of its ends."""
    row, col = edge_index
    scale = degree(col, n, dtype=dtype).pow(-0.5)
    scale[scale == float("inf")] = 0
    return scale[row] * scale[col]


def adjacency(edge_index: Tensor, n: int, dtype: Any, loops: bool = True) -> Any:
    """`D^-1/2 A D^-1/2` as a `SparseTensor`, the way large-graph baselines make it."""
    row, col = edge_index
    adj = SparseTensor(
        row=row, col=col, value=torch.ones_like(row, dtype=dtype), sparse_sizes=(n, n)
    )
    if loops:
        adj = adj.set_diag()
    scale = adj.sum(dim=1).pow(-0.5)
    scale.masked_fill_(scale == float("inf"), 0.0)
    return torch_sparse.mul(torch_sparse.mul(adj, scale.view(-1, 1)), scale.view(1, -1))
