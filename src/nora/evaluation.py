"""How well one set of scores agrees with another."""

from __future__ import annotations

import numpy as np
from scipy import stats
from torch import Tensor


def overlap(a: np.ndarray, b: np.ndarray, share: float) -> float:
    """Share of the top `share` of `b` that is also in the top of `a` (at least one node).

    >>> overlap(np.array([3.0, 2, 1, 0]), np.array([3.0, 1, 2, 0]), 0.5)
    0.5
    """
    k = max(1, round(share * len(a)))
    top_a = np.argsort(-a, kind="stable")[:k]
    top_b = np.argsort(-b, kind="stable")[:k]
    return len(np.intersect1d(top_a, top_b)) / k


def agreement(scores: Tensor, truth: Tensor) -> dict[str, float]:
    """Pearson, Spearman and top-1/3/10 % overlap of two score vectors `[n]`.

    Pearson is ruled by the few hubs with large influence, so it is never given alone.
    """
    a = scores.detach().cpu().double().numpy()
    b = truth.detach().cpu().double().numpy()
    if len(a) < 2:
        raise ValueError(f"agreement needs at least two nodes, got {len(a)}")
    return {
        "pearson": float(stats.pearsonr(a, b)[0]),
        "spearman": float(stats.spearmanr(a, b)[0]),
        **{f"top_{round(100 * share)}%": overlap(a, b, share) for share in (0.01, 0.03, 0.10)},
    }
