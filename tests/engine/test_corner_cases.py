"""Cases in which a number was once wrong without a word, or a message misleading."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

import by_hand
import nora
from nora.engine.engine import Engine
from nora.engine.exec.kernels import vectorised
from nora.engine.ops.aggregate import Attend
from nora.model import build_problem
from nora.model.checks import check_model
from nora.questions.frontier import frontier_bound

QUIET = {"progress": False}


def graph(n: int = 30, edges: int = 120, features: int = 4, seed: int = 0) -> Data:
    random = torch.Generator().manual_seed(seed)
    index = torch.randint(n, (2, edges), generator=random)
    index = index[:, index[0] != index[1]].unique(dim=1)
    return Data(x=torch.randn(n, features, generator=random), edge_index=index)


class Tanh(nn.Module):
    """A convolution, bounded, and a linear map."""

    def __init__(self, conv: nn.Module, hidden: int = 8) -> None:
        super().__init__()
        self.conv, self.out = conv, nn.Linear(hidden, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(self.conv(x, edge_index).tanh())


@pytest.mark.parametrize("backend", ["vectorised", "compiled"])
@pytest.mark.parametrize("conv", [pyg.GraphConv, pyg.GCNConv, pyg.SAGEConv])
def test_sums_that_are_infinite_are_summed_again(conv: type, backend: str) -> None:
    torch.manual_seed(0)
    data, model = graph(seed=5), Tanh(conv(4, 8)).eval()
    data.x[7] = 3e38  # beyond all numbers after the linear map
    found = nora.influence(model, data, "exact", backend=backend, verify=0, **QUIET)
    truth = by_hand.influence(model, data, range(30))
    torch.testing.assert_close(found.scores, truth, rtol=1e-4, atol=1e-5)


class OldCache(pyg.MessagePassing):
    """Keeps its edges under a name of its own, as layers did before PyG had one for it."""

    def __init__(self) -> None:
        super().__init__(aggr="sum")
        self.cached, self.cached_result = True, None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if not self.cached or self.cached_result is None:
            self.cached_result = edge_index
        return self.propagate(self.cached_result, x=x)

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


def test_a_cache_under_another_name_is_switched_off() -> None:
    torch.manual_seed(0)
    data, model = graph(), Tanh(OldCache(), 4).eval()
    fresh = Tanh(OldCache(), 4).eval()
    fresh.load_state_dict(model.state_dict())
    fresh.conv.cached = False
    model(data.x, data.edge_index)  # as it is after training
    found = nora.influence(model, data, "brute", **QUIET).scores
    torch.testing.assert_close(found, by_hand.influence(fresh, data, range(30)))


class NeedsOne(nn.Module):
    """Cannot do without the one node whose last feature is positive."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(4, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index) + x[x[:, 3] > 0].max(dim=0).values[:3]


def test_a_node_that_cannot_be_spared_does_not_make_weights_by_id() -> None:
    data = graph(12, 9)
    data.x[:, 3] = -1
    data.x[2, 3] = 1
    data.edge_index = torch.tensor([[5, 5, 5, 5, 5, 5, 2, 0, 1], [2, 4, 6, 7, 8, 9, 5, 1, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        others = [node for node in range(12) if node != 2]
        found = nora.influence(NeedsOne(), data, "brute", nodes=others, **QUIET)
        with pytest.raises(ValueError, match="cannot be run without node 2"):
            nora.influence(NeedsOne(), data, "brute", **QUIET)
    assert "removal" not in found.details


class Bipartite(nn.Module):
    """A layer whose rule does not apply before one whose rule does, on the same rows."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = nn.ModuleList(
            [pyg.SAGEConv((4, 4), 6, aggr="max"), pyg.SAGEConv((6, 6), 3, aggr="max")]
        )
        self.mean = nn.ModuleList([pyg.SAGEConv((4, 4), 6), pyg.SAGEConv((6, 6), 3)])
        self.own = nn.ModuleList([pyg.SAGEConv(4, 6), pyg.SAGEConv(6, 3)])

    def forward(self, x_dict: dict, edge_index_dict: dict) -> dict[str, Tensor]:
        a, b = x_dict["a"], x_dict["b"]
        across, within = edge_index_dict["a", "to", "b"], edge_index_dict["a", "by", "a"]
        for largest, mean, own in zip(self.largest, self.mean, self.own, strict=True):
            both = largest((a, b), across) + mean((a, b), across)
            a, b = own(a, within).tanh(), both.tanh()
        return {"a": a, "b": b}


@pytest.mark.parametrize("kind", ["a", "b"])
def test_a_rule_that_is_given_up_leaves_nothing_behind(kind: str) -> None:
    torch.manual_seed(0)
    data = HeteroData()
    data["a"].x, data["b"].x = torch.randn(15, 4).double(), torch.randn(11, 4).double()
    data["a", "to", "b"].edge_index = torch.stack(
        [torch.randint(15, (40,)), torch.randint(11, (40,))]
    )
    data["a", "by", "a"].edge_index = torch.randint(15, (2, 40))
    task, model = nora.NodeClassification(node_type=kind), Bipartite().double().eval()
    found = nora.influence(model, data, "exact", task, backend="vectorised", verify=0, **QUIET)
    truth = nora.influence(model, data, "brute", task, **QUIET)
    assert "fallback" not in found.details
    torch.testing.assert_close(found.scores, truth.scores, rtol=1e-9, atol=1e-9)


class OwnRows(nn.Module):
    """Rows of its own for the nodes."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.table = nn.Embedding(n, 4)
        self.first, self.second = pyg.SAGEConv(4, 8), pyg.SAGEConv(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x + self.table.weight, edge_index).tanh(), edge_index)


@pytest.mark.filterwarnings("ignore:the model OwnRows")
def test_the_bound_of_a_certificate_holds_where_nodes_are_isolated() -> None:
    torch.manual_seed(0)
    data, model = graph(40, 100, seed=2), OwnRows(40).eval()
    problem = check_model(build_problem(model, data))
    assert problem.by_id
    truth = nora.influence(model, data, "brute", **QUIET).scores
    with problem.evaluating():
        bound = frontier_bound(problem, Engine.prepare(problem, vectorised))
    assert bool((truth <= bound + 1e-6).all())


@pytest.mark.parametrize("interpolation", ["nearest", "lower", "linear", "higher"])
def test_quantiles_that_depend_on_where_a_group_begins_are_not_followed(interpolation: str) -> None:
    torch.manual_seed(0)
    data = graph(24, 90, seed=8)
    data.x = data.x.double()
    aggregation = pyg.aggr.QuantileAggregation(0.7, interpolation=interpolation)
    model = Tanh(pyg.SAGEConv(4, 8, aggr=aggregation)).double().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = nora.influence(model, data, "exact", verify=0, backend="vectorised", **QUIET)
        truth = nora.influence(model, data, "brute", **QUIET)
    torch.testing.assert_close(found.scores, truth.scores, rtol=1e-9, atol=1e-9)
    assert ("fallback" in found.details) == (interpolation != "linear")


def test_an_operation_that_does_not_run_while_it_is_checked_is_a_fallback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise IndexError("no such row")

    torch.manual_seed(0)
    data, model = graph(), Tanh(pyg.GATConv(4, 8)).eval()
    monkeypatch.setattr(Attend, "changed", broken)
    with pytest.warns(RuntimeWarning, match=r"does not run \(IndexError: no such row\)"):
        found = nora.influence(model, data, "exact", backend="compiled", **QUIET)
    truth = nora.influence(model, data, "brute", **QUIET)
    torch.testing.assert_close(found.scores, truth.scores)


@pytest.mark.parametrize("over", ["rows", "means"])
def test_a_length_that_depends_on_values_is_not_taken_for_a_number(over: str) -> None:
    """How many distinct values there are is the same on most graphs, and not on all."""

    class Distinct(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.out = pyg.PairNorm(), nn.Linear(4, 3)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            h = self.norm(x)
            counted = h if over == "rows" else h.mean(dim=0)
            return self.out(h + counted.round().unique().numel() * 0.1)

    torch.manual_seed(0)
    data = graph(35, 40)
    data.x = data.x.double()
    with pytest.warns(RuntimeWarning, match="length depends on values"):
        found = nora.influence(Distinct().double().eval(), data, "exact", **QUIET)
    assert "fallback" in found.details
