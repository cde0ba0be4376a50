"""Other shapes: precision, precomputed features, order, branches."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.transforms import SIGN
from torch_geometric.utils import (
    degree,
    k_hop_subgraph,
    scatter,
)

from public_shapes.common import (
    Ends,
    SparseTensor,
    matmul,
    shape,
)


@shape
class OgbSparse(Ends):
    """The layers of a benchmark's example on a transposed `SparseTensor`, by means."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.own = nn.ModuleList(nn.Linear(h, h) for _ in range(2))
        self.near = nn.ModuleList(nn.Linear(h, h) for _ in range(2))
        self.norm = nn.BatchNorm1d(h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        adj_t = SparseTensor(row=edge_index[0], col=edge_index[1], sparse_sizes=(n, n)).t()
        x = self.first(x)
        for own, near in zip(self.own, self.near, strict=True):
            x = self.norm(own(x) + near(matmul(adj_t, x, reduce="mean"))).relu()
        return self.last(x)


@shape
class Precomputed(nn.Module):
    """SIGN: the transform runs inside of `forward`."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__()
        self.lins, self.out = nn.ModuleList(nn.Linear(i, h) for _ in range(3)), nn.Linear(3 * h, o)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        data = SIGN(2)(Data(x=x, edge_index=edge_index))
        xs = [data.x, data.x1, data.x2]
        return self.out(
            torch.cat([lin(x).relu() for lin, x in zip(self.lins, xs, strict=True)], -1)
        )


@shape
class HalfPrecision(Ends):
    """A convolution under autocast."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.GCNConv(h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.conv(self.first(x).relu(), edge_index)
        return self.last(x.to(self.last.weight.dtype))


@shape
class Sequences(Ends):
    """Neighbours in their order through an LSTM."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.SAGEConv(h, h, aggr="lstm")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        order = edge_index[1].argsort(stable=True)
        return self.last(self.conv(self.first(x), edge_index[:, order]).relu())


@shape
class ByDegree(Ends):
    """A map for every degree (MFConv)."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.MFConv(h, h, max_degree=4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.conv(self.first(x), edge_index).relu())


@shape
class Anchored(Ends):
    """Only what lies within two hops of an anchor takes part."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.GCNConv(h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        _, edges, _, _ = k_hop_subgraph(0, 2, edge_index, num_nodes=x.size(0))
        return self.last(self.conv(self.first(x), edges) + self.conv(self.first(x), edge_index))


@shape
class ByBranches(Ends):
    """Python decides by the largest degree whether degrees are clamped."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        deg = degree(edge_index[1], x.size(0), dtype=x.dtype)
        if deg.max() > 5:
            deg = deg.clamp(max=50)
        x = self.first(x).relu()
        received = scatter(x[edge_index[0]], edge_index[1], 0, x.size(0), reduce="sum")
        return self.last(received / (deg + 1).unsqueeze(1) + x)


@shape
class WholeSoftmax(Ends):
    """Every node attends to every other: no shortcut is known."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        x = x + torch.softmax(x @ x.t() / math.sqrt(x.size(1)), dim=-1) @ x
        return self.last(scatter(x[edge_index[0]], edge_index[1], 0, x.size(0), reduce="mean"))
