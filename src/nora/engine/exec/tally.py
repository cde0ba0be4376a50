"""What chunks of removals take, and what they leave out."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# All rows of a removal were computed; some of the last messages' rows were sampled; or of earlier ones.
EXACTLY, LAST, INNER = 0, 1, 2


@dataclass
class Tally:
    """What a chunk took, and what pruning left out.

    Attributes:
        bytes: Memory of all changed rows on the way.
        mass: L1 mass of message changes, in typical messages.
        pruned: The part of it that was not propagated.
        full_passes: Edits that broke a guard, and got a full pass each.
        sampled: How each removal was sampled: `EXACTLY`, `LAST` or `INNER` `[c]`; None where none was.
    """

    bytes: int = 0
    mass: float = 0.0
    pruned: float = 0.0
    full_passes: int = 0
    sampled: Tensor | None = None

    @property
    def share(self) -> float:
        """Share of the mass that was not propagated."""
        return self.pruned / self.mass if self.mass > 0 else 0.0
