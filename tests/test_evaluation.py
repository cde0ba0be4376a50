"""Agreement of two sets of scores, against SciPy and counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from nora.evaluation import agreement, overlap


def test_agreement_is_what_scipy_says() -> None:
    random = np.random.default_rng(0)
    truth = random.pareto(2, 100)
    scores = truth + random.normal(0, 0.5, 100)
    found = agreement(torch.from_numpy(scores), torch.from_numpy(truth))
    assert found["pearson"] == pytest.approx(np.corrcoef(scores, truth)[0, 1])
    assert found["spearman"] == pytest.approx(
        np.corrcoef(stats.rankdata(scores), stats.rankdata(truth))[0, 1]
    )
    best = set(np.argsort(-truth)[:10]) & set(np.argsort(-scores)[:10])
    assert found["top_10%"] == len(best) / 10
    assert set(found) == {"pearson", "spearman", "top_1%", "top_3%", "top_10%"}


def test_scores_agree_fully_with_themselves_and_oppose_their_negative() -> None:
    scores = torch.tensor([3.0, 1.0, 2.0, 0.5])
    assert agreement(scores, scores)["pearson"] == pytest.approx(1)
    assert agreement(scores, scores)["top_1%"] == 1
    assert agreement(-scores, scores)["spearman"] == pytest.approx(-1)
    assert agreement(-scores, scores)["top_1%"] == 0


def test_a_single_node_has_no_agreement() -> None:
    with pytest.raises(ValueError, match="at least two nodes, got 1"):
        agreement(torch.tensor([1.0]), torch.tensor([1.0]))


def test_the_top_has_at_least_one_node() -> None:
    assert overlap(np.array([1.0, 2.0]), np.array([1.0, 2.0]), 0.01) == 1
