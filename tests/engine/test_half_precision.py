"""Layers under autocast, and models in half precision: `exact` rounds as the model does."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from nora.engine.engine import Engine
from nora.engine.exec.kernels import compiled, vectorised
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem
from nora.model.checks import check_model
from public_shapes import graph

LAYERS = {
    "simple": lambda: pyg.SimpleConv(),
    "gcn": lambda: pyg.GCNConv(8, 8),
    "gat": lambda: pyg.GATConv(8, 4, heads=2),
    "sage": lambda: pyg.SAGEConv(8, 8),
    "gin": lambda: pyg.GINConv(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))),
    "graph": lambda: pyg.GraphConv(8, 8),
    "sgc": lambda: pyg.SGConv(8, 8, K=2),
    "appnp": lambda: pyg.APPNP(3, 0.1),
    "tag": lambda: pyg.TAGConv(8, 8, K=2),
}


class Layer(nn.Module):
    """A layer between two maps; `cast` puts it under autocast, with or without the first map."""

    def __init__(self, layer, cast):
        super().__init__()
        self.cast = cast
        self.first, self.layer, self.last = nn.Linear(8, 8), layer, nn.Linear(8, 3)

    def forward(self, x, edge_index):
        if self.cast == "layer":
            x = self.first(x).relu()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.cast != "no"):
            if self.cast != "layer":
                x = self.first(x).relu()
            x = self.layer(x, edge_index)
        return self.last(x.to(self.last.weight.dtype)).float()


def _largest_difference(model, data, backend):
    problem = check_model(build_problem(model, data))
    with problem.evaluating(), torch.no_grad():
        engine = Engine.prepare(problem, backend)
        off = 0.0
        for node in torch.arange(12).split(1):
            truth, left = problem.predict_without(node)
            found = engine.effect_of(EditBatch.remove_nodes(node))[left]
            off = max(off, float((found - truth).abs().max()))
    return off


@pytest.mark.parametrize("backend", [vectorised, compiled])
@pytest.mark.parametrize("cast", ["layer", "both"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_under_autocast_is_rounded_as_the_model_rounds_it(name, cast, backend):
    torch.manual_seed(0)
    model = Layer(LAYERS[name](), cast).eval()
    assert _largest_difference(model, graph(60, 8, torch.float), backend) < 1e-6


@pytest.mark.parametrize("name", ["gcn", "gat", "sage"])
def test_a_model_in_half_precision_is_rounded_as_it_rounds(name):
    torch.manual_seed(0)
    model = Layer(LAYERS[name](), "no").bfloat16().eval()
    data = graph(60, 8, torch.bfloat16)
    assert _largest_difference(model, data, vectorised) == 0.0
