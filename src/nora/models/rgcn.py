"""Relational graph convolutional network (Schlichtkrull et al., 2018): one weight matrix per edge type.

out_i = W_0 x_i + Σ_t mean over neighbours j by edges of type t of W_t x_j
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import RGCNConv

from nora.models import MODELS, ModelFacts
from nora.models.stack import Stack


class TypedConv(RGCNConv):
    """`RGCNConv` that treats all edges as one type if the graph has no types.

    If the output is narrower than the input, features are mapped before they are averaged, while PyG averages
    all columns, type by type. Basis matrices that types share are applied once, and their results are mixed.
    """

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor | None = None) -> Tensor:
        """Node outputs `[N, out_channels]`; `edge_type` is `[E]`."""
        if edge_type is None:
            edge_type = edge_index.new_zeros(edge_index.size(1))
        if not x.is_floating_point() or self.in_channels_l <= self.out_channels:
            return super().forward(x, edge_index, edge_type)
        shared = None if self.num_bases is None else torch.stack([x @ one for one in self.weight])
        out = x @ self.root + self.bias
        for number in range(self.num_relations):
            chosen = edge_index[:, edge_type == number]
            if shared is None:
                sent = x @ self.weight[number]
            else:
                sent = torch.einsum("b,bno->no", self.comp[number], shared)
            out = out + self.propagate(chosen, x=sent, edge_type_ptr=None, size=None)
        return out


@MODELS.register(
    "rgcn",
    "relational GCN: a mean over the neighbours per edge type",
    ModelFacts(needs=("num_relations",)),
)
class RGCN(Stack):
    """`RGCNConv` layers; takes `edge_type` if the data has it.

    Args:
        in_channels: Number of node features.
        out_channels: Number of classes, or the embedding size.
        num_relations: Number of edge types; training takes it from the data.
        num_bases: Number of basis matrices that the types share; by default each type has its own matrix.
        **sizes: As in `Stack`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        num_relations: int = 1,
        num_bases: int | None = None,
        **sizes: Any,
    ) -> None:
        self.num_relations, self.num_bases = num_relations, num_bases
        super().__init__(in_channels, out_channels, **sizes)

    def conv(self, in_channels: int, out_channels: int, last: bool) -> tuple[nn.Module, int]:
        """See `Stack.conv`."""
        conv = TypedConv(in_channels, out_channels, self.num_relations, num_bases=self.num_bases)
        return conv, out_channels

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor | None = None) -> Tensor:
        """Node outputs `[N, out_channels]`; `edge_type` is `[E]`, each `0 … num_relations − 1`."""
        return self.run(x, edge_index, edge_type)
