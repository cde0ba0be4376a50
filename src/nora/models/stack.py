"""The base of the architectures: a chain of convolutions with norm, ReLU and dropout in between."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Stack(nn.Module):
    """`conv → norm → ReLU → dropout`, repeated; the last convolution stands bare.

    Subclasses give the convolution of each layer.

    Args:
        in_channels: Number of node features.
        out_channels: Number of classes, or the embedding size.
        hidden_channels: Width of the hidden layers.
        num_layers: Number of convolutions.
        dropout: Dropout probability on hidden layers.
        norm: Batch norm after every hidden convolution.
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
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, got {num_layers}")
        self.num_layers = num_layers
        self.dropout = dropout
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        width = in_channels
        for layer in range(num_layers):
            last = layer == num_layers - 1
            conv, width = self.conv(width, out_channels if last else hidden_channels, last)
            self.convs.append(conv)
            if not last:
                self.norms.append(nn.BatchNorm1d(width) if norm else nn.Identity())

    def conv(self, in_channels: int, out_channels: int, last: bool) -> tuple[nn.Module, int]:
        """The layer's convolution and the width of its output."""
        raise NotImplementedError

    def run(self, x: Tensor, *edges: Tensor | None) -> Tensor:
        """The stack on features `[N, in_channels]`; `edges` go to every convolution as they are."""
        for conv, norm in zip(self.convs, self.norms, strict=False):
            x = norm(conv(x, *edges)).relu()
            x = F.dropout(x, self.dropout, self.training)
        return self.convs[-1](x, *edges)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Node outputs `[N, out_channels]` from features `[N, in_channels]`."""
        return self.run(x, edge_index)
