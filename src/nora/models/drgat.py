"""DrGAT: attention with symmetric degree normalisation and dimension re-weighting.

A layer (`DrGATConv`) maps each row, scales it by its degree, lets every receiver `k` weigh its senders
by a score of the sender alone, and adds a linear residual:

    y_j   = D_j^(−1/2) W x_j                     [H, C], for H heads
    α_jk  = softmax_{j→k}( LeakyReLU(a · y_j) )
    out_k = D_k^(+1/2) Σ_{j→k} α_jk y_j + R x_k

With equal scores this is GCN's `D^(−1/2) A D^(−1/2)`. As on ogbn-arxiv in the original, every node has
one self-loop and duplicate loops are dropped, so that no degree is 0 and no softmax is empty. `D` counts
the edges *into* a node at both ends, as PyG's `gcn_norm` does; on undirected graphs there is no choice.
It belongs to the graph at hand: on `G−r` the former neighbours of `r` send other messages.

Between layers `l ≥ 2` a gate (`Reweighting`) compares what the layer gives with what the first one gave,
dimension by dimension, and mixes the two:

    s_l = RNN( V (h_1/‖h_1‖₂ ∘ h_l/‖h_l‖₂), s_(l−1) ),  s_1 = 0
    h_l ← (1−|s_l|) h_l + |s_l| h_1

then batch norm, ReLU and dropout. The start state is fixed, so that evaluation is deterministic.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import add_self_loops, degree, remove_self_loops, softmax

from nora.models import MODELS
from nora.models.stack import Stack


def with_one_loop_each(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The edges with exactly one self-loop at every node.

    >>> with_one_loop_each(torch.tensor([[0, 1, 1], [1, 1, 1]]), 2)
    tensor([[0, 0, 1],
            [1, 0, 1]])
    """
    bare, _ = remove_self_loops(edge_index)
    return add_self_loops(bare, num_nodes=num_nodes)[0]


class DrGATConv(MessagePassing):
    """Attention from the senders' side between `D^(−1/2)` and `D^(+1/2)`, plus a linear residual.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output, per head.
        heads: Attention heads, concatenated.
        negative_slope: LeakyReLU's.

    Example:
        >>> conv = DrGATConv(3, 4, heads=2)
        >>> conv(torch.rand(5, 3), torch.tensor([[0, 1], [1, 2]])).shape
        torch.Size([5, 8])
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, heads: int = 3, negative_slope: float = 0.2
    ) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.negative_slope = negative_slope
        width = heads * out_channels
        self.lin = Linear(in_channels, width, bias=False, weight_initializer="glorot")
        self.res = Linear(in_channels, width, weight_initializer="glorot", bias_initializer="zeros")
        self.att = nn.Parameter(torch.empty(1, heads, out_channels))
        glorot(self.att)

    def sent(self, mapped: Tensor, degrees: Tensor) -> Tensor:
        """The messages of nodes, `[N, heads, out_channels]`, from `W x` and degrees `[N, 1]`."""
        return (mapped / degrees.sqrt()).view(-1, self.heads, self.out_channels)

    def score(self, y: Tensor) -> Tensor:
        """The senders' scores before LeakyReLU, `[N, heads]`."""
        return (y * self.att).sum(dim=-1)

    def received(self, total: Tensor, degrees: Tensor, root: Tensor) -> Tensor:
        """The output from weighted sums `[N, heads, out_channels]`, degrees and `R x`."""
        return total.flatten(1) * degrees.sqrt() + root

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Node outputs `[N, heads · out_channels]` from features `[N, in_channels]`."""
        num_nodes = x.size(0)
        edge_index = with_one_loop_each(edge_index, num_nodes)
        source, target = edge_index
        degrees = degree(target, num_nodes, self.att.dtype).unsqueeze(1)
        y = self.sent(self.lin(x), degrees)
        score = F.leaky_relu(self.score(y), self.negative_slope)
        alpha = softmax(score[source], target, num_nodes=num_nodes)
        total = self.propagate(edge_index, y=y, alpha=alpha)
        return self.received(total, degrees, self.res(x))

    def message(self, y_j: Tensor, alpha: Tensor) -> Tensor:
        """`α_jk y_j`, `[E, heads, out_channels]`."""
        return y_j * alpha.unsqueeze(-1)


class Reweighting(nn.Module):
    """How much of the first layer to keep in each node: a recurrent cell over the layers.

    Args:
        width: Width of the layers' outputs.
        hidden_channels: Width of what the cell reads.
    """

    def __init__(self, width: int, hidden_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, hidden_channels)
        self.cell = nn.RNNCell(hidden_channels, 1)

    def forward(self, h: Tensor, first: Tensor, state: Tensor | None = None) -> Tensor:
        """The next state `[N, 1]`, within ±1; the share of the first layer is its absolute value.

        Args:
            h: The layer's output `[N, width]`.
            first: The first layer's `[N, width]`.
            state: The state after the layer before, zeros if None.
        """
        if state is None:
            state = torch.zeros_like(h[:, :1])
        agreement = F.normalize(first, dim=1) * F.normalize(h, dim=1)
        return self.cell(self.lin(agreement), state)


@MODELS.register(
    "drgat",
    "DrGAT: normalised attention re-weighted against the first layer, distilled from a teacher",
)
class DrGAT(Stack):
    """`DrGATConv` layers with `Reweighting` between them; one head in the last layer.

    Args:
        in_channels: Number of node features.
        out_channels: Number of classes, or the embedding size.
        hidden_channels: Width of the hidden layers, per head.
        num_layers: Number of convolutions; the gate acts from three on.
        heads: Attention heads of the hidden layers.
        norm: Batch norm after every hidden layer.
        **sizes: As in `Stack`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        num_layers: int = 3,
        heads: int = 3,
        norm: bool = True,
        **sizes: Any,
    ) -> None:
        self.heads = heads
        super().__init__(
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            norm=norm,
            **sizes,
        )
        self.gate = Reweighting(heads * hidden_channels, hidden_channels)

    def conv(self, in_channels: int, out_channels: int, last: bool) -> tuple[nn.Module, int]:
        """See `Stack.conv`."""
        heads = 1 if last else self.heads
        return DrGATConv(in_channels, out_channels, heads=heads), out_channels * heads

    def run(self, x: Tensor, *edges: Tensor | None) -> Tensor:
        """See `Stack.run`; every hidden layer but the first is mixed with the first."""
        first = state = None
        for conv, norm in zip(self.convs, self.norms, strict=False):
            h = conv(x, *edges)
            if first is None:
                first = h
            else:
                state = self.gate(h, first, state)
                share = state.abs()
                h = (1 - share) * h + share * first
            x = F.dropout(norm(h).relu(), self.dropout, self.training)
        return self.convs[-1](x, *edges)
