"""Temporal cells on static graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from public_shapes.common import (
    Ends,
    Weighed,
    shape,
)


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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


@shape
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
