"""How well one set of scores agrees with another: correlations, top-k overlap, trend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from torch import Tensor

from nora.graph.removal import node_ids
from nora.results.influence import Influence

Scores: TypeAlias = np.ndarray | Tensor
SHARES = (0.01, 0.03, 0.10)


def in_common(a: np.ndarray, b: np.ndarray, k: int) -> int:
    """How many of the first `k` of `a` are also among the first `k` of `b`; ties in order of id."""
    first_a, first_b = (np.argsort(-one, kind="stable")[:k] for one in (a, b))
    return len(np.intersect1d(first_a, first_b))


def overlap(a: np.ndarray, b: np.ndarray, share: float) -> float:
    """Share of the top `share` of `b` that is also in the top of `a` (at least one node).

    >>> overlap(np.array([3.0, 2, 1, 0]), np.array([3.0, 1, 2, 0]), 0.5)
    0.5
    """
    k = max(1, round(share * len(a)))
    return in_common(a, b, k) / k


def pearson(scores: Scores, truth: Scores, weight: Scores | None = None) -> float:
    """Pearson correlation of two vectors `[n]`; NaN when one of them is constant.

    Args:
        scores: One vector.
        truth: The other.
        weight: How often each entry counts; once by default.

    Example:
        >>> twice = pearson(np.array([1.0, 2, 2, 4]), np.array([2.0, 1, 1, 5]))
        >>> counted = pearson(np.array([1.0, 2, 4]), np.array([2.0, 1, 5]), np.array([1.0, 2, 1]))
        >>> abs(twice - counted) < 1e-12
        True
    """
    return float(pearson_of_rows(scores, truth, weight))


def pearson_of_rows(rows: Scores, truth: Scores, weight: Scores | None = None) -> np.ndarray:
    """Pearson correlation of each row of `[…, n]` with `truth` `[n]`; NaN for constant ones."""
    a, b = _numpy(rows), _numpy(truth)
    if a.shape[-1] == 0:
        return np.full(a.shape[:-1], np.nan)
    # Asked of the numbers themselves: the mean of equal ones may round.
    varies = (np.ptp(a, axis=-1) > 0) & (np.ptp(b) > 0)
    counts = None if weight is None else _numpy(weight)
    a = a - np.average(a, axis=-1, weights=counts)[..., None]
    b = b - np.average(b, weights=counts)
    if counts is not None:
        a, b = a * np.sqrt(counts), b * np.sqrt(counts)
    size = np.linalg.norm(a, axis=-1) * np.linalg.norm(b)
    return np.where(varies, a @ b / np.where(varies, size, 1.0), np.nan)


def spearman(scores: Scores, truth: Scores) -> float:
    """Rank correlation of two vectors `[n]`; NaN when one of them is constant."""
    from scipy.stats import rankdata

    return pearson(rankdata(_numpy(scores)), rankdata(_numpy(truth)))


def log_trend(influence: Scores, other: Scores) -> tuple[float, float] | None:
    """Slope and level of log influence over the log of another score, both positive `[n]`.

    None where the other is the same for all nodes.

    >>> [round(part, 6) for part in log_trend(np.array([3.0, 12, 27]), np.array([1.0, 2, 3]))]
    [2.0, 1.098612]
    """
    x, y = np.log(_numpy(other)), np.log(_numpy(influence))
    if len(np.unique(x)) < 2:
        return None
    slope, level = np.polyfit(x, y, 1)
    return float(slope), float(level)


def agreement(scores: Tensor, truth: Tensor) -> dict[str, float]:
    """Pearson, Spearman and top-1/3/10 % overlap of two score vectors `[n]`.

    Pearson depends mostly on a few hubs with large influence, so it is never reported alone.
    """
    a, b = _numpy(scores), _numpy(truth)
    if len(a) < 2:
        raise ValueError(f"agreement needs at least two nodes, got {len(a)}")
    return _metrics(a, b)


def evaluate(
    scores: Influence | Sequence[Influence],
    truth: Influence | Sequence[Influence],
    *,
    seen: Iterable[int] | Tensor | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare scores with the true influence, on the nodes that the method has not seen.

    If several scores are given (one per cycle of the cyclic splits), scores and truth are averaged first, as
    in the paper.

    Args:
        scores: A method's scores, or one per cycle.
        truth: The true influences, or one per cycle.
        seen: Nodes whose true influence the method used; they are excluded.
        resamples: Bootstrap resamples of the nodes, for the confidence intervals; 0 for none.
        confidence: Confidence of the intervals.
        seed: Seed of the resamples.

    Returns:
        One row per metric (`pearson`, `spearman`, `kendall`, `top_1%`, `top_3%`, `top_10%`), with
        columns `value`, `low` and `high`.

    Example:
        >>> import torch
        >>> truth = Influence(torch.arange(50.0), "exact")
        >>> found = Influence(torch.arange(50.0) ** 2, "nora")
        >>> float(evaluate(found, truth, resamples=0).loc["spearman", "value"])
        1.0
    """
    # What takes most of the time of importing SciPy is imported where it is used.
    from scipy.stats import kendalltau

    if resamples < 0 or not 0 < confidence < 1:
        raise ValueError("resamples must be ≥ 0 and confidence between 0 and 1")
    a, b = mean_scores(scores), mean_scores(truth)
    if len(a) != len(b):
        raise ValueError(f"cannot compare scores of {len(a)} and {len(b)} nodes")
    counted = ~(np.isnan(a) | np.isnan(b))
    if seen is not None:
        counted[node_ids(seen, len(a), "seen node").numpy()] = False
    a, b = a[counted], b[counted]
    if len(a) < 2:
        raise ValueError(f"evaluation needs at least two nodes that count, got {len(a)}")
    found = {**_metrics(a, b), "kendall": float(kendalltau(a, b)[0])}
    random = np.random.default_rng(seed)
    draws = pd.DataFrame(
        _metrics(a[picked], b[picked])
        for picked in (random.integers(len(a), size=len(a)) for _ in range(resamples))
    )
    if resamples:
        # Kendall's tau takes n log n with a large constant: a tenth of the resamples will do.
        draws["kendall"] = pd.Series(
            [
                kendalltau(a[picked], b[picked])[0]
                for picked in (
                    random.integers(len(a), size=len(a)) for _ in range(max(2, resamples // 10))
                )
            ],
            dtype=float,
        )
    order = ["pearson", "spearman", "kendall", *(_name(share) for share in SHARES)]
    tail = (1 - confidence) / 2
    return pd.DataFrame(
        {
            "value": [found[key] for key in order],
            "low": [draws[key].quantile(tail) if resamples else np.nan for key in order],
            "high": [draws[key].quantile(1 - tail) if resamples else np.nan for key in order],
        },
        index=pd.Index(order, name="metric"),
    )


def mean_scores(scores: Influence | Sequence[Influence]) -> np.ndarray:
    """The scores `[N]`, averaged over cycles if there are several."""
    several = list(scores) if isinstance(scores, Sequence) else [scores]
    if not all(isinstance(one, Influence) for one in several):
        raise TypeError("scores to compare must be a nora.Influence, or a list of them")
    if not several:
        raise ValueError("there are no scores to evaluate")
    if len({len(one) for one in several}) > 1:
        raise ValueError(
            f"scores of different graphs: {sorted({len(one) for one in several})} nodes"
        )
    return np.mean([_numpy(one.scores) for one in several], axis=0)


def _numpy(values: Scores) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=float)


def _name(share: float) -> str:
    return f"top_{round(100 * share)}%"


def _metrics(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    return {
        "pearson": pearson(a, b),
        "spearman": spearman(a, b),
        **{_name(share): overlap(a, b, share) for share in SHARES},
    }
