"""Agreement of two sets of scores, against SciPy and counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nora import Influence, evaluate
from nora.results.agreement import agreement, overlap, pearson, pearson_of_rows

METRICS = ["pearson", "spearman", "kendall", "top_1%", "top_3%", "top_10%"]


def scored(values: object) -> Influence:
    return Influence(torch.as_tensor(np.asarray(values, dtype=float)), "test")


def related(size: int, seed: int = 0, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Heavy-tailed truth, and scores that go along with it."""
    random = np.random.default_rng(seed)
    truth = random.pareto(3, size)
    return truth + random.normal(0, noise, size), truth


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


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(3, 80),
    levels=st.sampled_from([2, 4, 1000]),
    offset=st.sampled_from([0.0, 100.0]),
)
def test_correlations_are_what_scipy_says_with_ties_too(
    seed: int, size: int, levels: int, offset: float
) -> None:
    random = np.random.default_rng(seed)
    a = random.integers(0, levels, size) + offset
    b = random.integers(0, levels, size) + 0.5 * a
    a[0], a[1], b[1], b[2] = offset, offset + 1, 0, 1  # never all equal
    found = evaluate(scored(a), scored(b), resamples=0)["value"]
    assert list(found.index) == METRICS
    assert found["pearson"] == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-9)
    assert found["spearman"] == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-9)
    assert found["kendall"] == pytest.approx(stats.kendalltau(a, b)[0], abs=1e-9)


def test_the_top_is_counted_on_the_nodes_that_count() -> None:
    a, b = related(1000)
    found = evaluate(scored(a), scored(b), seen=range(500), resamples=0)["value"]
    for name, size in {"top_1%": 5, "top_3%": 15, "top_10%": 50}.items():
        best = set(np.argsort(-a[500:])[:size]) & set(np.argsort(-b[500:])[:size])
        assert found[name] == pytest.approx(len(best) / size)


SEEN = [3, 17, 44]


@pytest.mark.parametrize(
    "seen",
    [SEEN, tuple(SEEN), set(SEEN), torch.tensor(SEEN), np.array(SEEN), iter(SEEN)],
    ids=lambda value: type(value).__name__,
)
def test_nodes_that_were_seen_do_not_count(seen: object) -> None:
    a, b = related(60)
    rest = np.setdiff1d(np.arange(60), SEEN)
    a[SEEN] = b[SEEN] = [1e6, -1e6, np.nan]
    found = evaluate(scored(a), scored(b), seen=seen, resamples=50)
    alone = evaluate(scored(a[rest]), scored(b[rest]), resamples=50)
    np.testing.assert_array_equal(found.to_numpy(), alone.to_numpy())
    every = evaluate(scored(a), scored(b), resamples=0)["value"]
    assert abs(every["pearson"] - found["value"]["pearson"]) > 0.05


def test_a_mask_of_the_nodes_seen_is_the_same_as_their_ids() -> None:
    a, b = related(60)
    mask = torch.zeros(60, dtype=torch.bool)
    mask[SEEN] = True
    by_mask = evaluate(scored(a), scored(b), seen=mask, resamples=0)
    by_ids = evaluate(scored(a), scored(b), seen=SEEN, resamples=0)
    np.testing.assert_array_equal(by_mask.to_numpy(), by_ids.to_numpy())


def test_no_nodes_seen_is_the_same_as_not_saying_so() -> None:
    a, b = related(60)
    none = evaluate(scored(a), scored(b), seen=[], resamples=0)
    np.testing.assert_array_equal(
        none.to_numpy(), evaluate(scored(a), scored(b), resamples=0).to_numpy()
    )


def test_several_scores_are_averaged_before_they_are_compared() -> None:
    pairs = [related(80, seed) for seed in range(3)]
    found = evaluate([scored(a) for a, _ in pairs], [scored(b) for _, b in pairs], resamples=20)
    a, b = (np.mean(side, axis=0) for side in zip(*pairs, strict=True))
    mean = evaluate(scored(a), scored(b), resamples=20)
    np.testing.assert_allclose(found.to_numpy(), mean.to_numpy(), rtol=1e-12)
    each = [evaluate(scored(a), scored(b), resamples=0)["value"]["pearson"] for a, b in pairs]
    assert abs(np.mean(each) - found["value"]["pearson"]) > 1e-3


def test_a_node_that_any_cycle_left_out_does_not_count() -> None:
    (a, b), (c, d) = related(40, 1), related(40, 2)
    c[5], b[6] = np.nan, np.nan
    found = evaluate([scored(a), scored(c)], [scored(b), scored(d)], resamples=0)["value"]
    rest = np.setdiff1d(np.arange(40), [5, 6])
    expected = stats.pearsonr((a + c)[rest], (b + d)[rest])[0]
    assert found["pearson"] == pytest.approx(expected, abs=1e-12)


def test_the_interval_holds_the_value_and_narrows_with_more_nodes() -> None:
    widths = []
    for size in (50, 3000):
        found = evaluate(*map(scored, related(size)), resamples=200).loc[METRICS[:3]]
        assert (found["low"] < found["value"]).all()
        assert (found["value"] < found["high"]).all()
        assert (found["high"] <= 1).all()
        widths.append(found["high"] - found["low"])
    assert (widths[1] < widths[0] / 2).all()


def test_the_interval_is_as_wide_as_fresh_samples_are_spread() -> None:
    a, b = map(scored, related(400, 99))
    found = evaluate(a, b, resamples=300, confidence=0.5).loc["spearman"]
    fresh = [stats.spearmanr(*related(400, seed))[0] for seed in range(200)]
    width = np.quantile(fresh, 0.75) - np.quantile(fresh, 0.25)
    assert found["high"] - found["low"] == pytest.approx(width, rel=0.35)


def test_more_confidence_widens_the_interval() -> None:
    a, b = map(scored, related(200))
    wide, narrow = (evaluate(a, b, resamples=200, confidence=c) for c in (0.99, 0.5))
    for metric in METRICS[:3]:
        assert wide["low"][metric] < narrow["low"][metric]
        assert wide["high"][metric] > narrow["high"][metric]


def test_the_seed_decides_the_interval_and_not_the_value() -> None:
    a, b = map(scored, related(100))
    first, again, other = (evaluate(a, b, resamples=100, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.to_numpy(), again.to_numpy())
    np.testing.assert_array_equal(first["value"], other["value"])
    assert first["low"]["pearson"] != other["low"]["pearson"]


def test_without_resamples_there_is_no_interval() -> None:
    found = evaluate(*map(scored, related(30)), resamples=0)
    assert found[["low", "high"]].isna().all(axis=None)
    assert found["value"].notna().all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "constant",
    [
        0.0,
        2.0,
        0.1,
    ],
)
def test_scores_that_are_all_equal_correlate_with_nothing(constant: float) -> None:
    equal, other = np.full(50, constant), related(50)[1]
    found = evaluate(scored(equal), scored(other), resamples=20)["value"]
    assert found[METRICS[:3]].isna().all()
    assert found[METRICS[3:]].between(0, 1).all()
    assert math.isnan(pearson(torch.from_numpy(equal), torch.from_numpy(equal)))


@pytest.mark.parametrize(
    ("scores", "truth", "options", "message"),
    [
        ([1, 2, 3], [1, 2], {}, "cannot compare scores of 3 and 2 nodes"),
        ([1, np.nan, 3], [np.nan, 2, 3], {}, "least two nodes that count, got 1"),
        ([1, 2, 3], [1, 2, 3], {"seen": [0, 2]}, "least two nodes that count, got 1"),
        ([1, 2, 3], [1, 2, 3], {"resamples": -1}, "resamples must be ≥ 0"),
        ([1, 2, 3], [1, 2, 3], {"confidence": 1.0}, "confidence between 0 and 1"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    scores: list, truth: list, options: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(scored(scores), scored(truth), **options)


def test_scores_of_different_graphs_are_not_averaged() -> None:
    with pytest.raises(ValueError, match=r"scores of different graphs: \[2, 3\] nodes"):
        evaluate([scored([1, 2]), scored([1, 2, 3])], scored([1, 2, 3]))
    with pytest.raises(ValueError, match="there are no scores"):
        evaluate([], scored([1, 2, 3]))


def test_a_weight_counts_an_entry_as_often() -> None:
    scores, truth = related(30)
    weight = np.random.default_rng(1).integers(1, 5, 30)
    repeated = pearson(np.repeat(scores, weight), np.repeat(truth, weight))
    assert pearson(scores, truth, weight) == pytest.approx(repeated)


def test_rows_are_correlated_one_by_one_and_constant_ones_not_at_all() -> None:
    scores, truth = related(30)
    rows = pearson_of_rows(np.stack([scores, np.full(30, 0.1), -truth]), truth)
    assert rows[0] == pytest.approx(np.corrcoef(scores, truth)[0, 1])
    assert math.isnan(rows[1])
    assert rows[2] == pytest.approx(-1)
