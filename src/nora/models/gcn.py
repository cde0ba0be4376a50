"""Graph convolutional network (Kipf & Welling, 2017)."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from nora.models import MODELS
from nora.models.stack import Stack


@MODELS.register("gcn", "graph convolutional network: symmetric normalisation")
class GCN(Stack):
    """`GCNConv` layers; takes `edge_weight` where the data has one."""

    def conv(self, in_channels: int, out_channels: int, last: bool) -> tuple[nn.Module, int]:
        """See `Stack.conv`."""
        return GCNConv(in_channels, out_channels), out_channels

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Node outputs `[N, out_channels]`; `edge_weight` is `[E]`."""
        return self.run(x, edge_index, edge_weight)
