"""Networks that look for bots and fraud: relations, signs, degrees."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.utils import (
    degree,
    scatter,
    softmax,
)

from public_shapes.common import (
    Ends,
    Weighed,
    shape,
    torch_scatter,
)


@shape
class Accounts(Ends):
    """Kinds of properties, each mapped by itself, joined, and a relational network."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(i // 2, h // 2), nn.LeakyReLU()) for _ in range(2)
        )
        self.conv, self.mid = pyg.RGCNConv(h, h, 3), nn.Linear(h, h)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        half = x.size(1) // 2
        x = torch.cat([self.parts[0](x[:, :half]), self.parts[1](x[:, half : 2 * half])], dim=1)
        x = F.leaky_relu(self.mid(x))
        x = F.dropout(self.conv(x, edge_index, edge_type), 0.3, self.training)
        return self.last(self.conv(x, edge_index, edge_type))


@shape
class SemanticAttention(Ends):
    """Relations mixed by attention of a mean over all nodes."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.convs = nn.ModuleList(
            pyg.TransformerConv(h, h, heads=2, concat=False) for _ in range(3)
        )
        self.project = nn.Sequential(nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1, bias=False))

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        x = self.first(x)
        made = [conv(x, edge_index[:, edge_type == k]) for k, conv in enumerate(self.convs)]
        z = torch.stack(made, dim=1)
        beta = torch.softmax(self.project(z).mean(0), dim=0).expand((z.shape[0], 3, 1))
        return self.last((beta * z).sum(1).relu())


@shape
class BetaWavelets(Ends):
    """Polynomials of a Laplacian, written with scatter operations, side by side."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.theta, self.mid = (
            [[3.0, -3.0, 0.75], [0.0, 3.0, -1.5], [0.0, 0.0, 0.75]],
            nn.Linear(3 * h, h),
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        scale = torch.pow(degree(col, x.size(0), dtype=x.dtype).clamp(min=1), -0.5).unsqueeze(-1)

        def laplace(y: Tensor) -> Tensor:
            return (
                y - torch_scatter.scatter((y * scale)[row], col, dim=0, dim_size=y.size(0)) * scale
            )

        x, made = self.first(x).relu(), []
        for theta in self.theta:
            y, out = x, theta[0] * x
            for factor in theta[1:]:
                y = laplace(y)
                out = out + factor * y
            made.append(out)
        return self.last(self.mid(torch.cat(made, dim=-1)).relu())


@shape
class SignedEdges(Ends):
    """Edges between the like and the unlike get opposite signs from a classifier."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.sign, self.conv = nn.Linear(3 * h, 1), Weighed()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x).relu()
        row, col = edge_index
        score = self.sign(torch.cat([x[row], x[col], x[row] - x[col]], dim=1)).tanh().squeeze(-1)
        sign = torch.sign(score)
        share = softmax(score.abs(), col, num_nodes=x.size(0))
        return self.last(x + self.conv(x, edge_index, sign * share))


@shape
class LoopOverRelations(Ends):
    """A loop over relations that leaves out those that have no edges."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.maps = nn.ModuleList(nn.Linear(h, h) for _ in range(3))

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        x = self.first(x).relu()
        out = torch.zeros_like(x)
        for k, lin in enumerate(self.maps):
            chosen = edge_type == k
            if chosen.sum() == 0:
                continue
            row, col = edge_index[:, chosen]
            out = out + scatter(lin(x)[row], col, 0, x.size(0), reduce="mean")
        return self.last((out + x).relu())


@shape
class DegreeBuckets(Ends):
    """An embedding of how many neighbours a node has, by buckets."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.table, self.conv = nn.Embedding(5, h), pyg.SAGEConv(h, h)
        self.register_buffer("bounds", torch.tensor([1.0, 3.0, 8.0, 20.0]))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        bucket = torch.bucketize(degree(edge_index[1], x.size(0)), self.bounds)
        return self.last(self.conv(self.first(x) + self.table(bucket), edge_index).relu())


@shape
class CountedDegrees(Ends):
    """Degrees by `bincount`."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.GCNConv(h + 1, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        deg = torch.bincount(edge_index[0], minlength=x.size(0)).to(x.dtype)
        y = torch.cat([self.first(x), torch.log1p(deg).unsqueeze(1)], dim=1)
        return self.last(self.conv(y, edge_index).relu())
