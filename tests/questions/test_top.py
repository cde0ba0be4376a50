"""`nora.top`: exact scores of the best, and a certificate that holds."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch

import nora
from graphs import GRAPHS, double, some_pairs
from networks import network
from nora import LinkPrediction
from nora.engine.effects import Effects
from nora.problem import build_problem
from nora.problem.checks import check_model
from nora.questions import top as module
from nora.questions.top import reach_bound

every_graph = pytest.mark.parametrize("kind", GRAPHS)
every_task = pytest.mark.parametrize("task", ["node", "link"])
every_model = pytest.mark.parametrize("model", ["gcn", "sage", "gat", "gcnii"])


@every_graph
@every_task
@every_model
@pytest.mark.parametrize("walks", [0, 1e9])
def test_no_influence_exceeds_its_bound(
    kind: str, task: str, model: str, walks: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COUNTED_WALKS", walks)
    data = double(GRAPHS[kind]())
    posed = LinkPrediction(some_pairs(data)) if task == "link" else None
    net = network(model)
    truth = nora.influence(net, data, "brute", posed, progress=False).scores
    problem = check_model(build_problem(net, data, posed))
    with problem.evaluating(), torch.no_grad():
        bound = reach_bound(problem, Effects.prepare(problem).engine)
    assert (truth <= bound + 1e-9).all()


@every_task
def test_with_time_the_set_is_that_of_exact_scores(task: str) -> None:
    run = nora.train("gcn", "polarised", task, epochs=10, hidden_channels=16, progress=False)
    found = nora.top(run.model, run.data, 20, run.task, budget=100, progress=False)
    truth = nora.influence(run.model, run.data, "exact", run.task, progress=False)
    assert set(found.nodes) == set(truth.top(20)["node"])
    assert found.certified == 20
    assert found.certificate.startswith("all 20 certified")
    torch.testing.assert_close(
        torch.tensor(found.scores, dtype=torch.double),
        truth.scores[list(found.nodes)].double(),
        rtol=1e-5,
        atol=1e-7,
    )


def test_an_ended_budget_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 8)
    run = nora.train("gcn", "polarised", epochs=10, hidden_channels=16, progress=False)
    found = nora.top(run.model, run.data, 5, budget=1e-9, progress=False)
    assert found.refined == 8
    assert found.certified < 5
    assert f"{found.certified} of 5 certified" in found.certificate
    # What is certified is right: no other node exceeds it.
    truth = nora.influence(run.model, run.data, "exact", progress=False).scores
    assert found.rest >= truth[[n for n in range(len(truth)) if n not in found.nodes]].max() or (
        found.refined < len(truth)
    )


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
