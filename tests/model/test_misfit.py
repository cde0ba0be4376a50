"""A model that cannot be run on a graph: the error names the cause, and what to do."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GAE, GCNConv

import nora
from graphs import star

FEATURES = star().num_features


class Conv(nn.Module):
    def __init__(self, features: int = FEATURES) -> None:
        super().__init__()
        self.conv = GCNConv(features, 2)


class Weighted(Conv):
    def forward(self, x, edge_index, edge_weight):
        return self.conv(x, edge_index, edge_weight)


class Plain(Conv):
    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


class Other(Conv):
    def forward(self, x, edge_index, temperature):
        return self.conv(x, edge_index) / temperature


class Encoder(Conv):
    def encode(self, x, edge_index):
        return self.conv(x, edge_index)

    def decode(self, z, pairs):
        return (z[pairs[0]] * z[pairs[1]]).sum(dim=-1)


class Scorer(Encoder):
    def forward(self, x, edge_index, edge_label_index):
        return self.decode(self.encode(x, edge_index), edge_label_index)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Weighted(), r"data has no edge_weight: add it \(data.edge_weight = …\)"),
        (Other(), "The call has no temperature: pass forward=lambda"),
        (Conv(), r"defines no forward\(x, edge_index\): define it"),
        (Encoder(), r"has encode and decode.*task=nora.LinkPrediction\(pairs\)"),
        (Scorer(), r"takes edge_label_index.*task=nora.LinkPrediction\(pairs\)"),
        (
            Plain().to("meta"),
            r"weights are on meta, the graph is on cpu: move one.*model.to\('cpu'\)",
        ),
        (Plain().double(), "the model's weights are torch.float64: use x.to"),
    ],
)
def test_the_error_names_the_cause_and_does_not_ask_about_features(model, told):
    with pytest.raises(ValueError, match=told) as caught:
        nora.influence(model, star(), progress=False)
    assert "that many features" not in str(caught.value)


def test_another_number_of_features_is_asked_about():
    with pytest.raises(ValueError, match=r"x has shape .*: was the model built for that many"):
        nora.influence(Plain(features=9), star(), progress=False)


def test_an_autoencoder_asked_without_task_is_pointed_to_links():
    data = star()
    model = GAE(GCNConv(data.num_features, 3)).to(data.x.dtype)
    with pytest.raises(ValueError, match=r"GAE predicts links: pass task=nora.LinkPrediction"):
        nora.influence(model, data, progress=False)
    pairs = torch.tensor([[0, 1], [1, 2]])
    assert len(nora.influence(model, data, task=nora.LinkPrediction(pairs), progress=False)) == 6


@pytest.mark.parametrize("ask", [nora.influence, nora.what_if])
def test_features_and_edges_in_place_of_a_graph_are_told_to_go_together(ask):
    data = star()
    with pytest.raises(TypeError, match=r"got Tensor: .*Data\(x=x, edge_index=edge_index\)"):
        ask(Plain(), data.x, data.edge_index)
