"""`nora.top`: exact scores of the best, and a certificate that holds."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import nora
from graphs import FEATURES, GRAPHS, barabasi, double, some_pairs
from half import half
from networks import network
from nora import LinkPrediction
from nora.engine.effects import Effects
from nora.engine.prepared import Prepared
from nora.model import build_problem
from nora.model.checks import check_model
from nora.model.preserve import seeded
from nora.questions import top as module
from nora.questions.frontier import frontier_bound

every_task = pytest.mark.parametrize("task", ["node", "link"])


@pytest.mark.parametrize(
    ("kind", "task", "model"), half(GRAPHS, ["node", "link"], ["gcn", "sage", "gat", "gcnii"])
)
def test_no_influence_exceeds_its_bound(
    kind: str, task: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = double(GRAPHS[kind]())
    posed = LinkPrediction(some_pairs(data)) if task == "link" else None
    net = network(model)
    truth = nora.influence(net, data, "brute", posed, progress=False).scores
    problem = check_model(build_problem(net, data, posed))
    with problem.evaluating(), torch.no_grad():
        engine = Effects.prepare(problem, Prepared()).engine
        for walks in (0, 1e9):
            monkeypatch.setattr("nora.questions.frontier.COUNTED_WALKS", walks)
            assert (truth <= frontier_bound(problem, engine) + 1e-9).all()


@every_task
def test_with_time_the_set_is_that_of_exact_scores(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 16)
    random = torch.Generator().manual_seed(0)
    x = torch.randn(300, FEATURES, generator=random).double()
    data, model = Data(x=x, edge_index=barabasi(300, 1)), network(seed=2)
    posed = LinkPrediction(data.edge_index[:, ::5]) if task == "link" else None
    found = nora.top(model, data, 20, posed, budget=100, progress=False)
    truth = nora.influence(model, data, "exact", posed, progress=False)
    assert set(found.nodes) == set(truth.top(20)["node"])
    assert found.certified == 20
    assert found.certificate.startswith("All 20 certified")
    reply = torch.tensor(found.scores, dtype=torch.double)
    torch.testing.assert_close(reply, truth.scores[list(found.nodes)], rtol=1e-9, atol=1e-9)


def test_an_ended_budget_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 8)
    run = nora.train("gcn", "polarised", epochs=10, hidden_channels=16, progress=False)
    found = nora.top(run.model, run.data, 5, budget=1e-9, progress=False)
    assert found.refined == 8
    assert found.certified < 5
    assert f"{found.certified} of 5 certified" in found.certificate
    # No node that was left out exceeds the bound of the rest.
    truth = nora.influence(run.model, run.data, "exact", progress=False).scores
    beyond = torch.ones(len(truth), dtype=torch.bool)
    beyond[list(found.nodes)] = False
    assert truth[beyond].max() <= found.rest + 1e-9


class Backwards(torch.nn.Module):
    """Messages go against the edges, then along them, then along edges of another name."""

    def __init__(self, ways: tuple[str, ...], seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.lins = torch.nn.ModuleList(torch.nn.Linear(FEATURES, FEATURES) for _ in ways)
            self.last = torch.nn.Linear(FEATURES, 3)
        self.ways = ways

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        for way, lin in zip(self.ways, self.lins, strict=True):
            source, target = edge_index if way == "along" else edge_index.flip(0)
            x = x + x.new_zeros(x.shape).index_add(0, target, lin(x)[source]).tanh()
        return 5 * self.last(x)


WAYS = [("along",), ("against",), ("along", "against"), ("against", "against")]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**16),
    st.sampled_from([*WAYS, "gcn", "gat", "both"]),
    st.integers(1, 6),
    st.sampled_from([1e-9, 1e-3, 100.0]),
    st.integers(1, 9),
)
def test_every_certified_node_is_among_the_true_first(
    seed: int, kind: str | tuple[str, ...], k: int, budget: float, at_once: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    edges = torch.randint(24, (2, 30), generator=random)
    data = Data(x=torch.randn(24, FEATURES, generator=random).double(), edge_index=edges)
    if kind == "both":
        model = pyg.DirGNNConv(pyg.SAGEConv(FEATURES, 3)).double().eval()
    else:
        model = (
            network(kind, seed=seed) if isinstance(kind, str) else Backwards(kind, seed).double()
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AT_ONCE", at_once)
        found = nora.top(model, data, k, budget=budget, progress=False)
    truth = nora.influence(model, data, "brute", progress=False).scores
    frame = found.to_frame()
    certain = frame[frame["certified"]]
    assert len(certain) == found.certified
    last = truth.topk(k).values[-1]  # of equals, any may be listed
    assert all(truth[node] >= last - 1e-9 for node in certain["node"])


def test_it_stops_early_when_the_rest_cannot_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 1)
    data = double(GRAPHS["isolated"]())
    found = nora.top(network(), data, 1, budget=100, progress=False)
    assert found.refined < data.num_nodes
    assert found.certified == 1


def test_it_is_saved_as_a_table(tmp_path: Path) -> None:
    data = double(GRAPHS["bridge"]())
    found = nora.top(network(), data, 3, progress=False)
    frame = pd.read_parquet(found.save(tmp_path / "top.parquet"))
    assert frame["node"].tolist() == list(found.nodes)
    assert frame["certified"].tolist() == [True] * 3


@pytest.mark.parametrize("k", [0, 99])
def test_k_must_fit_the_graph(k: int) -> None:
    with pytest.raises(ValueError, match="k must lie between 1 and"):
        nora.top(network(), double(GRAPHS["bridge"]()), k, progress=False)


@pytest.mark.parametrize("measure", ["flips", "accuracy", "class:1", "loss"])
def test_any_measure_is_ranked_by_size_with_a_certificate_that_holds(measure: str) -> None:
    run = nora.train("gcn", "karate", epochs=10, hidden_channels=16, progress=False)
    session = run.session()
    found = session.top(7, measure=measure, budget=100, progress=False)
    truth = session.influence(measure=measure, progress=False).scores
    assert found.measure == measure
    assert found.certified == 7
    best = truth.abs().sort(descending=True).values[:7]
    torch.testing.assert_close(torch.tensor(found.scores, dtype=torch.double).abs(), best.double())
    for node, score in zip(found.nodes, found.scores, strict=True):
        assert float(truth[node]) == pytest.approx(score)
    if measure == "loss":  # any prediction may get arbitrarily worse
        assert found.refined == found.num_nodes


def test_only_what_is_within_reach_can_flip() -> None:
    run = nora.train("gcn", "karate", epochs=10, hidden_channels=16, progress=False)
    session = run.session()
    problem = session.problem()
    with problem.evaluating(), torch.no_grad():
        engine = Effects.prepare(problem, Prepared()).engine
        bound = frontier_bound(problem, engine, 1.0)
    flips = session.influence(measure="flips", progress=False).scores
    assert (flips <= bound).all()


def test_top_takes_one_measure() -> None:
    data = double(GRAPHS["two_camps"]())
    with pytest.raises(ValueError, match="one measure, got 2: flips, change"):
        nora.top(network(), data, 3, measure=["flips", "change"], progress=False)
