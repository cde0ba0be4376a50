"""Time a sample of removals, to predict the time of all, and compare estimates with exact results on it.

Costs differ by orders of magnitude between hubs and leaves, so the sample is stratified by expected cost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from nora.engine.engine import Engine
from nora.engine.estimate.calibration import exactly
from nora.graph.edit_batch import EditBatch
from nora.results.agreement import pearson, spearman
from nora.seeds import shuffled

# Strata by expected cost (from, to, sampled): the costliest hundredth, the next tenth, the rest.
STRATA = ((0.0, 0.01, 8), (0.01, 0.1, 24), (0.1, 1.0, 96))
# The sample grows by these shares as long as there is time.
ROUNDS = (1 / 8, 1 / 4, 1 / 2, 1.0)
# Few removals mostly show what starting costs: more are timed, until they take so long, or a share of the
# time that there is.
ENOUGH_SECONDS, ENOUGH_SHARE = 0.5, 0.05
# Least Spearman correlation and largest median relative error of an estimate that is as good as usual, and of
# one that is still taken before another whose agreement is not known. Pearson's correlation is ruled by the
# hubs, and may be 0.9998 where half of the scores are off by a quarter.
WORTHWHILE, ENOUGH = (0.95, 0.2), (0.8, 0.5)
# The median error of a stratum counts where it is that of so many removals.
FEWEST = 4


@dataclass(frozen=True)
class Agreement:
    """Agreement of an estimate with the truth on the sample, weighted to represent all removals.

    Attributes:
        pearson, spearman: Correlations; Pearson's is ruled by the hubs.
        error: Median relative error, of all or of the stratum where it is largest.
    """

    pearson: float
    spearman: float
    error: float

    @property
    def worthwhile(self) -> bool:
        """Whether the estimate is as good as it usually is."""
        return self.spearman >= WORTHWHILE[0] and self.error <= WORTHWHILE[1]

    @property
    def enough(self) -> bool:
        """Whether the estimate is better than one of unknown agreement."""
        return self.spearman >= ENOUGH[0] and self.error <= ENOUGH[1]


class CostSample:
    """A stratified sample of removals and their true influences.

    Args:
        engine: The exact engine.
        removals: All removals.
        memory: Bytes that chunks in work may take.
        workers: Threads.
        seed: Seed of the sample.
        seconds: The sample is made smaller where it would take longer, but never empty.

    Attributes:
        truth: The sample's influences.
        seconds: What all removals would take exactly.
        spent: What the sample itself took.
    """

    def __init__(
        self,
        engine: Engine,
        edits: EditBatch,
        memory: int,
        workers: int | None = None,
        seed: int = 0,
        seconds: float = float("inf"),
    ) -> None:
        self._removals, self._memory, self._workers = edits, memory, workers
        self._enough = min(ENOUGH_SECONDS, ENOUGH_SHARE * seconds)
        order = engine.cost_of(edits).argsort(descending=True, stable=True)
        self._strata: list[Tensor] = []
        most: list[int] = []
        for low, high, count in STRATA:
            stratum = order[round(low * len(order)) : round(high * len(order))]
            if len(stratum):
                self._strata.append(stratum[shuffled(len(stratum), seed)])
                most.append(min(count, len(stratum)))
        self._scores(engine, self._strata[-1][:1])  # compiles what is compiled, starts threads
        begin = time.perf_counter()
        self._sampled = [0] * len(most)
        parts: list[list[np.ndarray]] = [[] for _ in most]
        took, rounds = [0.0] * len(most), 0
        for share in ROUNDS:
            round_began = time.perf_counter()
            rounds += 1
            for at, stratum in enumerate(self._strata):
                wanted = max(1, round(share * most[at]))
                more = stratum[self._sampled[at] : wanted]
                if len(more):
                    start = time.perf_counter()
                    parts[at].append(self._scores(engine, more))
                    took[at] += time.perf_counter() - start
                    self._sampled[at] = wanted
            # The next round takes about twice as long.
            now = time.perf_counter()
            if now - begin + 2 * (now - round_began) > seconds:
                break
        self.truth = np.concatenate([part for stratum in parts for part in stratum])
        self.seconds = sum(
            self._for_all(engine, at, took[at], count, rounds)
            for at, count in enumerate(self._sampled)
        )
        self.spent = time.perf_counter() - begin

    @property
    def weight(self) -> np.ndarray:
        """How many removals each sampled one represents."""
        each = [len(s) / count for s, count in zip(self._strata, self._sampled, strict=True)]
        return np.repeat(each, self._sampled)

    def tried(self, engine: Engine) -> tuple[float, np.ndarray]:
        """The predicted time of all removals by another engine, and the sample's scores by it."""
        seconds, found = 0.0, []
        for at, count in enumerate(self._sampled):
            start = time.perf_counter()
            found.append(self._scores(engine, self._strata[at][:count]))
            seconds += self._for_all(engine, at, time.perf_counter() - start, count)
        return seconds, np.concatenate(found)

    def agreement(self, scores: np.ndarray) -> Agreement:
        """How well the sample's scores agree with its truth."""
        often = np.repeat(
            np.arange(len(self.truth)), np.maximum(1, np.rint(self.weight).astype(int))
        )
        strata = np.split(np.arange(len(self.truth)), np.cumsum(self._sampled)[:-1])
        seen = [part[self.truth[part] > 0] for part in (often, *strata)]
        off = [np.abs(scores[part] / self.truth[part] - 1) for part in seen]
        return Agreement(
            pearson(scores, self.truth, self.weight),
            spearman(scores[often], self.truth[often]),
            max((float(np.median(part)) for part in off if len(part) >= FEWEST), default=0.0),
        )

    def _for_all(self, engine: Engine, at: int, spent: float, count: int, rounds: int = 1) -> float:
        """Seconds for a whole stratum, from those of some of its removals, in this many calls."""
        stratum = self._strata[at]
        while spent < rounds * self._enough and count < len(stratum):
            # As many as should take long enough, but not all at once: the first ones tell little.
            needed = round(1.2 * self._enough / max(spent, 1e-6) * count)
            count = min(max(2 * count, min(needed, 8 * count)), len(stratum))
            start = time.perf_counter()
            self._scores(engine, stratum[:count])
            spent, rounds = time.perf_counter() - start, 1
        return spent / count * len(stratum)

    def _scores(self, engine: Engine, which: Tensor) -> np.ndarray:
        return exactly(engine, self._removals.pick(which), self._memory, self._workers).numpy()
