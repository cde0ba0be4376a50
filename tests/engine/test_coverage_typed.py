"""Models of nodes of several types that are followed, and right; the oracle is made by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

import by_hand
import nora
from hetero_graphs import CLASSES as TYPED_CLASSES
from hetero_graphs import HIDDEN, WIDTHS, Mixed, library

PAPERS = nora.NodeClassification(node_type="paper")


class Typed(nn.Module):
    """Something relational, twice; returns the papers' classes."""

    def __init__(self, layer: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.start = nn.ModuleDict({k: nn.Linear(w, HIDDEN) for k, w in WIDTHS.items()})
        self.layers = nn.ModuleList([layer(), layer()])
        self.end = nn.Linear(HIDDEN, TYPED_CLASSES)

    def forward(self, x_dict: dict, edge_index_dict: dict) -> Tensor:
        h = {kind: self.start[kind](x).relu() for kind, x in x_dict.items()}
        for layer in self.layers:
            made = layer(h, edge_index_dict)
            h = {kind: h[kind] if made.get(kind) is None else made[kind].relu() for kind in h}
        return self.end(h["paper"])


def mixed(aggr: str) -> nn.Module:
    """A `HeteroConv` with another convolution for every edge type."""
    return Mixed(aggr).layer(aggr)


KINDS = library().metadata()
TYPED = {
    "hgt": lambda: pyg.HGTConv(HIDDEN, HIDDEN, KINDS),
    "han": lambda: pyg.HANConv(HIDDEN, HIDDEN, KINDS),
    "hetero-max": lambda: mixed("max"),
    "hetero-min": lambda: mixed("min"),
    "hetero-mean": lambda: mixed("mean"),
}


@pytest.mark.parametrize("name", TYPED)
def test_relational_models(name):
    torch.manual_seed(1)
    data, model = library(), Typed(TYPED[name]).double().eval()

    def call(m: nn.Module, d: Any) -> Tensor:
        return m(d.x_dict, d.edge_index_dict)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = nora.influence(model, data, "exact", PAPERS, progress=False)
    assert "fallback" not in found.details
    truth = [by_hand.typed_influence(model, data, "paper", kind, call) for kind in data.node_types]
    torch.testing.assert_close(found.scores, torch.cat(truth), rtol=1e-9, atol=1e-9)
