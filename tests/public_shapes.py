"""Sixty models of shapes that public repositories have, in our words, each as short as its shape allows.

`SHAPES[name](i, h, o)` makes a model from features `[N, i]` to logits `[N, o]`, of hidden size `h`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.transforms import SIGN
from torch_geometric.utils import (
    add_remaining_self_loops,
    add_self_loops,
    degree,
    get_laplacian,
    k_hop_subgraph,
    scatter,
    softmax,
    to_torch_coo_tensor,
)  # fmt: skip

import sparse_stand_in

sparse_stand_in.install()

import torch_scatter  # noqa: E402
import torch_sparse  # noqa: E402
from torch_sparse import SparseTensor, matmul  # noqa: E402

SHAPES: dict[str, Callable[[int, int, int], nn.Module]] = {}
FAMILY: dict[str, str] = {}
# The accounts of a recommender's users come first; a trained model knows how many there are.
USERS = 40
# How many nodes the graph has, for models that know it.
NODES = 120


def shape(family: str, name: str = "") -> Callable[[Any], Any]:
    """Decorator: a model of such a shape."""

    def register(made: Any) -> Any:
        key = name or made.__name__
        SHAPES[key], FAMILY[key] = made, family
        return made

    return register


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


# ---------------------------------------------------------------- spectral


@shape("spectral")
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


@shape("spectral")
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


@shape("spectral")
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


@shape("spectral")
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


@shape("spectral")
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


@shape("spectral")
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


@shape("spectral")
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


@shape("spectral")
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


# ---------------------------------------------------------------- transformers


class KernelAttention(nn.Module):
    """Attention by a kernel: keys and values meet first."""

    def __init__(self, h: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.h = heads, h
        self.q, self.k, self.v = (nn.Linear(h, h * heads) for _ in range(3))


class SgAttention(KernelAttention):
    def forward(self, x: Tensor) -> Tensor:
        n = x.size(0)
        q, k, v = (m(x).reshape(-1, self.heads, self.h) for m in (self.q, self.k, self.v))
        q, k = q / torch.norm(q, p=2), k / torch.norm(k, p=2)
        kvs = torch.einsum("lhm,lhd->hmd", k, v)
        top = torch.einsum("nhm,hmd->nhd", q, kvs) + n * v
        ones = torch.ones([k.shape[0]], dtype=x.dtype)
        bottom = torch.einsum("nhm,hm->nh", q, torch.einsum("lhm,l->hm", k, ones))
        bottom = (
            torch.unsqueeze(bottom, len(top.shape) - 1) + torch.ones_like(bottom.unsqueeze(-1)) * n
        )
        return (top / bottom).mean(dim=1)


@shape("transformers")
class SimplifiedGlobal(Ends):
    """One layer of linear attention beside a graph convolution."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.att, self.norm = SgAttention(h, 1), nn.LayerNorm(h)
        self.start, self.conv = nn.Linear(i, h), pyg.GCNConv(h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        a = self.first(x).relu()
        a = self.norm((self.att(a) + a) / 2).relu()
        b = self.conv(self.start(x).relu(), edge_index).relu()
        return self.last(0.8 * b + 0.2 * a)


@shape("transformers")
class Diffusion(Ends):
    """Linear attention over all nodes plus propagation on a `SparseTensor`, layer after layer."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.att = nn.ModuleList(SgAttention(h) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(h) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        n = x.size(0)
        d = degree(col, n).to(x.dtype)
        value = (1.0 / d[col]).sqrt() * (1.0 / d[row]).sqrt()
        value = torch.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0)
        adj = SparseTensor(row=col, col=row, value=value, sparse_sizes=(n, n))
        x = self.first(x).relu()
        for att, norm in zip(self.att, self.norms, strict=True):
            x = norm(0.5 * (att(x) + matmul(adj, x)) + 0.5 * x)
        return self.last(x)


@shape("transformers")
class LocalToGlobal(Ends):
    """Local attention, then a global layer with sigmoids in place of a softmax."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.local, self.skip = pyg.GATConv(h, h // 2, heads=2), nn.Linear(h, h)
        self.q, self.k, self.v, self.g = (nn.Linear(h, h) for _ in range(4))
        self.norm = nn.LayerNorm(h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        x = F.relu(self.local(x, edge_index) + self.skip(x))
        n, h = x.shape
        q, k = (F.sigmoid(m(x)).view(n, h // 2, 2) for m in (self.q, self.k))
        v = self.v(x).view(n, h // 2, 2)
        kv = torch.einsum("ndh, nmh -> dmh", k, v)
        top = torch.einsum("ndh, dmh -> nmh", q, kv)
        bottom = torch.einsum("ndh, dh -> nh", q, torch.einsum("ndh -> dh", k)).unsqueeze(1)
        out = self.norm((top / (bottom + 1e-6)).reshape(n, h))
        return self.last(out * (self.g(x).relu() + 0.1))


@shape("transformers")
class RandomFeatures(Ends):
    """A softmax kernel by fixed random features, stabilised by the largest of all."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.q, self.k, self.v = (nn.Linear(h, h) for _ in range(3))
        self.register_buffer("projection", torch.randn(16, h))

    def feature(self, data: Tensor, query: bool) -> Tensor:
        data = data * data.shape[-1] ** -0.25
        dash = torch.einsum("bd,md->bm", data, self.projection)
        diag = (data**2).sum(dim=-1, keepdim=True) / 2.0
        top = dash.amax(dim=-1, keepdim=True) if query else dash.amax(dim=(-1, 0), keepdim=True)
        return 0.25 * (torch.exp(dash - diag - top) + 1e-6)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x).relu()
        q, k, v = self.feature(self.q(x), True), self.feature(self.k(x), False), self.v(x)
        out = (q @ (k.t() @ v)) / (q @ k.sum(dim=0, keepdim=True).t())
        row, col = edge_index
        norm = symmetric(edge_index, x.size(0), x.dtype)
        out = out.index_add(0, col, norm.unsqueeze(1) * v[row])
        return self.last(out + x)


@shape("transformers")
class Centroids(Ends):
    """Attention to a fixed table of centroids."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.register_buffer("table", torch.randn(12, h))
        self.conv = pyg.TransformerConv(h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        share = torch.softmax(x @ self.table.t() / math.sqrt(x.size(1)), dim=-1)
        return self.last(self.conv(x, edge_index).relu() + share @ self.table)


@shape("transformers")
class HopTokens(Ends):
    """Each node's hops are a sequence for a small transformer."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.layer = nn.TransformerEncoderLayer(h, 2, 2 * h, batch_first=True, norm_first=True)
        self.vote = nn.Linear(2 * h, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        edges, weight = gcn_norm(edge_index, None, n, dtype=x.dtype)
        adj = torch.sparse_coo_tensor(edges, weight, (n, n))
        hops = torch.empty(n, 1, 3, x.shape[1], dtype=x.dtype)
        hops[:, 0, 0, :] = x
        for k in range(2):
            x = torch.matmul(adj, x)
            hops[:, 0, k + 1, :] = x
        tokens = self.layer(self.first(hops.squeeze(1)))
        node, near = torch.split(tokens, [1, 2], dim=1)
        share = F.softmax(self.vote(torch.cat([node.repeat(1, 2, 1), near], dim=2)), dim=1)
        return self.last((node + (near * share).sum(dim=1, keepdim=True)).squeeze())


@shape("transformers")
class ClampedEdges(Ends):
    """Edge scores, clamped and exponentiated, with sums of both."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.q, self.k, self.v, self.o = (nn.Linear(h, h) for _ in range(4))
        self.norm = nn.BatchNorm1d(h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        source, target = edge_index
        q, k, v = (m(x).view(-1, 2, x.size(1) // 2) for m in (self.q, self.k, self.v))
        score = (k[source] * q[target] / math.sqrt(k.size(-1))).sum(-1, keepdim=True)
        score = torch.exp(score.clamp(-5, 5))
        top = torch.zeros_like(v).index_add_(0, target, v[source] * score)
        bottom = torch.zeros(v.size(0), 2, 1, dtype=x.dtype).index_add_(0, target, score)
        out = (top / (bottom + 1e-6)).view(-1, x.size(1))
        return self.last(self.norm(x + self.o(out)).relu())


@shape("transformers", "GpsPerformer")
def gps(i: int, h: int, o: int) -> nn.Module:
    """GPS layers: a local convolution beside linear attention over all nodes."""
    return Gps(i, h, o)


class Gps(Ends):
    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        local = pyg.GINConv(nn.Sequential(nn.Linear(h, h), nn.ReLU(), nn.Linear(h, h)))
        self.conv = pyg.GPSConv(h, local, heads=2, attn_type="performer")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.conv(self.first(x), edge_index))


@shape("transformers")
class AppendedNodes(Ends):
    """Virtual nodes of the model's own, appended behind the graph's and joined to all of them."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.virtual = nn.Embedding(2, h)
        self.convs = nn.ModuleList(pyg.GATConv(h, h, add_self_loops=False) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        x = torch.cat([self.first(x), self.virtual.weight], dim=0)
        nodes = torch.arange(n)
        more = [torch.stack([torch.full_like(nodes, n + k), nodes]) for k in range(2)]
        edges = torch.cat([edge_index, *more, *(m.flip(0) for m in more)], dim=1)
        for conv in self.convs:
            x = conv(x, edges).relu()
        return self.last(x[:n])


# ---------------------------------------------------------------- temporal cells on static graphs


@shape("temporal")
class GatedRecurrent(Ends):
    """A GRU whose maps are Chebyshev convolutions."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.xs = nn.ModuleList(pyg.ChebConv(h, h, 2, normalization="rw") for _ in range(3))
        self.hs = nn.ModuleList(pyg.ChebConv(h, h, 2, normalization="rw") for _ in range(3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        state = torch.zeros(x.shape[0], x.shape[1], dtype=x.dtype)
        for _ in range(2):
            z = torch.sigmoid(self.xs[0](x, edge_index) + self.hs[0](state, edge_index))
            r = torch.sigmoid(self.xs[1](x, edge_index) + self.hs[1](state, edge_index))
            new = torch.tanh(self.xs[2](x, edge_index) + self.hs[2](state * r, edge_index))
            state = z * state + (1 - z) * new
        return self.last(state.relu())


@shape("temporal")
class TemporalCell(Ends):
    """Convolutions of the input, joined with the state for each gate."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.convs = nn.ModuleList(pyg.GCNConv(i, h, improved=True) for _ in range(3))
        self.lins = nn.ModuleList(nn.Linear(2 * h, h) for _ in range(3))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        state = torch.zeros(x.shape[0], self.lins[0].out_features, dtype=x.dtype)
        for _ in range(2):
            u, r, c = (conv(x, edge_index, edge_weight) for conv in self.convs)
            z = torch.sigmoid(self.lins[0](torch.cat([u, state], dim=1)))
            r = torch.sigmoid(self.lins[1](torch.cat([r, state], dim=1)))
            c = torch.tanh(self.lins[2](torch.cat([c, state * r], dim=1)))
            state = z * state + (1 - z) * c
        return self.last(state.relu())


@shape("temporal")
class AttentionOverPeriods(Ends):
    """Features of several periods, each by the same cell, weighed by parameters."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv, self.attention = pyg.GCNConv(i // 2, h), nn.Parameter(torch.rand(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = x.reshape(x.size(0), -1, 2)
        share = torch.softmax(self.attention, dim=0)
        out = 0
        for period in range(2):
            out = out + share[period] * self.conv(x[:, :, period], edge_index).tanh()
        return self.last(out)


@shape("temporal")
class DiffusionConv(Ends):
    """Random walks in both directions."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.weight = nn.Parameter(torch.randn(2, 3, h, h) / 8)
        self.prop = Weighed()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        row, col = edge_index
        n = x.size(0)
        out_deg = torch.zeros(n, dtype=x.dtype).index_add_(0, row, edge_weight)
        in_deg = torch.zeros(n, dtype=x.dtype).index_add_(0, col, edge_weight)
        forth, back = out_deg[row].reciprocal(), in_deg[row].reciprocal()
        reverse = torch.vstack([col, row])
        x = a = b = self.first(x)
        out = x @ self.weight[0, 0] + x @ self.weight[1, 0]
        for k in (1, 2):
            a, b = self.prop(a, edge_index, forth), self.prop(b, reverse, back)
            out = out + a @ self.weight[0, k] + b @ self.weight[1, k]
        return self.last(out.tanh())


@shape("temporal")
class GatedTimeConv(Ends):
    """Convolutions over time with the nodes as the last axis of a picture."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.a, self.b = (nn.Conv2d(1, h, (3, 1)) for _ in range(2))
        self.conv, self.flat = pyg.GCNConv(h, h), nn.Linear(h * (i - 2), h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        picture = x.t()[None, None]
        made = (self.a(picture) * torch.sigmoid(self.b(picture))).permute(0, 2, 3, 1)
        steps = [self.conv(made[0, t], edge_index).relu() for t in range(made.size(1))]
        out = torch.stack(steps, dim=1).flatten(1)
        return self.last(self.flat(out).relu())


@shape("temporal")
class EvolvingWeights(Ends):
    """The weights of a convolution go through a GRU of their own."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.cell, self.weight = nn.GRU(h, h), nn.Parameter(torch.randn(1, h, h) / 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        edges, norm = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype)
        weight = self.weight
        for _ in range(2):
            weight, _ = self.cell(weight, weight)
            x = Weighed()(x @ weight.squeeze(0), edges, norm).relu()
        return self.last(x)


@shape("temporal")
class Peephole(Ends):
    """An LSTM whose gates are convolutions and look at the cell."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.convs = nn.ModuleList(pyg.GraphConv(h, h) for _ in range(4))
        self.peeps = nn.ParameterList(nn.Parameter(torch.randn(1, h) / 4) for _ in range(3))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        state, cell = torch.zeros_like(x), torch.zeros_like(x)
        for _ in range(2):
            made = [conv(x + state, edge_index) for conv in self.convs]
            i = torch.sigmoid(made[0] + self.peeps[0] * cell)
            f = torch.sigmoid(made[1] + self.peeps[1] * cell)
            cell = f * cell + i * torch.tanh(made[2])
            state = torch.sigmoid(made[3] + self.peeps[2] * cell) * torch.tanh(cell)
        return self.last(state)


# ---------------------------------------------------------------- robust


@shape("robust")
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


@shape("robust")
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


@shape("robust")
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


@shape("robust")
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


@shape("robust")
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


@shape("robust")
class Medians(Ends):
    """Medians of neighbours in place of sums."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.SAGEConv(h, h, aggr=pyg.aggr.MedianAggregation())

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges, _ = add_remaining_self_loops(edge_index, num_nodes=x.size(0))
        return self.last(self.conv(self.first(x).relu(), edges).relu())


# ---------------------------------------------------------------- bots and fraud


@shape("bots and fraud")
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


@shape("bots and fraud")
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


@shape("bots and fraud")
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


@shape("bots and fraud")
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


@shape("bots and fraud")
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


@shape("bots and fraud")
class DegreeBuckets(Ends):
    """An embedding of how many neighbours a node has, by buckets."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.table, self.conv = nn.Embedding(5, h), pyg.SAGEConv(h, h)
        self.register_buffer("bounds", torch.tensor([1.0, 3.0, 8.0, 20.0]))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        bucket = torch.bucketize(degree(edge_index[1], x.size(0)), self.bounds)
        return self.last(self.conv(self.first(x) + self.table(bucket), edge_index).relu())


@shape("bots and fraud")
class CountedDegrees(Ends):
    """Degrees by `bincount`."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.GCNConv(h + 1, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        deg = torch.bincount(edge_index[0], minlength=x.size(0)).to(x.dtype)
        y = torch.cat([self.first(x), torch.log1p(deg).unsqueeze(1)], dim=1)
        return self.last(self.conv(y, edge_index).relu())


# ---------------------------------------------------------------- links and recommenders


@shape("recommenders")
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


@shape("recommenders")
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


@shape("recommenders")
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


@shape("recommenders")
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


@shape("recommenders")
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


# ---------------------------------------------------------------- deep


@shape("deep")
class InitialResidual(Ends):
    """GCNII on a `SparseTensor`, with its layers' weights by `math.log`."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(h, h) / 4) for _ in range(4))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        adj = adjacency(edge_index, x.size(0), x.dtype)
        raw = x = self.first(x).relu()
        for layer, weight in enumerate(self.weights):
            beta = math.log(0.5 / (layer + 1) + 1)
            support = 0.9 * matmul(adj, x) + 0.1 * raw
            x = (beta * support @ weight + (1 - beta) * support).relu()
        return self.last(x)


@shape("deep")
class AdaptiveDepth(Ends):
    """All hops side by side, each kept as far as a gate of it says."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.gate, self.prop = nn.Linear(o, 1), Weighed()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges, norm = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype)
        x = self.last(self.first(x).relu())
        hops = [x]
        for _ in range(4):
            x = self.prop(x, edges, norm)
            hops.append(x)
        stacked = torch.stack(hops, dim=1)
        keep = torch.sigmoid(self.gate(stacked).squeeze()).unsqueeze(1)
        return torch.matmul(keep, stacked).squeeze()


@shape("deep")
class Reversible(Ends):
    """Groups of features, each updated by the sum of the others."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        convs = [pyg.SAGEConv(h // 2, h // 2) for _ in range(2)]
        self.block = pyg.GroupAddRev(nn.ModuleList(convs), num_groups=2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        y_in = sum(torch.chunk(x, 2, dim=-1)[1:])
        made = []
        for part, conv in zip(torch.chunk(x, 2, dim=-1), self.block.convs, strict=True):
            y_in = part + conv(y_in, edge_index).relu()
            made.append(y_in)
        return self.last(torch.cat(made, dim=-1))


@shape("deep")
class PairNormed(Ends):
    """Rows centred and scaled over all nodes in every layer."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.convs = nn.ModuleList(pyg.GCNConv(h, h) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        for conv in self.convs:
            x = conv(x, edge_index)
            x = x - x.mean(dim=0)
            x = (x / (1e-6 + x.pow(2).sum(dim=1).mean()).sqrt()).relu()
        return self.last(x)


@shape("deep")
class GradientGate(Ends):
    """How fast a node moves follows from how its neighbours differ."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv, self.gate = pyg.GCNConv(h, h), pyg.GCNConv(h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        x = self.first(x).relu()
        for _ in range(3):
            y = self.gate(x, edge_index).relu()
            apart = torch.abs(y[edge_index[0]] - y[edge_index[1]]) ** 2
            tau = torch.tanh(
                torch_scatter.scatter(apart, edge_index[0], 0, dim_size=n, reduce="mean")
            )
            x = (1 - tau) * x + tau * self.conv(x, edge_index).relu()
        return self.last(x)


@shape("deep")
class OrderedGates(Ends):
    """Gates that open in order, by a cumulative softmax."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.gate = nn.Linear(2 * h, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x).relu()
        before = torch.zeros(x.size(0), 4, dtype=x.dtype)
        for _ in range(2):
            m = scatter(x[edge_index[0]], edge_index[1], 0, x.size(0), reduce="mean")
            raw = torch.cumsum(F.softmax(self.gate(torch.cat([x, m], dim=1)), dim=-1), dim=-1)
            raw = before + (1 - before) * raw
            signal = raw.repeat_interleave(x.size(1) // 4, dim=1)
            x, before = x * signal + m * (1 - signal), raw
        return self.last(x)


@shape("deep")
class Standardised(Ends):
    """Weights standardised on every call, and activations scaled to keep their variance."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.weight, self.gain = nn.Parameter(torch.randn(h, h)), nn.Parameter(torch.ones(h))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        weight = self.weight
        weight = weight - weight.mean(dim=0, keepdim=True)
        weight = weight / (weight.std(dim=0, keepdim=True) + 1e-5) * self.gain
        edges, norm = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype)
        x = self.first(x)
        for _ in range(3):
            x = x + Weighed()(x.relu() * 1.7 @ weight, edges, norm)
        return self.last(x)


@shape("deep")
class Rewritten(Ends):
    """The same, written into the layer's own weights."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.GCNConv(h, h)
        self.register_buffer("raw", torch.randn(h, h))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        weight = self.raw - self.raw.mean(dim=1, keepdim=True)
        self.conv.lin.weight.data.copy_(weight / weight.norm(dim=1, keepdim=True))
        return self.last(self.conv(self.first(x).relu(), edge_index).relu())


@shape("deep")
class RandomWalks(Ends):
    """Random propagation: dropping whole rows while training, the mean of powers always."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges, norm = gcn_norm(edge_index, None, x.size(0), dtype=x.dtype)
        masks = torch.bernoulli(torch.full((x.size(0), 1), 0.5, dtype=x.dtype))
        x = masks * x if self.training else 0.5 * x
        total = x
        for _ in range(3):
            x = Weighed()(x, edges, norm)
            total = total + x
        return self.last(self.first(total / 4).relu())


@shape("deep")
class Oscillators(Ends):
    """Coupled oscillators, step by step."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv, self.res = pyg.GATConv(h, h // 4, heads=4), nn.Linear(h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        x = self.first(x)
        y = x.clone()
        for _ in range(2):
            new = F.elu(self.conv(x, edge_index) + self.res(x)).view(n, -1, 4).mean(dim=-1)
            y = y + 0.5 * (new.repeat(1, 4) - y - x)
            x = x + 0.5 * y
        return self.last(x)


# ---------------------------------------------------------------- others


@shape("others")
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


@shape("others")
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


@shape("others")
class HalfPrecision(Ends):
    """A convolution under autocast."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.GCNConv(h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.conv(self.first(x).relu(), edge_index)
        return self.last(x.to(self.last.weight.dtype))


@shape("others")
class Sequences(Ends):
    """Neighbours in their order through an LSTM."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.SAGEConv(h, h, aggr="lstm")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        order = edge_index[1].argsort(stable=True)
        return self.last(self.conv(self.first(x), edge_index[:, order]).relu())


@shape("others")
class ByDegree(Ends):
    """A map for every degree (MFConv)."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.MFConv(h, h, max_degree=4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.conv(self.first(x), edge_index).relu())


@shape("others")
class Anchored(Ends):
    """Only what lies within two hops of an anchor takes part."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        self.conv = pyg.GCNConv(h, h)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        _, edges, _, _ = k_hop_subgraph(0, 2, edge_index, num_nodes=x.size(0))
        return self.last(self.conv(self.first(x), edges) + self.conv(self.first(x), edge_index))


@shape("others")
class ByBranches(Ends):
    """Python decides by the largest degree whether degrees are clamped."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        deg = degree(edge_index[1], x.size(0), dtype=x.dtype)
        if deg.max() > 5:
            deg = deg.clamp(max=50)
        x = self.first(x).relu()
        heard = scatter(x[edge_index[0]], edge_index[1], 0, x.size(0), reduce="sum")
        return self.last(heard / (deg + 1).unsqueeze(1) + x)


@shape("others")
class WholeSoftmax(Ends):
    """Every node attends to every other: no shortcut is known."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        x = x + torch.softmax(x @ x.t() / math.sqrt(x.size(1)), dim=-1) @ x
        return self.last(scatter(x[edge_index[0]], edge_index[1], 0, x.size(0), reduce="mean"))


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
    global NODES
    NODES = n
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
