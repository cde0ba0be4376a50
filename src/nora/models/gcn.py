"""Graph convolutional network (Kipf & Welling, 2017)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from nora.models import MODELS
from nora.models.stack import Stack


@MODELS.register("gcn", "graph convolutional network: symmetric normalisation")
class GCN(Stack):
    """`GCNConv` layers; takes `edge_weight` where the data has one.

    Args:
        in_channels: Number of node features.
        out_channels: Number of classes, or the embedding size.
        self_loops: Add a self-loop to every node.
        **sizes: As in `Stack`.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, self_loops: bool = True, **sizes: Any
    ) -> None:
        self.self_loops = self_loops
        super().__init__(in_channels, out_channels, **sizes)

    def conv(self, in_channels: int, out_channels: int, last: bool) -> tuple[nn.Module, int]:
        """See `Stack.conv`."""
        return GCNConv(in_channels, out_channels, add_self_loops=self.self_loops), out_channels

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Node outputs `[N, out_channels]`; `edge_weight` is `[E]`."""
        return self.run(x, edge_index, edge_weight)
