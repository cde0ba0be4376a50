"""GCNII: GCN with initial residual and identity mapping (Chen et al., 2020)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCN2Conv

from nora.models import MODELS


@MODELS.register("gcnii", "GCNII: initial residual and identity map between two linear maps")
class GCNII(nn.Module):
    """Linear map in, `GCN2Conv` layers at one width, linear map out.

    Args:
        in_channels: Number of node features.
        out_channels: Number of classes, or the embedding size.
        hidden_channels: Width of all convolutions.
        num_layers: Number of convolutions.
        dropout: Dropout probability on hidden layers.
        norm: Batch norm after every convolution.
        alpha: Strength of the initial residual.
        theta: The paper's λ: strength of the identity map, `β_l = log(λ/l + 1)`.
        self_loops: Add a self-loop to every node.
        linear_ends: ReLU and dropout only between convolutions, not beside the linear maps.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.5,
        norm: bool = False,
        alpha: float = 0.2,
        theta: float = 1.0,
        self_loops: bool = True,
        linear_ends: bool = False,
    ) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.dropout = dropout
        self.linear_ends = linear_ends
        self.lin_in = nn.Linear(in_channels, hidden_channels)
        self.convs = nn.ModuleList(
            GCN2Conv(
                hidden_channels,
                alpha=alpha,
                theta=theta,
                layer=layer + 1,
                add_self_loops=self_loops,
            )
            for layer in range(num_layers)
        )
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(hidden_channels) if norm else nn.Identity() for _ in range(num_layers)
        )
        self.lin_out = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Node outputs `[N, out_channels]`; `edge_weight` is `[E]`."""
        x = x_0 = self._end(self.lin_in(x))
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            if number or not self.linear_ends:
                x = F.dropout(x, self.dropout, self.training)
            x = norm(conv(x, x_0, edge_index, edge_weight))
            x = x.relu() if number < self.num_layers - 1 else self._end(x)
        if self.linear_ends:
            return self.lin_out(x)
        return self.lin_out(F.dropout(x, self.dropout, self.training))

    def _end(self, x: Tensor) -> Tensor:
        return x if self.linear_ends else x.relu()
