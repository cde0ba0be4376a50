"""Many removals in chunks that fit the memory, on several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

Answer = TypeVar("Answer")
# Chunks larger than this fall out of the processor's caches and gain nothing.
CHUNK_BYTES = 64 * 2**20


class Chunks:
    """Cuts removals into chunks that fit a memory budget, and adapts to the finished chunks.

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


def in_chunks(
    work: Callable[[Tensor], tuple[Answer, int]], cost: Tensor, memory: int, workers: int
) -> Iterator[tuple[Tensor, Answer]]:
    """Yield `(which, answer)` chunk by chunk, as they finish.

    Args:
        work: Answers some removals `which`, and returns the bytes that this took.
        cost: Estimate of the bytes each removal takes `[n]`; the costliest go first.
        memory: What the chunks in work may take together.
        workers: Threads; 1 for the calling one.
    """
    order = cost.argsort(descending=True, stable=True)
    chunks = Chunks(order, cost[order], min(memory // (2 * workers), CHUNK_BYTES))

    def one(which: Tensor, bound: float) -> tuple[Tensor, Answer]:
        answer, taken = work(which)
        chunks.learn(taken / max(bound, 1.0))
        return which, answer

    if workers == 1:
        yield from (one(*chunk) for chunk in chunks)
        return
    threads = torch.get_num_threads()
    running: deque[Future[tuple[Tensor, Answer]]] = deque()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for chunk in chunks:
            running.append(pool.submit(one, *chunk))
            if len(running) > workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        try:
            pool.shutdown(wait=True, cancel_futures=True)
        finally:
            torch.set_num_threads(threads)
