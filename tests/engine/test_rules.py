"""Rules: a convolution followed as one piece, NORA's own and those of users."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import nora
from elsewhere import printed
from nora.engine.lower import lowerings


class Halved(pyg.MessagePassing):
    """A user's own convolution: half the mean of the neighbours, plus the node itself."""

    def __init__(self) -> None:
        super().__init__(aggr="mean")
        self.lin = nn.Linear(6, 3)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x)) / 2 + self.lin(x)


class UsersModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Halved()

    def forward(self, x, edge_index):
        return self.layer(x, edge_index)


@pytest.fixture
def only_for_this_test(monkeypatch):
    lowerings.load()
    monkeypatch.setattr(lowerings, "LOWERINGS", dict(lowerings.LOWERINGS))


def test_users_can_add_a_rule_in_a_few_lines(hubs, only_for_this_test):
    used = []

    @nora.rule(Halved)
    def halved(plan, conv, x, edge_index):
        used.append(conv)
        y = plan.rows(conv.lin, x)
        mean = plan.propagate(y, plan.edges(edge_index, normalise="mean"))
        return plan.rows(lambda mean, y: mean / 2 + y, mean, y)

    model = UsersModel().double()
    found = nora.influence(model, hubs, "exact", progress=False)
    truth = nora.influence(model, hubs, "brute", progress=False)
    assert used
    assert torch.allclose(found.scores, truth.scores, atol=1e-12)


def test_a_rule_that_is_wrong_on_the_whole_graph_is_not_used(hubs, only_for_this_test):
    @nora.rule(Halved)
    def wrong(plan, conv, x, edge_index):
        return plan.rows(conv.lin, x)

    model = UsersModel().double()
    with pytest.warns(RuntimeWarning, match="what the rule for Halved makes"):
        found = nora.influence(model, hubs, "exact", progress=False)
    truth = nora.influence(model, hubs, "brute", progress=False)
    assert torch.allclose(found.scores, truth.scores, atol=1e-12)


def test_a_rule_that_fails_is_reported_and_not_used(hubs, only_for_this_test):
    @nora.rule(Halved)
    def broken(plan, conv, x, edge_index):
        raise AttributeError("no such thing")

    model = UsersModel().double()
    with pytest.warns(RuntimeWarning, match=r"\(Halved\) fails \(AttributeError: no such"):
        found = nora.influence(model, hubs, "exact", progress=False)
    truth = nora.influence(model, hubs, "brute", progress=False)
    assert torch.allclose(found.scores, truth.scores, atol=1e-12)


def test_a_rule_that_is_wrong_only_after_a_removal_is_found_out(hubs, only_for_this_test):
    @nora.rule(Halved)
    def forgets_the_mean(plan, conv, x, edge_index):
        y = plan.rows(conv.lin, x)
        edges = plan.edges(edge_index, 1 / torch.bincount(edge_index[1]).double()[edge_index[1]])
        return plan.rows(lambda total, y: total / 2 + y, plan.propagate(y, edges), y)

    model = _falls_back_and_is_right(hubs)
    unchecked = nora.influence(model, hubs, "exact", verify=0, progress=False)
    assert torch.isfinite(unchecked.scores).all()


def test_a_class_has_one_rule_unless_another_is_meant_to_take_its_place(only_for_this_test):
    built_in = lowerings.lowering_of(pyg.GCNConv(2, 2)).function
    with pytest.raises(ValueError, match=r"a rule .*GCNConv. already.*override=True"):

        @nora.rule(Halved, pyg.GCNConv)
        def mine(plan, conv, x, edge_index): ...

    assert lowerings.lowering_of(pyg.GCNConv(2, 2)).function is built_in
    assert lowerings.lowering_of(Halved()) is None  # all or nothing

    @nora.rule(pyg.GCNConv, override=True)
    def better(plan, conv, x, edge_index): ...

    assert lowerings.lowering_of(pyg.GCNConv(2, 2)).function is better


def test_a_cell_with_a_rule_may_run_twice(only_for_this_test):
    def cell():
        @nora.rule(Halved)
        def halved(plan, conv, x, edge_index): ...

        return halved

    cell()
    latest = cell()
    assert lowerings.lowering_of(Halved()).function is latest


def test_a_rule_is_not_lost_when_the_rules_of_the_package_are_loaded_after_it():
    code = """
import nora
from torch_geometric.nn import GCNConv

@nora.rule(GCNConv, override=True)
def mine(plan, conv, x, edge_index, edge_weight=None): ...

from nora.engine.lower.lowerings import lowering_of
assert lowering_of(GCNConv(2, 2)).function is mine
"""
    printed(code)


def _falls_back_and_is_right(data: Data) -> nn.Module:
    model = UsersModel().double()
    with pytest.warns(RuntimeWarning, match="exact falls back to brute force"):
        found = nora.influence(model, data, "exact", progress=False)
    truth = nora.influence(model, data, "brute", progress=False)
    assert torch.equal(found.scores, truth.scores)
    return model


def _broken(*_, **__):
    raise KeyError("no such option")


@pytest.mark.parametrize("key", ["pointwise", pyg.GCNConv, pyg.aggr.MedianAggregation])
def test_a_lowering_that_raises_is_named_with_its_exception(key, hubs, monkeypatch):
    lowerings.load()
    raw = key is pyg.aggr.MedianAggregation
    monkeypatch.setitem(lowerings.LOWERINGS, key, lowerings.Lowering(_broken, raw))
    torch.manual_seed(0)
    conv = pyg.SAGEConv(6, 3, aggr="median") if raw else pyg.GCNConv(6, 3)
    model = pyg.Sequential("x, edge_index", [(conv, "x, edge_index -> x"), nn.Tanh()]).double()
    fails = r"the lowering of .* fails \(KeyError: 'no such option'\)"
    with pytest.warns(RuntimeWarning, match=fails):
        found = nora.influence(model, hubs, "exact", progress=False)
    followed = key is pyg.GCNConv  # operation by operation
    assert found.details["followed"] == ("engine" if followed else "brute")
    assert followed or re.search(fails, found.details["fallback"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert re.search(fails, str(nora.explain_engine(model, hubs)))
    truth = nora.influence(model, hubs, "brute", progress=False)
    torch.testing.assert_close(found.scores, truth.scores)
