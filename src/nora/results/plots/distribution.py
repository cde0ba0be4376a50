"""How influence is spread over nodes, and how far other rankings agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nora.results.agreement import SHARES, in_common, log_trend, pearson, spearman
from nora.results.influence import Influence
from nora.results.plots.style import notable

CURVE_POINTS = 160
# Running a model twice may change its predictions so much in all.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Concentration:
    """How unevenly influence is spread.

    Attributes:
        shares: `(share of nodes, how many nodes, share of influence)` of the first nodes.
        half: How many of the first nodes carry half of all influence.
        curve: Points `(share of nodes, share of influence)` from the first node to the last.
    """

    shares: tuple[tuple[float, int, float], ...]
    half: int
    curve: tuple[tuple[float, float], ...]


def concentration(influence: np.ndarray) -> Concentration | None:
    """Lorenz curve of the scores `[n]`, most influential first; None where none is above rounding.

    Example:
        >>> found = concentration(np.array([6.0, 2.0, 1.0, 1.0]))
        >>> found.half, found.curve[1]
        (1, (0.25, 0.6))
    """
    values = np.sort(influence[np.isfinite(influence)])[::-1]
    if not len(values) or values[0] < ROUNDING:
        return None
    carried = np.concatenate([[0.0], values.cumsum() / values.sum()])
    number = len(values)
    counts = [max(1, round(share * number)) for share in SHARES]
    # The curve bends at its beginning, so most points go there.
    bend = np.geomspace(1, number, CURVE_POINTS // 2)
    even = np.linspace(0, number, CURVE_POINTS // 2)
    where = np.unique(np.rint(np.concatenate([[0], bend, even])).astype(int))
    return Concentration(
        shares=tuple(
            (share, k, float(carried[k])) for share, k in zip(SHARES, counts, strict=True)
        ),
        half=int(np.searchsorted(carried, 0.5 - 1e-12)),
        curve=tuple((round(k / number, 5), round(float(carried[k]), 5)) for k in where.tolist()),
    )


@dataclass(frozen=True)
class ScoreAgreement:
    """Agreement of another score per node with influence.

    Attributes:
        spearman: Rank correlation; NaN where one is constant.
        pearson: Linear correlation; NaN where one is constant.
        shared: How many of the first `first` nodes both have in common.
        first: Ten, or all nodes where there are fewer.
        notable: Nodes worth naming: the first ones and those the other explains worst.
        trend: Slope and level of log influence over the log of the other; None without any.
    """

    spearman: float
    pearson: float
    shared: int
    first: int
    notable: tuple[int, ...]
    trend: tuple[float, float] | None


def compare(influence: np.ndarray, other: np.ndarray) -> ScoreAgreement | None:
    """Compare scores `[N]` with another score per node; None where fewer than two have both."""
    both = np.flatnonzero(np.isfinite(influence) & np.isfinite(other))
    if len(both) < 2:
        return None
    a, b = influence[both], other[both]
    first = min(10, len(both))
    seen = (a > 0) & (b > 0)
    frame = pd.DataFrame({"influence": a[seen], "degree": b[seen]}, index=both[seen])
    return ScoreAgreement(
        spearman=spearman(a, b),
        pearson=pearson(a, b),
        shared=in_common(a, b, first),
        first=first,
        notable=tuple(int(node) for node in notable(frame)) if len(frame) > 1 else (),
        trend=log_trend(a[seen], b[seen]),
    )


def score_agreement(main: Influence, other: Influence) -> ScoreAgreement | None:
    """The same for two sets of scores."""
    return compare(main.scores.detach().cpu().double().numpy(), other.scores.cpu().double().numpy())
