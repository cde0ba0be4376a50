"""Links and recommenders."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from public_shapes.common import (
    Ends,
    SparseTensor,
    Weighed,
    adjacency,
    matmul,
    shape,
    symmetric,
    torch_scatter,
    torch_sparse,
)

# A recommender's users come first; a trained model knows how many there are, and how many nodes.
USERS, NODES = 40, 120


@shape
class TwoTables(nn.Module):
    """Users and items have embeddings of their own, by node id; the first nodes are the users."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, h), nn.Embedding(NODES - USERS, h)
        self.lin, self.out = nn.Linear(i, h), nn.Linear(h, o)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = torch.cat([self.user.weight, self.item.weight], dim=0) + self.lin(x)
        norm = symmetric(edge_index, NODES, x.dtype)
        layers = [x]
        for _ in range(2):
            layers.append(Weighed()(layers[-1], edge_index, norm))
        made = torch.stack(layers, dim=1).mean(dim=1)
        users, items = torch.split(made, [USERS, NODES - USERS])
        return self.out(torch.cat([users, items * 0.5]))


@shape
class Collaborative(Ends):
    """Neighbours, and their product with the node itself."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.w1, self.w2 = nn.Linear(h, h), nn.Linear(h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        adj = adjacency(edge_index, x.size(0), x.dtype, loops=False)
        x = self.first(x)
        made = [x]
        for _ in range(2):
            side = matmul(adj, x)
            x = F.leaky_relu(self.w1(x + side) + self.w2(side * x))
            made.append(F.normalize(x, p=2, dim=1))
        return self.last(sum(made))


@shape
class LightSparse(Ends):
    """LightGCN on a `SparseTensor` with a mean over layers."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        adj = SparseTensor.from_edge_index(edge_index, sparse_sizes=(n, n))
        deg = torch_sparse.reduction(adj, dim=1).to(x.dtype)
        scale = deg.pow(-0.5).masked_fill(deg == 0, 0.0)
        adj = torch_sparse.mul(adj.fill_value(1.0, dtype=x.dtype), scale.view(-1, 1))
        x = out = self.first(x)
        for _ in range(3):
            x = matmul(adj, x * scale.view(-1, 1))
            out = out + x
        return self.last(out / 4)


@shape
class PooledNeighbours(Ends):
    """The largest of each feature among neighbours, by `scatter_max`, joined with the node."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.q, self.w = nn.Linear(h, h), nn.Linear(2 * h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        row, col = edge_index
        largest, _ = torch_scatter.scatter_max(
            self.q(x).relu()[row], col, dim=0, dim_size=x.size(0)
        )
        x = self.w(torch.cat([x, largest], dim=1)).relu()
        return self.last(x / x.norm(dim=1, keepdim=True).clamp(min=1e-9))


@shape
class ScatteredSoftmax(Ends):
    """Attention by `torch_scatter`'s softmax."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.a = nn.Linear(2 * h, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        row, col = edge_index
        score = F.leaky_relu(self.a(torch.cat([x[row], x[col]], dim=1))).squeeze(-1)
        share = torch_scatter.scatter_softmax(score, col, dim=0, dim_size=x.size(0))
        out = torch_scatter.scatter_add(share.unsqueeze(1) * x[row], col, dim=0, dim_size=x.size(0))
        return self.last(F.elu(out))
