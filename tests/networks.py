"""Small models with random but repeatable weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv

from graphs import FEATURES
from nora import build_model
from nora.model.preserve import seeded
from nora.models import MODELS

CLASSES = 3
# Models of plain graphs; the others take relations, and have their own tests.
PLAIN = [entry.name for entry in MODELS if not entry.facts.needs]


def network(name: str = "gcn", *, seed: int = 0, norm: bool = False, layers: int = 2) -> nn.Module:
    """A registered model in eval mode, in double precision."""
    sizes = {"hidden_channels": 5, "norm": norm, "num_layers": layers}
    with seeded(seed):
        model = build_model(name, FEATURES, CLASSES, **sizes)
    return model.double().eval()


class Patchwork(nn.Module):
    """What users write: GCN twice (cached), GAT once, a residual, batch norm, a layer used twice."""

    def __init__(self, cached: bool = False) -> None:
        super().__init__()
        self.first = GCNConv(FEATURES, 6)
        self.norm = nn.BatchNorm1d(6)
        self.shared = GCNConv(6, 6, cached=cached)
        self.dropout = nn.Dropout(0.5)
        self.last = nn.ModuleDict({"attention": GATConv(6, CLASSES)})

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.norm(self.first(x, edge_index)).relu()
        h = h + self.dropout(self.shared(h, edge_index).tanh())
        h = h + self.shared(h, edge_index).tanh()
        return self.last["attention"](h, edge_index)


def patchwork(*, cached: bool = False, seed: int = 0) -> Patchwork:
    """A `Patchwork` in eval mode whose batch norm has seen something."""
    with seeded(seed):
        model = Patchwork(cached).double()
        model.norm.running_mean += torch.randn(6).double() / 4
        model.norm.running_var += torch.rand(6).double()
    return model.eval()


class Centred(nn.Module):
    """Subtracts the mean over all nodes as a Python number: `exact` cannot follow it."""

    def __init__(self) -> None:
        super().__init__()
        with seeded(0):
            self.conv = GCNConv(FEATURES, CLASSES).double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x - float(x.mean()), edge_index)
