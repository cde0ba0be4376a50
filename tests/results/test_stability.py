"""Several models: which nodes are held, by hand, and the verdict."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nora.results.stability import Member, Stability


def several(*rows: list[float], k: int = 2, models: str = "") -> Stability:
    kinds = models or "a" * len(rows)
    seeds: dict[str, int] = {}
    members = []
    for kind in kinds:
        seeds[kind] = seeds.get(kind, -1) + 1
        members.append(Member(kind, seeds[kind], "accuracy", 0.9, False, "exact"))
    return Stability(tuple(members), torch.tensor(rows), k)


def test_means_spreads_ranks_and_counts_by_hand() -> None:
    found = several([4.0, 3, 2, 1], [1, 3, 2, 4], [4, 1, 2, 3])
    assert found.mean.tolist() == [3.0, pytest.approx(7 / 3), 2.0, pytest.approx(8 / 3)]
    assert found.spread.numpy() == pytest.approx(
        np.std([[4, 3, 2, 1], [1, 3, 2, 4], [4, 1, 2, 3]], axis=0, ddof=1)
    )
    assert found.ranks.tolist() == [[1, 2, 3, 4], [4, 2, 3, 1], [1, 4, 3, 2]]
    assert found.times_first.tolist() == [2, 2, 0, 2]
    frame = found.to_frame([3])
    assert frame[["best_rank", "worst_rank", "times_in_top_2"]].values.tolist() == [[1, 4, 2]]
    pairs = found.agreement()
    assert pairs["shared"].tolist() == [1, 1, 1]
    assert pairs["spearman"][0] == pytest.approx(-0.8)


@pytest.mark.parametrize(
    ("rows", "verdict", "alone"),
    [
        (([4.0, 3, 2, 1], [4, 3, 2, 1], [3, 4, 2, 1]), "holds", []),
        (([4.0, 3, 2, 1], [4, 3, 2, 1], [4, 1, 2, 3]), "holds in part", [1]),
        (([4.0, 3, 2, 1], [1, 2, 3, 4], [1, 2, 3, 4]), "is decided by one model", [0, 1]),
        # Of two others, one is no more than half.
        (([4.0, 3, 2, 1], [4, 3, 2, 1], [1, 2, 3, 4]), "is decided by one model", [0, 1]),
    ],
)
def test_the_verdict_is_about_the_first_models_nodes(
    rows: tuple[list[float], ...], verdict: str, alone: list[int]
) -> None:
    found = several(*rows)
    assert (found.verdict, found.alone) == (verdict, alone)
    assert (found.caution == "") == (verdict == "holds")
    if verdict == "is decided by one model":
        assert "not a finding about the data" in found.caution


def test_seeds_and_architectures_are_distinguished() -> None:
    found = several([4.0, 3, 2, 1], [4, 3, 2, 1], [1, 2, 3, 4], models="aab")
    assert "differ in their seed share 2.0 of 2" in found.finding
    assert "models of two architectures share 0.0 of 2" in found.finding
    assert found.models()["shared"].tolist() == [1.0, 1.0, 0.0]
    labels = [text.get_text() for text in found.plot().axes[0].get_yticklabels()]
    assert labels == ["node 0  2/3", "node 1  2/3"]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two models"):
        several([1.0, 2])
    with pytest.raises(ValueError, match="every node"):
        several([1.0, float("nan")], [1, 2])
    with pytest.raises(ValueError, match="k must lie between 1 and 2"):
        several([1.0, 2], [1, 2], k=3)
