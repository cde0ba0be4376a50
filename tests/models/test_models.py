"""The architectures: what they are made of, for both tasks, with the paper's settings."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, GCN2Conv, GCNConv, SAGEConv

from graphs import FEATURES, bridge, double, weighted
from networks import network
from nora import build_model
from nora.models import MODELS, paper_settings

LAYERS = {"gcn": GCNConv, "sage": SAGEConv, "gat": GATConv, "gcnii": GCN2Conv}


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("name", LAYERS)
def test_a_model_has_as_many_convolutions_as_asked_for(name: str, layers: int) -> None:
    model = build_model(name, FEATURES, 2, hidden_channels=6, num_layers=layers)
    found = [module for module in model.modules() if isinstance(module, LAYERS[name])]
    assert len(found) == layers
    data = bridge()
    assert model(data.x, data.edge_index).shape == (7, 2)


@pytest.mark.parametrize("name", LAYERS)
def test_batch_norm_stands_between_layers_when_asked_for(name: str) -> None:
    def norms(norm: bool) -> int:
        model = build_model(name, FEATURES, 2, num_layers=3, norm=norm)
        return sum(isinstance(module, nn.BatchNorm1d) for module in model.modules())

    assert norms(False) == 0
    assert norms(True) == (3 if name == "gcnii" else 2)


@pytest.mark.parametrize("name", LAYERS)
def test_a_graph_without_edges_leaves_every_node_to_itself(name: str) -> None:
    model, data = network(name), double(bridge())
    none = torch.empty(2, 0, dtype=torch.long)
    together = model(data.x, none)
    alone = torch.cat([model(row.unsqueeze(0), none) for row in data.x])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("name", ["gcn", "gcnii"])
def test_edge_weights_count(name: str) -> None:
    model, data = network(name), double(weighted())
    plain = model(data.x, data.edge_index)
    ones = model(data.x, data.edge_index, torch.ones_like(data.edge_weight))
    torch.testing.assert_close(ones, plain)
    assert not torch.allclose(model(data.x, data.edge_index, data.edge_weight), plain)


@pytest.mark.parametrize("name", LAYERS)
def test_dropout_acts_in_training_only(name: str) -> None:
    model, data = network(name), double(bridge())
    assert torch.equal(model(data.x, data.edge_index), model(data.x, data.edge_index))
    model.train()
    assert not torch.equal(model(data.x, data.edge_index), model(data.x, data.edge_index))


def test_hidden_attention_has_several_heads_and_the_last_layer_one() -> None:
    first, last = build_model("gat", FEATURES, 2, hidden_channels=5, heads=3).convs
    assert (first.heads, last.heads) == (3, 1)
    assert last.in_channels == 15


@pytest.mark.parametrize("task", ["node", "link"])
@pytest.mark.parametrize("dataset", ["cora", "citeseer", "pubmed"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_papers_settings_build_a_model(name: str, dataset: str, task: str) -> None:
    settings = paper_settings(name, dataset, task)
    model = build_model(name, FEATURES, 3, **settings["sizes"])
    data = bridge()
    assert model.eval()(data.x, data.edge_index).shape == (7, 3)
    assert model.num_layers == 2
    assert 0 < settings["lr"] < 1
    assert settings["weight_decay"] >= 0


def test_settings_the_paper_does_not_give_are_answered_with_those_it_does() -> None:
    with pytest.raises(ValueError, match=r"gcn on karate \(node task\).*cora"):
        paper_settings("gcn", "karate")


def test_the_models_of_the_paper_are_there() -> None:
    assert {entry.name for entry in MODELS} >= set(LAYERS)
