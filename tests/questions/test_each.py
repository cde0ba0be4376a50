"""Many removals in one batch tell what each would tell when asked for by itself."""

from __future__ import annotations

import pytest
import torch

import nora
from nora.questions.each import effects_of_each, outcomes_of

NODES = [33, 0, 16, 9, 32, 2]


@pytest.fixture(scope="module", params=["node", "link"])
def run(request):
    return nora.train("gcn", "karate", request.param, epochs=20, progress=False)


def test_each_effect_is_what_what_if_says(run):
    session = nora.Session(run.model, run.data, run.task)
    for node, found in zip(NODES, effects_of_each(session, NODES), strict=True):
        asked = nora.what_if(run.model, run.data, node, run.task)
        assert found.removed == asked.removed
        assert torch.equal(found.counted, asked.counted)
        assert torch.allclose(found.after, asked.after, atol=1e-5, equal_nan=True)
        assert found.total == pytest.approx(asked.total, rel=1e-4)


def test_outcomes_sum_to_influences(run):
    session = nora.Session(run.model, run.data, run.task)
    exact = session.influence("brute", progress=False)
    for outcome in outcomes_of(session, NODES):
        assert outcome.total == pytest.approx(exact[outcome.node], rel=1e-4, abs=1e-5)
        assert bool((outcome.change > 0).all())


def test_classes_and_targets_count_as_in_any_question():
    run = nora.train("gcn", "karate", epochs=20, progress=False)
    task = nora.NodeClassification(classes=[1])
    targets = list(range(20))
    session = nora.Session(run.model, run.data, task, targets=targets)
    exact = nora.influence(run.model, run.data, "brute", task, targets=targets, progress=False)
    found = {outcome.node: outcome for outcome in outcomes_of(session, NODES)}
    for node in NODES:
        assert found[node].total == pytest.approx(exact[node], rel=1e-4, abs=1e-5)
        assert set(found[node].item.tolist()) <= set(targets) - {node}
