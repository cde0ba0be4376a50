"""How far estimates are off: measured on a few removals that are done exactly as well.

An estimate is off by the draws of its last op, whose variance it tells itself, and by what went before:
draws of inner ops, and absolute values of sums that they have moved, which come out too large. Both are
measured on this model and graph, on a sample of removals that is stratified by their cost, so that hubs
are as well represented as leaves:

    F(r) = estimate(r) / bias(r),    log bias(r) = a + b · log estimate(r)
    stderr(r) = c · sqrt(σ(r)² + (tolerance · max(estimate(r), smallest of the sample))²) / bias(r)

with the line `a, b` that fits the sample, for removals of which rows before the last messages were sampled
(others are unbiased), and the `c` for which the root mean square of errors in standard errors is 1, or more
where one of them would else be beyond four. It is widened by Student's distribution, as the sample is small,
and is not smaller for the larger half of the sample, mostly hubs, than that half alone shows. A removal of
which all rows were computed is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.engine.engine import Engine, summed_in
from nora.engine.exec.tally import EXACTLY, INNER
from nora.graph.edit_batch import EditBatch
from nora.results.agreement import pearson, spearman
from nora.seeds import shuffled

# One removal in so many is done exactly as well, within these bounds.
ONE_IN, FEWEST, MOST = 25, 10, 60
# Strata by expected cost (from, to, share of the sample): the costliest hundredth, the next tenth, the rest.
STRATA = ((0.0, 0.01, 0.2), (0.01, 0.1, 0.3), (0.1, 1.0, 0.5))
# Normal errors are within so many standard errors, and none that was compared is beyond so many.
COVERED, TWO_SIDED, FARTHEST = 0.975, 1.96, 4
# The bias is a line where there are so many to fit it to; its slope is drawn to 0 as by so many others, and
# ratios beyond these quantiles count as they do.
ENOUGH, OTHERS, QUANTILES = 5, 5, (0.05, 0.95)
# Estimates whose median error is so many times the tolerance are not what was asked for.
DISAGREES = 1.5


def exactly(engine: Engine, removals: EditBatch, memory: int, workers: int | None) -> Tensor:
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
        found: What `Engine.estimates` says of them `[n, 3]`.
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
        engine: Engine, pruned: Engine, removals: EditBatch, memory: int, workers: int | None
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
        which = _stratified(engine.cost_of(removals), pruned.sampling.seed)
        some = removals.pick(which)
        truth = exactly(engine, some, memory, workers)
        found = torch.zeros(len(which), 3, dtype=torch.double)
        for at, values in pruned.in_chunks(pruned.estimates, some, memory, workers):
            found[at] = values.cpu()
        dtype = summed_in(engine.before.dtype)
        return Calibration(which, truth.to(dtype), found, pruned.sampling.tolerance, dtype)

    @cached_property
    def _smallest(self) -> float:
        """The smallest estimate that was compared: of smaller ones less is known than in proportion."""
        seen = self.found[self.found[:, 0] > 0, 0]
        return float(seen.min()) if len(seen) else 0.0

    @cached_property
    def _line(self) -> tuple[float, float, float, float]:
        """`a`, `b` of the bias, and between which logarithms of estimates it was seen."""
        estimate, truth = self.found[:, 0], self.truth.double()
        seen = (self.found[:, 2] == INNER) & (estimate > 0) & (truth > 0) & estimate.isfinite()
        if int(seen.sum()) < ENOUGH:
            return 0.0, 0.0, 0.0, 0.0
        x, y = estimate[seen].log(), (estimate[seen] / truth[seen]).log()
        y = y.clamp(*(float(y.quantile(q)) for q in QUANTILES))
        apart = x - x.mean()
        slope = (apart * y).sum() / ((1 + OTHERS / len(x)) * apart.square().sum()).clamp(min=1e-9)
        return float(y.mean() - slope * x.mean()), float(slope), float(x.min()), float(x.max())

    def _unbiased(self, found: Tensor) -> tuple[Tensor, Tensor]:
        """Estimates without their bias, and what their errors are in proportion to `[n]` each."""
        a, b, low, high = self._line
        bias = (a + b * found[:, 0].log().clamp(low, high)).exp()
        bias = torch.where(found[:, 2] == INNER, bias, 1.0)
        size = self.tolerance * found[:, 0].clamp(min=self._smallest)
        rough = (found[:, 1].square() + size.square()).sqrt()
        return found[:, 0] / bias, torch.where(found[:, 2] == EXACTLY, 0.0, rough / bias)

    @cached_property
    def _factors(self) -> tuple[float, float, float]:
        """Factors of small and of large estimates' errors, and where large ones begin."""
        scores, rough = self._unbiased(self.found)
        seen = (rough > 0) & scores.isfinite()
        if not bool(seen.any()):
            return 1.0, 1.0, 0.0
        off = ((scores[seen] - self.truth[seen].double()) / rough[seen]).abs()
        size = scores[seen]
        large = float(size.median())
        factor = _factor(off)
        return factor, max(factor, _factor(off[size >= large])), large

    @property
    def factor(self) -> float:
        """How much larger errors are than they are told to be; 1 where there is nothing to go by."""
        return self._factors[0]

    def scored(
        self, found: Tensor, engine: Engine, removals: EditBatch, memory: int, workers: int | None
    ) -> tuple[Tensor, Tensor]:
        """Scores and their standard errors `[n]` each.

        What draws have moved may be beyond what a model bears (a root, a logarithm): estimates that are no
        numbers are replaced by the truth.

        Args:
            found: What `Engine.estimates` says `[n, 3]`.
            engine: The exact engine.
            removals: Of what `[n]`.
            memory: Bytes that chunks in work may take.
            workers: Threads.
        """
        scores, rough = (part.to(self.dtype) for part in self._unbiased(found.cpu()))
        small, large, size = self._factors
        errors = torch.where(scores >= size, large, small) * rough
        lost = (~(scores.isfinite() & errors.isfinite())).nonzero().flatten()
        if len(lost):
            truth = exactly(engine, removals.pick(lost), memory, workers)
            scores[lost], errors[lost] = truth.to(self.dtype), 0.0
        return scores, errors

    def facts(self, removed: str = "nodes") -> dict[str, Any]:
        """What is reported of it, JSON-able; `removed` is what removals are of."""
        scores, truth = self._unbiased(self.found)[0].numpy(), self.truth.double().numpy()
        raw = self.found[:, 0].numpy()
        scores, raw, truth = (one[np.isfinite(scores)] for one in (scores, raw, truth))
        told: dict[str, Any] = {f"exact_{removed}": len(self.truth), "error_factor": self.factor}
        seen = truth > 0
        if seen.sum() > 1:
            told |= {
                "pearson": pearson(scores, truth),
                "spearman": spearman(scores, truth),
                "median_error": float(np.median(np.abs(scores[seen] / truth[seen] - 1))),
                "median_ratio": float(np.median(raw[seen] / truth[seen])),
            }
        return {key: value for key, value in told.items() if value == value}

    def disagreement(self, removed: str = "nodes") -> str:
        """What to warn of where estimates are further off than the tolerance; empty where they are not."""
        error = self.facts(removed).get("median_error", 0.0)
        if error <= DISAGREES * self.tolerance:
            return ""
        return (
            f"estimates are further off than the tolerance of {self.tolerance:g}: on {len(self.truth)} "
            f"{removed} that were also computed exactly, the median relative error is {100 * error:.0f} %. "
            "Standard errors account for it; for better scores use a smaller tolerance, or tolerance=0"
        )


def _factor(off: Tensor) -> float:
    """The factor by which told errors are multiplied, from the true ones in told ones `[n]`."""
    from scipy.stats import t as student  # slow to load

    usual = (
        float(off.square().mean().sqrt()) * student.ppf(COVERED, max(len(off) - 2, 1)) / TWO_SIDED
    )
    return float(max(usual, float(off.max()) / FARTHEST))


def _stratified(cost: Tensor, seed: int) -> Tensor:
    """Which removals are done exactly as well, by strata of their cost `[n]`."""
    count = min(max(len(cost) // ONE_IN, FEWEST), MOST, len(cost))
    order = cost.argsort(descending=True, stable=True)
    parts: list[Tensor] = []
    for low, high, share in STRATA:
        stratum = order[round(low * len(cost)) : round(high * len(cost))]
        left = count - sum(map(len, parts))
        wanted = left if high == 1 else min(round(share * count), left)
        parts.append(stratum[shuffled(len(stratum), seed)[:wanted]])
    return torch.cat(parts)
