"""What `exact` does at its limits: what it cannot follow, what it refuses, what it reports."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.utils import barabasi_albert_graph

import nora
from nora.incremental import rules
from nora.incremental.changed import Removals
from nora.incremental.engine import Chunks, Engine, pick_backend
from nora.incremental.steps import Tally
from nora.incremental.verification import VerificationError
from nora.problem import pose


@pytest.fixture
def hubs() -> Data:
    """150 nodes with a few hubs."""
    torch.manual_seed(3)
    return Data(x=torch.randn(150, 6).double(), edge_index=barabasi_albert_graph(150, 2))


@pytest.fixture
def gcn() -> nn.Module:
    torch.manual_seed(4)
    return pyg.GCN(6, 16, 2, 3).double()


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
    rules.rule_for(nn.Identity())
    monkeypatch.setattr(rules, "_RULES", dict(rules._RULES))


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


def test_a_rule_that_is_wrong_on_the_whole_graph_is_named(hubs, only_for_this_test):
    @nora.rule(Halved)
    def wrong(plan, conv, x, edge_index):
        return plan.rows(conv.lin, x)

    with pytest.raises(ValueError, match=r"the rule for layer \(Halved\) does not give"):
        nora.influence(UsersModel().double(), hubs, "exact", progress=False)


def test_a_rule_that_is_wrong_only_after_a_removal_is_caught_and_named(hubs, only_for_this_test):
    @nora.rule(Halved)
    def forgets_the_mean(plan, conv, x, edge_index):
        y = plan.rows(conv.lin, x)
        edges = plan.edges(edge_index, 1 / torch.bincount(edge_index[1]).double()[edge_index[1]])
        return plan.rows(lambda total, y: total / 2 + y, plan.propagate(y, edges), y)

    model = UsersModel().double()
    with pytest.raises(VerificationError, match=r"first in layer \(Halved\)"):
        nora.influence(model, hubs, "exact", progress=False)
    unchecked = nora.influence(model, hubs, "exact", verify=0, progress=False)
    assert torch.isfinite(unchecked.scores).all()


def test_a_star_with_a_thousand_leaves():
    leaves = torch.arange(1, 1001)
    out = torch.stack([torch.zeros_like(leaves), leaves])
    data = Data(
        x=torch.randn(1001, 6, generator=torch.Generator().manual_seed(0)).double(),
        edge_index=torch.cat([out, out.flip(0)], dim=1),
    )
    torch.manual_seed(1)
    model = pyg.GCN(6, 8, 3, 3).double()
    nodes = [0, 1, 500]
    truth = nora.influence(model, data, "brute", nodes=nodes, progress=False)
    for backend in ("compiled", "vectorised"):
        found = nora.influence(model, data, "exact", nodes=nodes, backend=backend, progress=False)
        assert torch.allclose(found.scores[nodes], truth.scores[nodes], rtol=1e-9)


@pytest.mark.parametrize(
    "options", [{"memory": "20KB"}, {"workers": 1}, {"workers": 3}, {"verify": 0}]
)
@pytest.mark.parametrize("backend", ["compiled", "vectorised"])
def test_how_the_work_is_done_does_not_change_the_numbers(options, backend, hubs, gcn):
    threads = torch.get_num_threads()
    plain = nora.influence(gcn, hubs, "exact", progress=False)
    other = nora.influence(gcn, hubs, "exact", backend=backend, progress=False, **options)
    assert torch.allclose(plain.scores, other.scores, rtol=1e-10)
    assert torch.get_num_threads() == threads


def test_chunks_fit_the_memory_and_cover_every_node(hubs, gcn):
    engine = Engine.prepare(pose(gcn.eval(), hubs), pick_backend("vectorised", pose(gcn, hubs), 1))
    nodes, cost, budget = torch.arange(150), engine.cost, 200_000
    for node in nodes:
        tally = Tally()
        engine.influences(Removals.single(node.reshape(1)), tally)
        assert 0 < tally.bytes <= cost[node]
    cautious = [chunk for chunk, _ in Chunks(nodes, cost, budget)]
    assert torch.cat(cautious).equal(nodes)
    assert len(cautious) > 1
    assert all(len(chunk) == 1 or float(cost[chunk].sum()) <= budget for chunk in cautious)


def test_chunks_grow_as_far_as_finished_ones_say_there_is_room():
    nodes, bound = torch.arange(1000), torch.full((1000,), 100.0)
    chunks = Chunks(nodes, bound, budget=1000)
    sizes = []
    for chunk, most in chunks:
        assert most == 100 * len(chunk)
        sizes.append(len(chunk))
        chunks.learn(0.01)
    assert sum(sizes) == 1000
    assert sizes[:4] == [10, 20, 40, 80]
    assert all(size * 100 * 0.015 <= 1000 for size in sizes)


def test_tolerance_trades_accuracy_for_work_and_says_how_much():
    run = nora.train("sage", "polarised", epochs=10, num_layers=3, progress=False)
    ask = {"progress": False}
    exact = nora.influence(run.model, run.data, "exact", **ask)
    assert "pruned_share" not in exact.details
    shares = [0.0]
    for tolerance in (1e-4, 1e-2):
        pruned = nora.influence(run.model, run.data, "exact", tolerance=tolerance, **ask)
        shares.append(pruned.details["pruned_share"])
        assert pruned.compare(exact)["pearson"] > 0.99
    assert 0 < shares[1] < shares[2] < 1


@pytest.mark.parametrize("model", ["gcn", "sage", "gat", "gcnii"])
def test_both_backends_prune_alike(model):
    run = nora.train(model, "polarised", epochs=2, hidden_channels=8, progress=False)
    nodes = list(range(0, 1000, 50))
    ask = {"nodes": nodes, "tolerance": 0.02, "progress": False}
    one, two = (
        nora.influence(run.model, run.data, "exact", backend=backend, **ask)
        for backend in ("compiled", "vectorised")
    )
    assert torch.allclose(one.scores[nodes], two.scores[nodes], rtol=1e-3, atol=1e-5)
    assert one.details["pruned_share"] == pytest.approx(two.details["pruned_share"], rel=1e-2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -1.0}, "tolerance must not be negative"),
        ({"memory": "lots"}, "cannot read 'lots' as an amount of memory"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"backend": "gpu"}, "backend is 'gpu'"),
    ],
)
def test_options_out_of_range_are_refused(options, message, hubs, gcn):
    with pytest.raises(ValueError, match=message):
        nora.influence(gcn, hubs, "exact", progress=False, **options)


def test_a_checkpointed_run_resumes_and_ignores_how_the_work_was_done(hubs, gcn, tmp_path):
    folder = tmp_path / "run"
    first = nora.influence(
        gcn, hubs, "exact", nodes=range(60), checkpoint=folder, progress=False, workers=1
    )
    whole = nora.influence(gcn, hubs, "exact", checkpoint=folder, progress=False, memory="1GB")
    truth = nora.influence(gcn, hubs, "exact", progress=False)
    assert torch.equal(whole.scores[:60], first.scores[:60])
    assert torch.allclose(whole.scores, truth.scores, rtol=1e-10)
    with pytest.raises(ValueError, match="belongs to another run: its options differ"):
        nora.influence(gcn, hubs, "exact", checkpoint=folder, tolerance=0.1, progress=False)


def test_the_compiled_backend_is_used_where_there_is_enough_to_do(hubs, gcn):
    problem = pose(gcn, hubs)
    assert pick_backend("auto", problem, 1).__name__.endswith("vectorised")
    assert pick_backend("auto", problem, 10**6).__name__.endswith("compiled")
