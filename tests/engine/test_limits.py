"""What is hard to follow: it is right all the same, and what falls back is named."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import nora


class Between(nn.Module):
    """Two convolutions with something in between."""

    def __init__(self, between) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(6, 8), pyg.SAGEConv(8, 3)
        self.between = between

    def forward(self, x, edge_index):
        return self.second(self.between(self.first(x, edge_index)), edge_index)


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0)


class Branching(nn.Module):
    """Looks at its values to decide what to do: no trace can follow that."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(6, 3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index) if x.sum() > -1e9 else x


class Virtual(nn.Module):
    """A virtual node that everybody hears, written out in the model's own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(6, 8), pyg.SAGEConv(8, 3)

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index)
        return self.second(hidden + hidden.mean(dim=0, keepdim=True), edge_index)


class Rewired(nn.Module):
    """Changes the edges on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(6, 3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index.flip(0))


class Doubled(pyg.GCNConv):
    """A subclass must not be mistaken for its parent."""

    def message(self, x_j, edge_weight):
        return 2 * super().message(x_j, edge_weight)


class OneDoubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = Doubled(6, 3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


GLOBAL = {
    "graph-norm": lambda: Between(pyg.GraphNorm(8)),
    "pair-norm": lambda: Between(pyg.PairNorm()),
    "instance-norm": lambda: Between(pyg.InstanceNorm(8)),
    "layer-norm": lambda: Between(pyg.LayerNorm(8)),
    "centred": lambda: Between(Centred()),
    "virtual": Virtual,
    "rewired": Rewired,
    "doubled": OneDoubled,
    "cheb": lambda: OneCheb(),
}


class OneCheb(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.ChebConv(6, 3, K=3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


@pytest.mark.parametrize("name", GLOBAL)
def test_what_is_not_local_is_followed_all_the_same(name, hubs):
    torch.manual_seed(0)
    model = GLOBAL[name]().double()
    nodes = [0, 5, 70]
    truth = nora.influence(model, hubs, "brute", nodes=nodes, progress=False)
    found = nora.influence(model, hubs, "exact", nodes=nodes, progress=False)
    assert "fallback" not in found.details
    assert torch.allclose(found.scores[nodes], truth.scores[nodes], atol=1e-9)
    assert nora.what_if(model, hubs, 5).total == pytest.approx(truth[5], abs=1e-9)


class Sorting(nn.Module):
    """Ranks all nodes: what one of them gets depends on everybody's order."""

    def forward(self, x):
        return x + x.argsort(dim=0).argsort(dim=0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Branching, r"at test_limits\.py:\d+ \(forward\)"),
        (lambda: Between(Sorting()), r"sort at test_limits\.py:\d+ \(forward\)"),
    ],
    ids=["branching", "sorting"],
)
def test_what_cannot_be_followed_falls_back_and_names_the_line(model, message, hubs):
    torch.manual_seed(0)
    model, nodes = model().double(), [0, 5, 70]
    with pytest.warns(RuntimeWarning, match=f"exact falls back to brute force: .*{message}"):
        found = nora.influence(model, hubs, "exact", nodes=nodes, progress=False)
    truth = nora.influence(model, hubs, "brute", nodes=nodes, progress=False)
    assert torch.equal(found.scores[nodes], truth.scores[nodes])
    assert "fallback" in found.details
    with pytest.warns(RuntimeWarning, match=message):
        effect = nora.what_if(model, hubs, 5)
    assert effect.total == pytest.approx(truth[5])


def test_a_stochastic_model_is_refused(hubs):
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.SAGEConv(6, 3)

        def forward(self, x, edge_index):
            return self.conv(nn.functional.dropout(x, 0.5, training=True), edge_index)

    with pytest.raises(ValueError, match="not deterministic in eval mode"):
        nora.influence(Noisy().double(), hubs, "exact", progress=False)


class Owning(nn.Module):
    """Holds the nodes' rows itself, so that they stay when a node goes."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(150, 6))
        self.conv = pyg.GCNConv(6, 3)

    def forward(self, x, edge_index):
        return self.conv(self.rows, edge_index)


@pytest.mark.parametrize("method", ["exact", "brute"])
def test_a_model_that_owns_the_nodes_rows_keeps_them_and_loses_the_edges(method, hubs):
    torch.manual_seed(0)
    model = Owning().double()
    with torch.no_grad():
        before = model(hubs.x, hubs.edge_index).softmax(-1)
        bare = hubs.edge_index[:, (hubs.edge_index != 9).all(dim=0)]
        change = (model(hubs.x, bare).softmax(-1) - before).abs().sum(dim=1)
    change[9] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = nora.influence(model, hubs, method, nodes=[9], progress=False)
    assert found.details["removal"] == "isolated"
    assert found[9] == pytest.approx(float(change.sum()), abs=1e-9)


class Shrinking(nn.Module):
    """A virtual node among values so small that an absolute comparison would not see it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(6, 8), pyg.SAGEConv(8, 3)

    def forward(self, x, edge_index):
        hidden = 1e-6 * self.first(x, edge_index)
        return self.second(1e6 * (hidden + 5 * hidden.mean(dim=0)), edge_index)


class Counting(nn.Module):
    """Divides by the number of nodes, which a removal changes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(6, 3)

    def forward(self, data):
        return self.conv(data.x, data.edge_index) * 100 / data.num_nodes


class Attentive(nn.Module):
    """Every node attends to every other one, beside its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GPSConv(6, pyg.SAGEConv(6, 6), heads=2)
        self.out = nn.Linear(6, 3)

    def forward(self, x, edge_index):
        return self.out(self.conv(x, edge_index))


HIDDEN_TRAPS = {
    "shrinking": (Shrinking, None),
    "counting": (Counting, lambda model, data: model(data)),
    "attentive": (Attentive, None),
}


@pytest.mark.parametrize("name", HIDDEN_TRAPS)
def test_what_looks_local_and_is_not(name, hubs):
    torch.manual_seed(0)
    kind, forward = HIDDEN_TRAPS[name]
    model = kind().double()
    truth = nora.what_if(model, hubs, 5, forward=forward, method="brute")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = nora.what_if(model, hubs, 5, forward=forward)
    assert found.total == pytest.approx(truth.total, abs=1e-9)


def test_global_normalisation_on_the_smallest_graph():
    torch.manual_seed(0)
    data = Data(x=torch.randn(3, 6).double(), edge_index=torch.tensor([[0, 1], [1, 2]]))
    model = Between(pyg.GraphNorm(8)).double()
    truth = nora.what_if(model, data, 0, method="brute")
    assert nora.what_if(model, data, 0).total == pytest.approx(truth.total, abs=1e-9)


def test_conditions_on_values_are_followed_row_by_row(hubs):
    class Leaky(nn.Module):
        def forward(self, x):
            return torch.where(x > 0, x, 0.1 * x)

    model = Between(Leaky()).double()
    truth = nora.influence(model, hubs, "brute", progress=False)
    found = nora.influence(model, hubs, "exact", progress=False)
    assert "fallback" not in found.details
    assert torch.allclose(found.scores, truth.scores, atol=1e-12)


def test_attention_weights_may_be_asked_for(hubs):
    class Telling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GATConv(6, 3)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index, return_attention_weights=True)[0]

    model = Telling().double()
    truth = nora.what_if(model, hubs, 3, method="brute")
    found = nora.influence(model, hubs, "exact", nodes=[3], progress=False)
    assert "fallback" not in found.details
    assert found[3] == pytest.approx(truth.total, abs=1e-9)
