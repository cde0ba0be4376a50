"""Deep networks: residuals, gates and normalisations."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import (
    scatter,
)

from public_shapes.common import (
    Ends,
    Weighed,
    adjacency,
    matmul,
    shape,
    torch_scatter,
)


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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
