"""Robust networks: edges weighted by the similarity of their ends."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import (
    add_remaining_self_loops,
    degree,
    scatter,
)

from public_shapes.common import (
    Ends,
    Weighed,
    shape,
)


@shape
class SimilarNeighbours(Ends):
    """Edges by cosine similarity; the unlike are cut off, the rest normalised by row."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.prop = Weighed()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        n = x.size(0)
        sim = F.cosine_similarity(x[row], x[col], dim=1)
        sim = torch.where(sim < 0.1, torch.zeros_like(sim), sim)
        total = scatter(sim, row, 0, n, reduce="sum")
        share = sim / total[row].clamp(min=1e-12)
        count = scatter((share > 0).to(x.dtype), row, 0, n, reduce="sum")
        own = 1 / (count + 1)
        x = self.first(x)
        return self.last((self.prop(x, edge_index, share.exp()) + own.unsqueeze(1) * x).relu())


@shape
class MaskedSimilarity(Ends):
    """The same with a mask by value, written in place."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        y = self.first(x)
        sim = F.cosine_similarity(y[row], y[col], dim=1)
        sim[sim < 0.05] = 0
        deg = torch.zeros(x.size(0), dtype=x.dtype).index_add_(0, col, sim)
        deg[deg < 0.5] += 1.0
        return self.last(Weighed()(y, edge_index, sim / deg[col]).relu())


@shape
class Gaussian(Ends):
    """Means and variances, propagated with two powers of the adjacency."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.variance = nn.Linear(i, h)
        self.register_buffer("noise", torch.tensor(0.3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        edges, weight = gcn_norm(edge_index, None, n, dtype=x.dtype)
        one = torch.sparse_coo_tensor(edges, weight, (n, n))
        two = torch.sparse_coo_tensor(edges, weight**2, (n, n))
        mean, var = F.elu(self.first(x)), self.variance(x).relu()
        attention = torch.exp(-var)
        mean, var = one @ (mean * attention), two @ (var * attention * attention)
        sample = torch.randn(var.shape, dtype=x.dtype)
        out = mean + (sample if self.training else self.noise) * torch.sqrt(var + 1e-8)
        return self.last(out)


@shape
class Elastic(Ends):
    """Differences along edges, shrunk by their size, and brought back."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        keep = edge_index[0] < edge_index[1]
        row, col = edge_index[:, keep]
        scale = (degree(row, n, dtype=x.dtype) + degree(col, n, dtype=x.dtype) + 1).pow(-0.5)
        raw = x = self.first(x)
        z = torch.zeros(row.size(0), x.size(1), dtype=x.dtype)
        for _ in range(2):
            z = z + (scale[row].view(-1, 1) * x[row] - scale[col].view(-1, 1) * x[col])
            length = z.norm(p=2, dim=1)
            z = z * (length.clamp(max=0.5) / length.clamp(min=1e-9)).unsqueeze(1)
            back = torch.zeros_like(x).index_add_(0, row, z).index_add_(0, col, -z)
            x = 0.6 * raw + 0.4 * x - 0.3 * scale.view(-1, 1) * back
        return self.last(x.relu())


@shape
class AdaptiveResidual(Ends):
    """How much of its own features a node keeps follows from how far its neighbours are."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.prop = Weighed()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges, norm = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype)
        raw = x = self.last(self.first(x).relu())
        for _ in range(3):
            y = self.prop(x, edges, norm)
            size = torch.norm(y - raw, p=2, dim=1)
            score = torch.clamp(size - 0.2, min=0)
            index = torch.where(size > 0)
            score[index] = score[index] / size[index]
            x = raw + score.unsqueeze(1) * (y - raw)
        return x


@shape
class Medians(Ends):
    """Medians of neighbours in place of sums."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.SAGEConv(h, h, aggr=pyg.aggr.MedianAggregation())

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges, _ = add_remaining_self_loops(edge_index, num_nodes=x.size(0))
        return self.last(self.conv(self.first(x).relu(), edges).relu())
