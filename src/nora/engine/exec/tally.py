"""Costs of chunks of removals, and how much of them was sampled."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Tally:
    """The memory of a chunk, its full passes, and the planned variance of its samples.

    Attributes:
        bytes: Memory of all changed rows on the way.
        full_passes: Edits that broke a guard, and got a full pass each.
        planned: The variance that each removal's draws were planned with, in units of importance, float64
            `[c]`: 0 where all rows were computed; None where none are drawn.
    """

    bytes: int = 0
    full_passes: int = 0
    planned: Tensor | None = None
