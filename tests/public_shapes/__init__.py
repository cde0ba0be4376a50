"""Sixty models of shapes that public repositories have, in our words, each as short as its shape allows.

`SHAPES[name](i, h, o)` makes a model from features `[N, i]` to logits `[N, o]`, of hidden size `h`.
"""

from __future__ import annotations

from importlib import import_module

import torch
from torch import nn
from torch_geometric.data import Data

from public_shapes.common import FAMILY, SHAPES, SparseTensor, matmul

__all__ = ["FAMILY", "SHAPES", "SparseTensor", "asked_of", "graph", "matmul"]
FAMILIES = (
    "spectral", "transformers", "temporal", "robust", "bots_and_fraud", "recommenders", "deep", "others",
)  # fmt: skip
for _name in FAMILIES:
    import_module(f"public_shapes.{_name}")

from public_shapes import recommenders  # noqa: E402


def graph(n: int, features: int, dtype: torch.dtype = torch.double, seed: int = 0) -> Data:
    """Undirected edges, four at a node, with hubs, types and weights; every node has a neighbour."""
    random = torch.Generator().manual_seed(seed)
    first = torch.arange(1, n)
    second = (torch.rand(n - 1, generator=random) ** 2 * first).long()
    more = torch.randint(n, (2, n), generator=random)
    more = more[:, more[0] != more[1]]
    half = torch.cat([torch.stack([first, second]), more], dim=1)
    half = torch.stack([half.amin(dim=0), half.amax(dim=0)]).unique(dim=1)
    edges = torch.cat([half, half.flip(0)], dim=1)
    kind = torch.randint(3, (half.size(1),), generator=random).repeat(2)
    weight = (torch.rand(half.size(1), generator=random) + 0.5).repeat(2)
    x = torch.randn(n, features, generator=random)
    return Data(x=x.to(dtype), edge_index=edges, edge_type=kind, edge_weight=weight.to(dtype))


def asked_of(
    name: str, n: int, widths: tuple[int, int, int], dtype: torch.dtype
) -> tuple[nn.Module, Data]:
    """A model of a shape, with settled statistics, and a graph with what its `forward` asks for."""
    recommenders.NODES = n
    torch.manual_seed(1)
    model = SHAPES[name](*widths)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    data = graph(n, widths[0], dtype)
    wanted = model.forward.__code__.co_varnames
    for key in ("edge_type", "edge_weight"):
        if key not in wanted:
            del data[key]
    return model.to(dtype).eval(), data
