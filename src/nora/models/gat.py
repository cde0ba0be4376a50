"""Graph attention network (Veličković et al., 2018)."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch_geometric.nn import GATConv

from nora.models import MODELS
from nora.models.stack import Stack


@MODELS.register("gat", "graph attention network: learned weights per neighbour")
class GAT(Stack):
    """`GATConv` layers; `hidden_channels` wide per head, one head in the last layer.

    Args:
        in_channels: Number of node features.
        out_channels: Number of classes, or the embedding size.
        heads: Attention heads of the hidden layers.
        self_loops: Let every node attend to itself.
        **sizes: As in `Stack`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        heads: int = 2,
        self_loops: bool = True,
        **sizes: Any,
    ) -> None:
        self.heads = heads
        self.self_loops = self_loops
        super().__init__(in_channels, out_channels, **sizes)

    def conv(self, in_channels: int, out_channels: int, last: bool) -> tuple[nn.Module, int]:
        """See `Stack.conv`."""
        heads = 1 if last else self.heads
        found = GATConv(in_channels, out_channels, heads=heads, add_self_loops=self.self_loops)
        return found, out_channels * heads
