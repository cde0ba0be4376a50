"""The most influential edges, as the page lists and draws them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class RankedEdges:
    """Edges by influence, the most influential first, and none without any.

    Attributes:
        source: One end of each `[k]`.
        target: The other end `[k]`.
        influence: The summed change of all predictions without it `[k]`.
        flips: How many predictions go to another class without it `[k]`.
        scored: How many edges were removed.
        of: How many there are.
        directed: Whether edges go one way.
    """

    source: np.ndarray
    target: np.ndarray
    influence: np.ndarray
    flips: np.ndarray
    scored: int
    of: int
    directed: bool
