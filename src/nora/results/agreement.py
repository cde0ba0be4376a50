"""How well one set of scores agrees with another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from scipy import stats
from torch import Tensor

from nora.problem.removal import node_ids
from nora.results.influence import Influence

SHARES = (0.01, 0.03, 0.10)


def overlap(a: np.ndarray, b: np.ndarray, share: float) -> float:
    """Share of the top `share` of `b` that is also in the top of `a` (at least one node).

    >>> overlap(np.array([3.0, 2, 1, 0]), np.array([3.0, 1, 2, 0]), 0.5)
    0.5
    """
    k = max(1, round(share * len(a)))
    top_a = np.argsort(-a, kind="stable")[:k]
    top_b = np.argsort(-b, kind="stable")[:k]
    return len(np.intersect1d(top_a, top_b)) / k


def pearson(scores: Tensor, truth: Tensor) -> float:
    """Pearson correlation of two vectors `[n]`; NaN when one of them is constant."""
    return _pearson(_numpy(scores), _numpy(truth))


def agreement(scores: Tensor, truth: Tensor) -> dict[str, float]:
    """Pearson, Spearman and top-1/3/10 % overlap of two score vectors `[n]`.

    Pearson is ruled by the few hubs with large influence, so it is never given alone.
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
    """How well scores agree with the truth, on the nodes they have not seen.

    Several scores, one per cycle of the cyclic splits, are averaged first, and so is their truth:
    the protocol of the paper.

    Args:
        scores: A method's scores, or one per cycle.
        truth: The true influences, or one per cycle.
        seen: Nodes whose true influence the method was shown; they do not count.
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
    found = {**_metrics(a, b), "kendall": float(stats.kendalltau(a, b)[0])}
    random = np.random.default_rng(seed)
    draws = pd.DataFrame(
        _metrics(a[picked], b[picked])
        for picked in (random.integers(len(a), size=len(a)) for _ in range(resamples))
    )
    if resamples:
        # Kendall's tau takes n log n with a large constant: a tenth of the resamples will do.
        draws["kendall"] = pd.Series(
            [
                stats.kendalltau(a[picked], b[picked])[0]
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
    several = [scores] if isinstance(scores, Influence) else list(scores)
    if not several:
        raise ValueError("there are no scores to evaluate")
    if len({len(one) for one in several}) > 1:
        raise ValueError(
            f"scores of different graphs: {sorted({len(one) for one in several})} nodes"
        )
    return np.mean([_numpy(one.scores) for one in several], axis=0)


def _numpy(values: Tensor) -> np.ndarray:
    return values.detach().cpu().double().numpy()


def _name(share: float) -> str:
    return f"top_{round(100 * share)}%"


def _metrics(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    return {
        "pearson": _pearson(a, b),
        "spearman": _spearman(a, b),
        **{_name(share): overlap(a, b, share) for share in SHARES},
    }


def _pearson(a: np.ndarray, b: np.ndarray) -> float:
    if len(a) == 0 or np.ptp(a) == 0 or np.ptp(b) == 0:  # the mean of equal numbers may round
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    return _pearson(stats.rankdata(a), stats.rankdata(b))
