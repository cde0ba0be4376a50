"""How far estimates are off: measured on a few removals that are done exactly as well.

An estimate is off by the draws of its last step, whose variance it tells itself, and by what went before:
draws of inner steps, and absolute values of sums that they have moved, which come out too large. The
second part is taken to be in proportion to the influence and to the tolerance. How large both are
together, on this model and graph, is measured:

    stderr(r) = c · sqrt(σ(r)² + (tolerance · F(r))²)

with the `c` for which 95 % of these removals are within 1.96 standard errors of the truth, wherever the error
comes from. About as many of all nodes then are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.engine.changed import Removals
from nora.engine.engine import Engine, summed_in
from nora.results.agreement import pearson, spearman
from nora.seeds import shuffled

# One node in so many is done exactly as well, within these bounds.
ONE_IN, FEWEST, MOST = 50, 10, 60
# This share of them is within so many standard errors: a single outlier does not widen everybody's.
COVERED, TWO_SIDED = 0.95, 1.96


def exactly(engine: Engine, removals: Removals, memory: int, workers: int | None) -> Tensor:
    """The influences of some removals `[n]`, in double precision."""
    found = torch.zeros(len(removals), dtype=torch.double)
    for at, values in engine.in_chunks(engine.influences, removals, memory, workers):
        found[at] = values.cpu().double()
    return found


@dataclass(frozen=True, eq=False)
class Calibration:
    """Some removals with their true influences and their estimates.

    Attributes:
        which: Which of all removals they are `[n]`.
        truth: Their influences `[n]`.
        found: What `Engine.estimates` says of them `[n, 2]`.
        tolerance: The estimates' tolerance.
        dtype: The precision of scores.
    """

    which: Tensor
    truth: Tensor
    found: Tensor
    tolerance: float
    dtype: torch.dtype

    @staticmethod
    def of(
        engine: Engine, pruned: Engine, removals: Removals, memory: int, workers: int | None
    ) -> Calibration:
        """Do some of the removals both ways.

        Args:
            engine: The exact engine.
            pruned: The engine that estimates.
            removals: All that are asked for.
            memory: Bytes that chunks in work may take.
            workers: Threads.
        """
        assert pruned.sampling is not None
        count = min(max(len(removals) // ONE_IN, FEWEST), MOST, len(removals))
        which = shuffled(len(removals), pruned.sampling.seed)[:count]
        some = removals.picked(which)
        truth = exactly(engine, some, memory, workers)
        found = torch.zeros(count, 2, dtype=torch.double)
        for at, values in pruned.in_chunks(pruned.estimates, some, memory, workers):
            found[at] = values.cpu()
        dtype = summed_in(engine.before.dtype)
        return Calibration(which, truth.to(dtype), found, pruned.sampling.tolerance, dtype)

    def _rough(self, found: Tensor) -> Tensor:
        """What errors are taken to be in proportion to `[n]`."""
        return (found[:, 1].square() + (self.tolerance * found[:, 0]).square()).sqrt()

    @property
    def factor(self) -> float:
        """How much larger errors are than they are told to be; 1 where there is nothing to go by."""
        rough = self._rough(self.found)
        seen = rough > 0
        if not bool(seen.any()):
            return 1.0
        off = ((self.found[seen, 0] - self.truth[seen]) / rough[seen]).abs()
        return float(off.quantile(COVERED, interpolation="higher")) / TWO_SIDED

    def scored(
        self, found: Tensor, engine: Engine, removals: Removals, memory: int, workers: int | None
    ) -> tuple[Tensor, Tensor]:
        """Scores and their standard errors `[n]` each.

        What draws have moved may be beyond what a model bears (a root, a logarithm): estimates that are no
        numbers are replaced by the truth.

        Args:
            found: What `Engine.estimates` says `[n, 2]`.
            engine: The exact engine.
            removals: Of what `[n]`.
            memory: Bytes that chunks in work may take.
            workers: Threads.
        """
        found = found.cpu()
        scores = found[:, 0].to(self.dtype)
        errors = (self.factor * self._rough(found)).to(self.dtype)
        lost = (~(scores.isfinite() & errors.isfinite())).nonzero().flatten()
        if len(lost):
            truth = exactly(engine, removals.picked(lost), memory, workers)
            scores[lost], errors[lost] = truth.to(self.dtype), 0.0
        return scores, errors

    def facts(self, removed: str = "nodes") -> dict[str, Any]:
        """What is told of it, JSON-able; `removed` is what removals are of."""
        scores, truth = self.found[:, 0].numpy(), self.truth.numpy()
        scores, truth = (one[np.isfinite(scores)] for one in (scores, truth))
        told: dict[str, Any] = {f"exact_{removed}": len(self.truth), "error_factor": self.factor}
        seen = truth > 0
        if seen.sum() > 1:
            ratio = scores[seen] / truth[seen]
            told |= {
                "pearson": pearson(scores, truth),
                "spearman": spearman(scores, truth),
                "median_error": float(np.median(np.abs(ratio - 1))),
                "median_ratio": float(np.median(ratio)),
            }
        return {key: value for key, value in told.items() if value == value}
