"""Filters of the spectrum: polynomials of a Laplacian and their like."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import (
    add_self_loops,
    degree,
    get_laplacian,
    to_torch_coo_tensor,
)

from public_shapes.common import (
    Ends,
    SparseTensor,
    Weighed,
    adjacency,
    matmul,
    shape,
    symmetric,
)


@shape
class ChebRecurrence(Ends):
    """Chebyshev polynomials of a scaled Laplacian, by their recurrence."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.maps = nn.ModuleList(nn.Linear(h, h) for _ in range(3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        edges, weight = get_laplacian(edge_index, normalization="sym", num_nodes=n, dtype=x.dtype)
        edges, weight = add_self_loops(edges, weight, fill_value=-1.0, num_nodes=n)
        lap = torch.sparse_coo_tensor(edges, weight, (n, n))
        x = self.first(x).relu()
        a, b = x, torch.sparse.mm(lap, x)
        out = self.maps[0](a) + self.maps[1](b)
        out = out + self.maps[2](2 * torch.sparse.mm(lap, b) - a)
        return self.last(out.relu())


@shape
class Bernstein(Ends):
    """Bernstein polynomials of the Laplacian, with learned coefficients."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.temp, self.prop = nn.Parameter(torch.linspace(0.5, 1.5, 4)), Weighed()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        temp, k = self.temp.relu(), len(self.temp) - 1
        n = x.size(0)
        x = self.last(self.first(x).relu())
        low, low_w = get_laplacian(edge_index, normalization="sym", num_nodes=n, dtype=x.dtype)
        high, high_w = add_self_loops(low, -low_w, fill_value=2.0, num_nodes=n)
        powers = [x]
        for _ in range(k):
            powers.append(self.prop(powers[-1], high, high_w))
        out = (math.comb(k, 0) / 2**k) * temp[0] * powers[k]
        for at in range(k):
            y = powers[k - at - 1]
            for _ in range(at + 1):
                y = self.prop(y, low, low_w)
            out = out + (math.comb(k, at + 1) / 2**k) * temp[at + 1] * y
        return out


@shape
class ChebInterpolated(Ends):
    """Coefficients by interpolation: a loop over parameters alone."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.temp, self.prop = nn.Parameter(torch.linspace(0.2, 1, 3)), Weighed()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        coe = self.temp.relu().clone()
        k = len(coe) - 1
        for at in range(k + 1):
            value = 0.0
            for j in range(k + 1):
                point = math.cos((k - j + 0.5) * math.pi / (k + 1))
                value = value + self.temp[j].relu() * math.cos(at * math.acos(point))
            coe[at] = 2 * value / (k + 1)
        x = self.last(self.first(x).relu())
        norm = -symmetric(edge_index, x.size(0), x.dtype)
        a, b = x, self.prop(x, edge_index, norm)
        out = coe[0] / 2 * a + coe[1] * b
        for at in range(2, k + 1):
            a, b = b, 2 * self.prop(b, edge_index, norm) - a
            out = out + coe[at] * b
        return out


@shape
class Jacobi(Ends):
    """Jacobi polynomials of an adjacency whose small degrees are raised in place."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.alphas = nn.Parameter(torch.ones(4, 1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        n = x.size(0)
        deg = torch.zeros(n, dtype=x.dtype).scatter_add_(
            0, row, torch.ones(row.numel(), dtype=x.dtype)
        )
        deg[deg < 0.5] += 1.0
        deg = deg.pow(-0.5)
        adj = SparseTensor(row=row, col=col, value=deg[row] * deg[col], sparse_sizes=(n, n))
        x = self.last(F.elu(self.first(x)))
        xs = [x, 0.5 * x + 1.5 * (adj @ x)]
        for at in range(2, 4):
            l1, l2 = (2 * at + 1) / at, (at + 1) / at
            xs.append(self.alphas[at].tanh() * (l1 * (adj @ xs[-1]) - l2 * xs[-2]))
        return torch.stack(xs, dim=1).mean(dim=1)


@shape
class OptimalBasis(Ends):
    """Every basis vector is made orthogonal to the last two over all nodes."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        norm, prop = symmetric(edge_index, x.size(0), x.dtype), Weighed()
        x = self.first(x)
        h = x / x.norm(dim=0).clamp(min=1e-8)
        before, out = torch.zeros_like(h), 0.5 * h
        for _ in range(2):
            new = prop(h, edge_index, norm)
            new = new - (new * h).sum(dim=0) * h - (new * before).sum(dim=0) * before
            new = new / new.norm(dim=0).clamp(min=1e-8)
            before, h = h, new
            out = out + 0.3 * h
        return self.last(out)


@shape
class AdaptiveMixing(Ends):
    """Low-pass, high-pass and identity channels, mixed by attention of each node."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.maps = nn.ModuleList(nn.Linear(h, h, bias=False) for _ in range(3))
        self.votes = nn.ModuleList(nn.Linear(h, 1, bias=False) for _ in range(3))
        self.vec = nn.Parameter(torch.rand(3, 3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges, weight = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype)
        low = to_torch_coo_tensor(edges, weight, size=x.size(0))
        x = self.first(x)
        a = torch.spmm(low, self.maps[0](x)).relu()
        y = self.maps[1](x)
        b, c = (y - torch.spmm(low, y)).relu(), self.maps[2](x).relu()
        logits = torch.cat([vote(y) for vote, y in zip(self.votes, (a, b, c), strict=True)], 1)
        share = torch.softmax(torch.mm(torch.sigmoid(logits), self.vec) / 3, 1)
        out = 3 * (share[:, 0][:, None] * a + share[:, 1][:, None] * b + share[:, 2][:, None] * c)
        return self.last(out)


@shape
class SignedFrequency(Ends):
    """The sign and the size of an edge by a gate of both ends."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.gate, self.prop = nn.Linear(2 * h, 1), Weighed()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        raw = x = self.first(x).relu()
        row, col = edge_index
        deg = degree(row, x.size(0), dtype=x.dtype).clamp(min=1)
        scale = torch.pow(deg, -0.5)
        for _ in range(2):
            g = torch.tanh(self.gate(torch.cat([x[row], x[col]], dim=1))).squeeze()
            x = 0.3 * raw + self.prop(x, edge_index, g * scale[row] * scale[col])
        return F.log_softmax(self.last(x), 1)


@shape
class GeneralPageRank(Ends):
    """GPR on a `SparseTensor`."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.temp = nn.Parameter(0.1 * 0.9 ** torch.arange(4))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        adj = adjacency(edge_index, x.size(0), x.dtype)
        x = self.last(self.first(x).relu())
        out = self.temp[0] * x
        for k in range(3):
            x = matmul(adj, x)
            out = out + self.temp[k + 1] * x
        return out
