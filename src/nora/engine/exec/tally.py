"""Costs of chunks of removals, and how their rows were sampled."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# All rows of a removal were computed; some of the last messages' rows were sampled; or of earlier ones.
EXACTLY, LAST, INNER = 0, 1, 2


@dataclass
class Tally:
    """What a chunk took, and how it was sampled.

    Attributes:
        bytes: Memory of all changed rows on the way.
        full_passes: Edits that broke a guard, and got a full pass each.
        sampled: How each removal was sampled: `EXACTLY`, `LAST` or `INNER` `[c]`; None where none was.
    """

    bytes: int = 0
    full_passes: int = 0
    sampled: Tensor | None = None
