"""Layers as users write them: their own messages, norms, attributes, state and traps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree, softmax


class PairConv(MessagePassing):
    """A small network over both ends of an edge."""

    def __init__(self, aggr: str = "mean") -> None:
        super().__init__(aggr=aggr)
        self.lin = nn.Linear(16, 8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return self.lin(torch.cat([x_i, x_j - x_i], dim=-1)).relu()


class OwnAttention(MessagePassing):
    """Scores by a product, softmax over the in-edges by hand."""

    def __init__(self, flow: str = "source_to_target") -> None:
        super().__init__(aggr="add", flow=flow)
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, q=self.query(x), k=self.key(x), v=x)

    def message(self, q_i: Tensor, k_j: Tensor, v_j: Tensor, index: Tensor, size_i: int) -> Tensor:
        return v_j * softmax((q_i * k_j).sum(-1), index, num_nodes=size_i).unsqueeze(-1)


class OutDegreeConv(MessagePassing):
    """Divides by the sender's out-degree: reaches beyond the in-edges of the receiver."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin = nn.Linear(8, 8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        share = 1 / degree(edge_index[0], x.size(0), dtype=x.dtype).clamp(min=1)
        return self.propagate(edge_index, x=self.lin(x), share=share.view(-1, 1))

    def message(self, x_j: Tensor, share_j: Tensor) -> Tensor:
        return x_j * share_j


class TwoHopConv(MessagePassing):
    """Passes messages twice in one layer, there and back."""

    def __init__(self, back: bool = False) -> None:
        super().__init__(aggr="mean")
        self.lin, self.back = nn.Linear(8, 8), back

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        once = self.propagate(edge_index, x=x).tanh()
        return self.lin(self.propagate(edge_index.flip(0) if self.back else edge_index, x=once))


class GlobalMaxConv(MessagePassing):
    """A mean over neighbours, divided by the largest feature anywhere."""

    def __init__(self) -> None:
        super().__init__(aggr="mean")
        self.lin = nn.Linear(8, 8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=self.lin(x)) / x.abs().max().clamp(min=1e-3)


class VirtualNodeConv(MessagePassing):
    """Everybody hears the mean of all."""

    def __init__(self) -> None:
        super().__init__(aggr="max")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x) + x.mean(dim=0)


class OwnAggregate(MessagePassing):
    """Overrides `aggregate` and `update`: sums of squares, then a root."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x, weight=edge_weight)

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return x_j * weight.unsqueeze(-1)

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        total = inputs.new_zeros(dim_size, inputs.size(-1))
        return total.index_add_(0, index, inputs.square())

    def update(self, found: Tensor, x: Tensor) -> Tensor:
        return self.lin((found + 0.1).sqrt()) + x


class EdgeUpdater(MessagePassing):
    """Edge features from `edge_updater` first, messages from them after."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin = nn.Linear(20, 8)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        gate = self.edge_updater(edge_index, x=x, edge_attr=edge_attr)
        return x + self.propagate(edge_index, x=x, gate=gate)

    def edge_update(self, x_i: Tensor, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        return self.lin(torch.cat([x_i, x_j, edge_attr], dim=-1)).sigmoid()

    def message(self, x_j: Tensor, gate: Tensor) -> Tensor:
        return x_j * gate


class NeighbourDegree(MessagePassing):
    """Weighs neighbours by the degree of the receiver and its neighbours' neighbours."""

    def __init__(self) -> None:
        super().__init__(aggr="add")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        d = degree(edge_index[1], x.size(0), dtype=x.dtype).add(1).log()
        beyond = self.propagate(edge_index, x=d.unsqueeze(-1))
        return self.propagate(edge_index, x=x * d.unsqueeze(-1)) / (1 + beyond)


class HandMade(nn.Module):
    """No `MessagePassing` at all: gather, scatter, divide."""

    def __init__(self, how: str = "mean") -> None:
        super().__init__()
        self.lin, self.how = nn.Linear(8, 8), how

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        place = target.unsqueeze(-1).expand(-1, x.size(-1))
        if self.how == "index_add":
            found = torch.zeros_like(x).index_add_(0, target, self.lin(x)[source])
        elif self.how == "put":
            found = torch.zeros_like(x).index_put_((target,), self.lin(x)[source], accumulate=True)
        else:
            found = torch.zeros_like(x).scatter_reduce(
                0, place, self.lin(x)[source], self.how, include_self=self.how == "prod"
            )
        return found


class KeepsInput(nn.Module):
    """Keeps its input on itself for the residual."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.res = x
        return self.lin(x).tanh() + self.res


class FirstUse(nn.Module):
    """Keeps a statistic of the first rows it ever sees."""

    def __init__(self) -> None:
        super().__init__()
        self.scale: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.scale is None:
            self.scale = x.detach().abs().mean() + 0.1
        return x / self.scale


class Counts(nn.Module):
    """Counts its calls in a buffer, and may use the count."""

    def __init__(self, use: bool = False) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.use = use

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls if self.use else x


class History(nn.Module):
    """Appends to a list on itself, and reads its end."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        del self.seen[:-2]
        return x.tanh() + 0.5 * self.seen[-1]


class ByShape(nn.Module):
    """A cache under a key that does not say enough."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        key = x.size(1)
        if key not in self.kept:
            self.kept[key] = x.detach().mean(dim=0)
        return x - self.kept[key]


class RunningMean(nn.Module):
    """Moves its running mean in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(dim=0))
        return x - self.mean
