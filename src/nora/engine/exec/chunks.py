"""Many removals in chunks that fit the memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor


class Chunks:
    """Cuts removals into chunks that fit a budget, learning from the chunks that are done.

    The cost of a removal is known only as an estimate, which is far too high where balls of
    neighbours overlap. Chunks start from the estimate and grow, at most twofold a time, as long as what
    the last ones really took says that there is room.

    Args:
        which: The removals, the costliest first.
        bound: Estimate of the bytes each takes.
        budget: Bytes a chunk may take.
    """

    def __init__(self, which: Tensor, bound: Tensor, budget: int) -> None:
        self.which, self.bound, self.budget = which, bound, budget
        self._shares: deque[float] = deque(maxlen=8)

    def learn(self, share: float) -> None:
        """Note which share of its bound a finished chunk took."""
        self._shares.append(share)

    def __iter__(self) -> Iterator[tuple[Tensor, float]]:
        start, size = 0, len(self.which)
        while start < len(self.which):
            share = min(1.0, 1.5 * max(self._shares, default=1.0))
            ahead = self.bound[start : start + 2 * size].cumsum(0)
            size = max(1, int(torch.searchsorted(ahead * share, float(self.budget), right=True)))
            yield self.which[start : start + size], float(ahead[min(size, len(ahead)) - 1])
            start += size
