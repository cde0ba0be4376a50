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
    def __init__(self, features: int = FEATURES, out: int = 2, then: int = 2) -> None:
        super().__init__()
        self.conv, self.last = GCNConv(features, out), nn.Linear(then, 2)


class Weighted(Conv):
    def forward(self, x, edge_index, edge_weight):
        return self.conv(x, edge_index, edge_weight)


class Plain(Conv):
    def forward(self, x, edge_index):
        return self.last(self.conv(x, edge_index))


class TakesData(Conv):
    def forward(self, data):
        return self.conv(data.x, data.edge_index)


class Batched(Conv):
    def forward(self, x, edge_index, batch):
        return self.conv(x, edge_index) + batch.view(-1, 1)


class Attributed(Conv):
    def forward(self, x, edge_index, edge_attr):
        return self.conv(x, edge_index, edge_attr.view(-1))


class Typed(Conv):
    def forward(self, x, edge_index, edge_type):
        return self.conv(x, edge_index, edge_type.to(x.dtype))


class Refusing(Conv):
    def forward(self, x, edge_index):
        raise ValueError("the shape of the answer is wrong")


class Rows(Conv):
    def forward(self, x, edge_index):
        return self.conv(x, edge_index) + x.new_zeros(len(x) + 1, 1)


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
    ("model", "reply"),
    [
        (Weighted(), "has no edge_weight.*set data.edge_weight"),
        (Other(), "needs temperature; data.*: pass forward=lambda"),
        (TakesData(), r"forward=lambda model, data: model\(data\)"),
        (Batched(), r"data has no batch.*new_zeros\(data.num_nodes\)"),
        (Refusing(), "shape of the answer is wrong"),
        (Plain(out=5, then=7), r"\(6x5 and 7x2\)"),
        (Rows(), "tensor b .* at non-singleton dimension 0"),
        (Conv(), r"defines.*forward\(x, edge_index\): define"),
        (Encoder(), r"and decode.*task=nora.LinkPrediction\(pairs\)"),
        (Scorer(), r"edge_label_index.*nora.LinkPrediction\(pairs\)"),
        (Plain().to("meta"), r"device 'meta'.*load_state_dict"),
        (Plain().double(), "model's weights.*torch.float64: use x.to"),
    ],
)
def test_the_error_names_the_cause_and_does_not_ask_about_features(model, reply):
    with pytest.raises(ValueError, match=reply) as caught:
        nora.influence(model, star(), progress=False)
    assert "that many features" not in str(caught.value)


def test_another_number_of_features_is_asked_about():
    with pytest.raises(ValueError, match=r"shape.*model built for that many"):
        nora.influence(Plain(features=9), star(), progress=False)


def test_the_width_that_is_asked_about_is_that_after_the_transform():
    with pytest.raises(ValueError, match=r"x has shape \[6, 1\]: was the model.*many"):
        nora.influence(Plain(), star(), transform=first_column, progress=False)


def first_column(data):
    data.x = data.x[:, :1]
    return data


EDGES = star().num_edges


@pytest.mark.parametrize(
    ("model", "given", "cure"),
    [
        (Weighted(), {"edge_attr": torch.ones(EDGES, 1)}, "edge_weight = data.edge_attr.view(-1)"),
        (Weighted(), {"edge_attr": torch.ones(EDGES, 3)}, "edge_weight = data.edge_attr[:, 0]"),
        (Attributed(), {"edge_weight": torch.ones(EDGES)}, "edge_attr = data.edge_weight.view(-1, 1)"),
        (Typed(), {"edge_attr": torch.ones(EDGES, dtype=torch.long)}, "edge_type = data.edge_attr.view(-1)"),
        (Typed(), {"edge_attr": torch.ones(EDGES)}, "edge_type = …"),
        (Batched(), {"batch": torch.zeros(6, dtype=torch.long)}, "batch=data.batch"),
        (Batched(), {}, "new_zeros(data.num_nodes)"),
    ],
)  # fmt: skip
def test_a_missing_argument_is_given_from_what_data_has_and_both_cures_work(model, given, cure):
    data = star()
    data.update(given)
    model = model.to(data.x.dtype)
    with pytest.raises(ValueError, match="could not be run") as caught:
        nora.influence(model, data, progress=False)
    message = str(caught.value)
    assert cure in message
    line, _, call = message.partition("pass forward=")
    if "…" not in call:
        forward = eval(call)
        assert len(nora.influence(model, data, forward=forward, progress=False)) == 6
    if "set data." in line and "…" not in line:
        exec(line.partition("set ")[2].removesuffix(", or "))
        assert len(nora.influence(model, data, progress=False)) == 6


def broken(data):
    data.x = torch.cat([data.x, data.x.new_ones(3, 1)], dim=1)
    return data


def needs_edges(data):
    if not data.num_edges:
        raise RuntimeError("a graph without edges")
    return data


def test_an_error_inside_the_transform_names_its_line_and_not_the_model():
    line = broken.__code__.co_firstlineno + 1
    wanted = rf"transform failed at test_misfit.py:{line} \(broken\): Sizes of tensors"
    with pytest.raises(ValueError, match=wanted) as caught:
        nora.influence(Plain(), star(), transform=broken, progress=False)
    assert "model" not in str(caught.value)


def test_a_transform_that_fails_without_a_node_is_named_with_its_line():
    line = needs_edges.__code__.co_firstlineno + 2
    wanted = rf"without node 0: .*test_misfit.py:{line} \(needs_edges\): a graph without edges"
    model = Plain().to(star().x.dtype)
    with pytest.raises(ValueError, match=wanted) as caught:
        nora.influence(model, star(), "brute", transform=needs_edges, progress=False)
    assert "model" not in str(caught.value)


def test_an_autoencoder_asked_without_task_is_pointed_to_links():
    data = star()
    model = GAE(GCNConv(data.num_features, 3)).to(data.x.dtype)
    with pytest.raises(ValueError, match=r"predicts links: pass task=nora.LinkPrediction"):
        nora.influence(model, data, progress=False)
    pairs = torch.tensor([[0, 1], [1, 2]])
    assert len(nora.influence(model, data, task=nora.LinkPrediction(pairs), progress=False)) == 6


@pytest.mark.parametrize("ask", [nora.influence, nora.what_if])
def test_features_and_edges_in_place_of_a_graph_are_rejected_with_the_remedy(ask):
    data = star()
    with pytest.raises(TypeError, match=r"Tensor:.*Data\(x=x, edge_index=edge_index\)"):
        ask(Plain(), data.x, data.edge_index)
