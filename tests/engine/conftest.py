"""A graph with hubs and a model to ask about."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

from graphs import barabasi


@pytest.fixture
def hubs() -> Data:
    """150 nodes with a few hubs."""
    torch.manual_seed(3)
    return Data(x=torch.randn(150, 6).double(), edge_index=barabasi(150, 2))


@pytest.fixture
def gcn() -> nn.Module:
    torch.manual_seed(4)
    return pyg.GCN(6, 16, 2, 3).double()
