"""An estimate's first nodes are exact, and a sample tells how far the others are off."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nora
from nora.questions.refine import refined
from nora.results.exactness import is_exact, method_name, refinement


@pytest.fixture(scope="module")
def run():
    return nora.train("gcn", "polarised", epochs=20, progress=False)


@pytest.fixture(scope="module")
def session(run):
    return nora.Session(run.model, run.data)


@pytest.fixture(scope="module")
def exact(session):
    return session.influence("exact", progress=False)


@pytest.mark.parametrize(("method", "options"), [("cauchy", {}), ("exact", {"tolerance": 0.1})])
def test_the_first_nodes_are_those_of_exact_in_its_order(session, exact, method, options):
    estimate = session.influence(method, progress=False, **options)
    assert not is_exact(estimate) and method_name(estimate).startswith("estimate by")
    found = refined(session, estimate, first=60)
    assert found.top(20)["node"].tolist() == exact.top(20)["node"].tolist()
    known = refinement(found)["nodes"]
    assert set(found.top(60)["node"]) <= set(known)
    np.testing.assert_allclose(found.scores[known], exact.scores[known], rtol=1e-4, atol=1e-5)
    others = np.setdiff1d(np.arange(1000), known)
    assert torch.equal(found.scores[others], estimate.scores.double()[others])


def test_the_sample_tells_how_far_the_others_are_off(session, exact):
    estimate = session.influence("cauchy", progress=False)
    facts = refinement(refined(session, estimate, first=20))
    assert facts["sampled"] == 120 and facts["scale"] == 1.0
    seen = exact.scores > 1e-3
    ratio = (estimate.scores[seen] / exact.scores[seen]).double().log().abs()
    within = float((ratio <= np.log(facts["factor"])).double().mean())
    assert 0.65 < within < 0.95
    error = float((ratio.exp() - 1).median())
    assert facts["median_error"] == pytest.approx(error, abs=0.1)
    assert facts["spearman"] == pytest.approx(estimate.compare(exact)["spearman"], abs=0.05)


def test_scores_of_another_scale_are_brought_to_that_of_influence(session, exact):
    tiny = nora.Influence(exact.scores * 1e-3, "cauchy")
    found = refined(session, tiny, first=50)
    assert refinement(found)["scale"] == pytest.approx(1000, rel=0.01)
    assert torch.allclose(found.scores, exact.scores.double(), rtol=0.02, atol=1e-4)


@pytest.mark.parametrize("method", ["exact", "brute", "degree", "pagerank", "one of my own"])
def test_exact_scores_and_scores_of_another_kind_are_left_alone(session, method):
    given = nora.Influence(torch.rand(1000), method)
    assert refined(session, given) is given


def test_what_is_refined_is_not_refined_again(session):
    once = refined(session, session.influence("cauchy", progress=False), first=20)
    assert refined(session, once) is once


def test_nodes_that_were_not_asked_for_stay_out(session):
    some = session.influence("cauchy", nodes=list(range(40)), progress=False)
    found = refined(session, some, first=10)
    assert torch.equal(found.scores.isnan(), some.scores.isnan())
