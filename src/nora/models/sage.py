"""GraphSAGE with mean aggregation (Hamilton et al., 2017)."""

from __future__ import annotations

from torch import nn
from torch_geometric.nn import SAGEConv

from nora.models import MODELS
from nora.models.stack import Stack


@MODELS.register("sage", "GraphSAGE: mean of the neighbours beside the node itself")
class GraphSAGE(Stack):
    """`SAGEConv` layers with mean aggregation."""

    def conv(self, in_channels: int, out_channels: int, last: bool) -> tuple[nn.Module, int]:
        """See `Stack.conv`."""
        return SAGEConv(in_channels, out_channels), out_channels
