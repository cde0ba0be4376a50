"""GraphSAGE with mean aggregation (Hamilton et al., 2017)."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from nora.models import MODELS
from nora.models.stack import Stack


class MeanConv(SAGEConv):
    """`SAGEConv` that maps features before it averages them, where that narrows them."""

    def forward(self, x: Any, edge_index: Any, size: Any = None) -> Tensor:
        """Node outputs `[N, out_channels]`."""
        if not isinstance(x, Tensor) or self.in_channels <= self.out_channels:
            return super().forward(x, edge_index, size)
        sent = F.linear(x, self.lin_l.weight)
        return (
            self.propagate(edge_index, x=(sent, sent), size=size) + self.lin_l.bias + self.lin_r(x)
        )


@MODELS.register("sage", "GraphSAGE: mean of the neighbours beside the node itself")
class GraphSAGE(Stack):
    """`SAGEConv` layers with mean aggregation."""

    def conv(self, in_channels: int, out_channels: int, last: bool) -> tuple[nn.Module, int]:
        """See `Stack.conv`."""
        return MeanConv(in_channels, out_channels), out_channels
