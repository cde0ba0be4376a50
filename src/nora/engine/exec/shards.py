"""Cut many removals into shards, and give the shards to workers.

The costliest removals go first, so that no worker waits for a hub at the end. The time of a removal is
estimated in bytes; the times of finished shards give the bytes per second, and shards grow until they take
about as long as wanted. They shrink again towards the end, so that all finish at the same time. The
results do not depend on any of this: every removal is computed by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import TypeVar

import torch
from torch import Tensor

Answer = TypeVar("Answer")
# What a shard should take; shorter ones are mostly sent around, longer ones are lost with a worker.
SECONDS = 15.0
# Before anything is known, every worker's share of the work is cut into so many.
FIRST_PARTS = 32
# Fewer small removals are not worth sending.
FEWEST = 16
# How often it is looked whether there are more workers.
LOOK_SECONDS = 2.0
# How much longer than the one before a shard may be.
GROWTH = 4.0


class Schedule:
    """Cuts removals into shards, and adapts to the times of finished ones.

    Args:
        cost: Cost of each removal, in any unit `[n]`.
        workers: How many shards are worked on at a time.
        seconds: Target time of a shard.
    """

    def __init__(self, cost: Tensor, workers: int, seconds: float = SECONDS) -> None:
        cost = cost.double().clamp(min=1e-9)
        self.order = cost.argsort(descending=True, stable=True)
        self._passed = cost[self.order].cumsum(0)
        self.workers, self.seconds = max(workers, 1), seconds
        total = float(self._passed[-1]) if len(cost) else 0.0
        self._size = total / (self.workers * FIRST_PARTS)

    def learn(self, cost: float, seconds: float) -> None:
        """Store the time of a finished shard with this estimated cost."""
        fits = cost * self.seconds / max(seconds, 1e-3)
        self._size = min(fits, GROWTH * max(self._size, cost))

    def __iter__(self) -> Iterator[Tensor]:
        start = 0
        while start < len(self.order):
            done = float(self._passed[start - 1]) if start else 0.0
            left = float(self._passed[-1]) - done
            size = min(self._size, left / (2 * self.workers))
            end = int(torch.searchsorted(self._passed, done + size, right=True))
            most = int(torch.searchsorted(self._passed, done + self._size, right=True))
            end = max(end, min(start + FEWEST, most), start + 1)
            yield self.order[start:end]
            start = end


class MissingError(RuntimeError):
    """Some removals always kill their worker process.

    Attributes:
        which: Which ones.
    """

    def __init__(self, which: Tensor, reason: str) -> None:
        super().__init__(reason)
        self.which = which


def in_shards(
    submit: Callable[[Tensor, bool], Future[Answer]],
    shards: Iterable[Tensor],
    at_once: Callable[[], int],
    lost: tuple[type[BaseException], ...] = (),
) -> Iterator[tuple[Tensor, Answer]]:
    """Yield `(which, answer)` as shards finish, with so many under way at a time.

    Args:
        submit: Begins the work on a shard; the second argument says whether it has failed before.
        shards: What is to be done, the first first.
        at_once: How many are under way at most; asked again and again, since workers may come.
        lost: What says that a worker has died over a shard. The shard is then halved, and a single removal
            that ends its worker again is left out.

    Raises:
        MissingError: After all others are done, when removals were left out.
    """
    waiting: deque[tuple[Tensor, bool]] = deque()
    running: dict[Future[Answer], tuple[Tensor, bool]] = {}
    missing: list[Tensor] = []
    reason = ""
    coming = iter(shards)
    try:
        while True:
            while len(running) < at_once():
                if waiting:
                    which, again = waiting.popleft()
                else:
                    which, again = next(coming, torch.empty(0)), False
                    if not len(which):
                        break
                running[submit(which, again)] = which, again
            if not running:
                break
            done, _ = wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                which, again = running.pop(future)
                try:
                    answer = future.result()
                except BrokenExecutor:
                    raise
                except lost as error:
                    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                    if len(which) > 1:
                        waiting += [(half, True) for half in which.split((len(which) + 1) // 2)]
                    elif not again:
                        waiting.append((which, True))
                    else:
                        missing.append(which)
                    continue
                yield which, answer
    finally:
        for future in running:
            future.cancel()
    if missing:
        raise MissingError(torch.cat(missing), reason)
