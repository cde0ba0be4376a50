"""Transformers: attention to all nodes, to hops and to tables."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import (
    degree,
)

from public_shapes.common import (
    Ends,
    SparseTensor,
    matmul,
    shape,
    symmetric,
)


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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
class GpsPerformer(Ends):
    """GPS layers: a local convolution beside linear attention over all nodes."""

    def __init__(self, i: int, h: int, o: int) -> None:
        super().__init__(i, h, o)
        local = pyg.GINConv(nn.Sequential(nn.Linear(h, h), nn.ReLU(), nn.Linear(h, h)))
        self.conv = pyg.GPSConv(h, local, heads=2, attn_type="performer")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.conv(self.first(x), edge_index))


@shape
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
