"""What `exact` cannot follow: it says so, names the culprit, and falls back to `brute`."""

from __future__ import annotations

from contextlib import nullcontext

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


FALLBACKS = {
    "between.*GraphNorm": lambda: Between(pyg.GraphNorm(8)),
    "between.*PairNorm": lambda: Between(pyg.PairNorm()),
    "between.*InstanceNorm": lambda: Between(pyg.InstanceNorm(8)),
    "between.*LayerNorm": lambda: Between(pyg.LayerNorm(8)),
    "between.*Centred": lambda: Between(Centred()),
    "Branching cannot be traced": Branching,
    "mean mixes rows": Virtual,
    "gets edges that were changed": Rewired,
    r"conv \(Doubled\): its output at a node depends on more": OneDoubled,
    r"conv \(ChebConv\)": lambda: OneCheb(),
}


class OneCheb(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.ChebConv(6, 3, K=3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


@pytest.mark.parametrize("message", FALLBACKS)
def test_what_is_not_local_falls_back_to_brute_and_is_named(message, hubs):
    torch.manual_seed(0)
    model = FALLBACKS[message]().double()
    nodes = [0, 5, 70]
    with pytest.warns(RuntimeWarning, match=message):
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
def test_a_model_that_owns_the_nodes_rows_is_refused(method, hubs):
    pairs = torch.tensor([[0, 1], [2, 3]])
    with pytest.warns(RuntimeWarning) if method == "exact" else nullcontext():
        for task in (None, nora.LinkPrediction(pairs)):
            with pytest.raises(ValueError, match="does it hold rows of its own"):
                nora.influence(Owning().double(), hubs, method, task, nodes=[9], progress=False)


class Fickle(nn.Module):
    """Behaves otherwise while it is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(6, 3)

    def forward(self, x, edge_index):
        if isinstance(x, torch.Tensor):
            x = 3 * x
        return self.conv(x, edge_index)


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
    "does not give what the model gives": (Fickle, None),
    "mixes rows": (Shrinking, None),
    "data.num_nodes changes": (Counting, lambda model, data: model(data)),
    r"in conv \(GPSConv\)|conv.*(?:Attention|Norm)": (Attentive, None),
}


@pytest.mark.parametrize("message", HIDDEN_TRAPS)
def test_what_a_trace_cannot_see_is_noticed_before_the_run(message, hubs):
    torch.manual_seed(0)
    kind, forward = HIDDEN_TRAPS[message]
    model = kind().double()
    truth = nora.what_if(model, hubs, 5, forward=forward, method="brute")
    with pytest.warns(RuntimeWarning, match=message):
        found = nora.what_if(model, hubs, 5, forward=forward)
    assert found.total == truth.total


def test_global_normalisation_is_noticed_on_the_smallest_graph():
    data = Data(x=torch.randn(3, 6).double(), edge_index=torch.tensor([[0, 1], [1, 2]]))
    with pytest.warns(RuntimeWarning, match="GraphNorm"):
        nora.what_if(Between(pyg.GraphNorm(8)).double(), data, 0)


def test_conditions_on_values_are_followed_row_by_row(hubs):
    class Leaky(nn.Module):
        def forward(self, x):
            return torch.where(x > 0, x, 0.1 * x)

    model = Between(Leaky()).double()
    truth = nora.influence(model, hubs, "brute", progress=False)
    found = nora.influence(model, hubs, "exact", progress=False)
    assert "fallback" not in found.details
    assert torch.allclose(found.scores, truth.scores, atol=1e-12)


def test_attention_weights_asked_for_fall_back(hubs):
    class Telling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GATConv(6, 3)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index, return_attention_weights=True)[0]

    with pytest.warns(RuntimeWarning, match=r"conv \(GATConv\)"):
        nora.what_if(Telling().double(), hubs, 3)
