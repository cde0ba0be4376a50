"""Attention on a graph that does not change: `GATConv` as products with sparse matrices.

A layer with `H` heads of width `C` maps every row, `z = x W` `[N, H, C]`, scores every edge and head by
`a_s · z_j + a_t · z_i`, makes attention `α` of it (leaky ReLU, softmax over the edges into a node, dropout),
and gives `out_i = Σ_{j→i} α_ij z_j`. PyG makes the messages `α_ij z_j` of all edges, `[E, H, C]`, and as much
again on the way back. Here the sum is a product `A z` with a sparse matrix that has the attention as its
values, `[N H, N H]` with an entry per edge and head. With `g` the gradient of `out`,

    ∂z = Aᵀ g            a product with the transpose
    ∂α_ij = g_i · z_j    products of pairs of rows, at the entries of A alone

so that nothing larger than `[N, H, C]` and `[E, H]` is ever there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch_geometric.nn import GATConv
from torch_geometric.nn.aggr import SumAggregation
from torch_geometric.utils import add_self_loops, remove_self_loops, softmax

from nora.sparse import csr_matrix


def is_plain(module: nn.Module) -> bool:
    """Whether it is a `GATConv` that does what is described above and nothing else.

    >>> is_plain(GATConv(4, 4, heads=2)), is_plain(GATConv(4, 4, edge_dim=3))
    (True, False)
    """
    return (
        type(module) is GATConv
        and module.lin is not None
        and module.edge_dim is None
        and getattr(module, "res", None) is None
        and module.flow == "source_to_target"
        and type(module.aggr_module) is SumAggregation
    )


@dataclass(frozen=True)
class _Layout:
    """The layout of a CSR matrix: row ends, columns, and the positions of its values in `[E, H]`."""

    ptr: Tensor
    column: Tensor
    place: Tensor

    @classmethod
    def of(cls, row: Tensor, column: Tensor, size: int) -> _Layout:
        place = row.argsort(stable=True)
        ends = row.bincount(minlength=size).cumsum(0)
        return cls(torch.cat([ends.new_zeros(1), ends]), column[place], place)

    def matrix(self, values: Tensor) -> Tensor:
        """With values `[E, H]`."""
        return csr_matrix(self.ptr, self.column, values.flatten()[self.place], len(self.ptr) - 1)


class FixedAttention:
    """The edges of a graph as matrices for attention with some number of heads.

    Attributes:
        index: The edges that attention runs over, `[2, E]`, in PyG's order: dropout draws as it does there.
        num_nodes: Number of nodes.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, heads: int, loops: bool) -> None:
        if loops:
            bare, _ = remove_self_loops(edge_index)
            edge_index, _ = add_self_loops(bare, num_nodes=num_nodes)
        self.index, self.num_nodes = edge_index, num_nodes
        head = torch.arange(heads, device=edge_index.device)
        source, target = (edge_index.unsqueeze(-1) * heads + head).flatten(1)
        self.forth = _Layout.of(target, source, num_nodes * heads)
        self.back = _Layout.of(source, target, num_nodes * heads)

    def attend(self, attention: Tensor, rows: Tensor) -> Tensor:
        """`out_i = Σ_{j→i} α_ij rows_j`, `[N, H, C]`, from attention `[E, H]` and rows `[N, H, C]`."""
        return _Attend.apply(attention, rows, self)


def gat_forward(conv: Any, matrices: FixedAttention) -> Callable[[Tensor], Tensor]:
    """The output of `GATConv` for rows `[N, F]` on the graph of the matrices."""

    def forward(x: Tensor) -> Tensor:
        source, target = matrices.index
        rows = conv.lin(x).view(-1, conv.heads, conv.out_channels)
        # Both scores by one product: multiplied out and summed they would take as long as the rest.
        vectors = torch.stack([conv.att_src[0], conv.att_dst[0]], dim=-1)
        scores = torch.einsum("nhc,hck->nhk", rows, vectors)
        edges = F.leaky_relu(scores[source, :, 0] + scores[target, :, 1], conv.negative_slope)
        attention = softmax(edges, target, num_nodes=matrices.num_nodes)
        attention = F.dropout(attention, conv.dropout, conv.training)
        out = matrices.attend(attention, rows)
        out = out.flatten(1) if conv.concat else out.mean(dim=1)
        return out if conv.bias is None else out + conv.bias

    return forward


class _Attend(torch.autograd.Function):
    """`A z`, and its gradients with respect to both; see the module's docstring."""

    @staticmethod
    def forward(context: Any, attention: Tensor, rows: Tensor, matrices: FixedAttention) -> Tensor:
        context.save_for_backward(attention, rows)
        context.matrices = matrices
        return (matrices.forth.matrix(attention) @ rows.flatten(0, 1)).view_as(rows)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        attention, rows = context.saved_tensors
        matrices: FixedAttention = context.matrices
        g, z = gradient.contiguous().flatten(0, 1), rows.flatten(0, 1)
        for_attention = for_rows = None
        if context.needs_input_grad[0]:
            entries = matrices.forth.matrix(torch.zeros_like(attention))
            found = torch.sparse.sampled_addmm(entries, g, z.t(), beta=0.0).values()
            for_attention = torch.empty_like(found).index_put_((matrices.forth.place,), found)
            for_attention = for_attention.view_as(attention)
        if context.needs_input_grad[1]:
            for_rows = (matrices.back.matrix(attention) @ g).view_as(rows)
        return for_attention, for_rows, None
