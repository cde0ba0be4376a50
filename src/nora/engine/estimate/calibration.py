"""Estimates with standard errors that were measured, on removals that are done exactly as well.

An estimate `E(r)` is off for three reasons. The size of each is known without the truth, but for a factor:

- the draws of the last op, whose variance `σ²` the drawn rows show;
- rows of any op that were not drawn, which nothing drawn shows. What is known of them is the variance `V`
  that the draws were planned with, in units of importance (`sampling.py`). Relative to `E` it is large where
  importance is far above what changes: where changes cancel, or a few rows decide;
- activations, and absolute values of sums that draws have moved, which come out too large: `tolerance · E`.

How far, on this model and graph, is measured on a sample of removals, stratified by their cost, so that hubs
are as well represented as leaves. Each is done exactly once and estimated `SEEDS` times: an estimate is many
times cheaper, and each shows an error of its own. A removal's errors are those of the sample's nearest in
size:

    F(r) = E(r) / bias(r)
    rough(r)² = σ(r)² + (tolerance · max(E(r), smallest of sample))² + unit² · V(r)
    stderr(r) = spread(r) · rough(r) / bias(r)

with `unit` the median of `tolerance · E / √V` in the sample, which brings importance to the size of the
influence, and `bias` the mean ratio of estimate to truth among the `NEAREST` of the sample. `spread²` is the
mean square of `errors / rough` among the same and `MODERATING` more, which are taken to be as the whole
sample is on average: twenty removals seldom contain one of a tail, sixty more often (a moderated variance,
Smyth 2004). It is multiplied by `n / (n − 2)`, `n` of them being near: the variance of Student's t, as the
scale is estimated, too.

A removal of which all rows were computed is exact, and so are the `FIRST` ones: those that estimates put
first are computed, until the first ones all are.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.engine.engine import Engine, summed_in
from nora.graph.edit_batch import EditBatch
from nora.results.agreement import pearson, spearman
from nora.seeds import shuffled
from nora.stacklevel import warn

# One removal in so many is done exactly as well, within these bounds.
ONE_IN, FEWEST, MOST = 25, 10, 60
# Strata by expected cost (from, to, share of the sample): the costliest hundredth, the next tenth, the rest.
STRATA = ((0.0, 0.01, 0.15), (0.01, 0.1, 0.25), (0.1, 1.0, 0.6))
# Removals of which nothing is sampled show no error: others are taken, out of so many times the sample.
TRIED = 2
# Estimates of each of the sample.
SEEDS = 4
# How many of the sample are near, and how few tell nothing of bias.
NEAREST, ENOUGH = 20, 5
# As many more that are as far off as all of the sample are on average.
MODERATING = 10
# Ratios beyond these quantiles of the near ones count as they do.
QUANTILES = (0.1, 0.9)
# No spread is smaller.
SMALLEST = 1e-6
# How many of the first are exact, and how many of the largest estimates wait for that.
FIRST, WAITING = 20, 60
# Estimates whose median error is so many times the tolerance are not what was asked for.
DISAGREES = 1.5


def exactly(engine: Engine, edits: EditBatch, memory: int, workers: int | None) -> Tensor:
    """The influences of some removals `[n]`, in double precision."""
    found = torch.zeros(len(edits), dtype=torch.double)
    for at, values in engine.in_chunks(engine.influences, edits, memory, workers):
        found[at] = values.cpu().double()
    return found


def estimated(
    engine: Engine,
    pruned: Engine,
    edits: EditBatch,
    memory: int,
    workers: int | None,
    removed: str = "nodes",
) -> Generator[tuple[Tensor, Tensor, Tensor], None, dict[str, Any]]:
    """Yield `(which, scores, standard errors)`, the sample first and the first ones last.

    Returns what is reported of the estimates. Where they are further off than the tolerance, it warns.

    Args:
        engine: The exact engine.
        pruned: The engine that estimates.
        removals: All that are asked for.
        memory: Bytes that chunks in work may take.
        workers: Threads.
        removed: What removals are of, in messages.
    """
    calibration = Calibration.of(engine, pruned, edits, memory, workers)
    if disagreement := calibration.disagreement(removed):
        warn(disagreement, UserWarning)
    truth = calibration.truth
    yield calibration.which, truth, torch.zeros_like(truth)
    other = torch.ones(len(edits), dtype=torch.bool)
    other[calibration.which] = False
    rest = other.nonzero().flatten()
    waiting = rest[:0], truth[:0], truth[:0]
    for at, found in pruned.in_chunks(pruned.estimates, edits.pick(rest), memory, workers):
        which = rest[at.cpu()]
        some = calibration.scored(found, engine, edits.pick(which), memory, workers)
        parts = [torch.cat(both) for both in zip(waiting, (which, *some), strict=True)]
        order = parts[1].argsort(descending=True, stable=True)
        yield _picked(parts, order[WAITING:])
        waiting = _picked(parts, order[:WAITING])
    which, scores, errors = waiting
    count = min(FIRST, len(edits) // ONE_IN)
    while True:
        every = torch.cat([scores, truth])
        first = every.argsort(descending=True, stable=True)[:count]
        first = first[first < len(scores)]
        first = first[errors[first] > 0]
        if not len(first):
            break
        found = exactly(engine, edits.pick(which[first]), memory, workers)
        scores[first], errors[first] = found.to(scores.dtype), 0.0
    yield which, scores, errors
    return calibration.facts(removed)


def _picked(parts: Any, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    which, scores, errors = (part[at] for part in parts)
    return which, scores, errors


@dataclass(frozen=True, eq=False)
class Calibration:
    """Some removals with their true influences and their estimates.

    Attributes:
        which: Which of all removals they are `[n]`.
        truth: Their influences `[n]`.
        found: What `Engine.estimates` says of them, by several seeds `[seeds, n, 3]`.
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
        engine: Engine, pruned: Engine, edits: EditBatch, memory: int, workers: int | None
    ) -> Calibration:
        """Do some of the removals both ways; see `estimated`."""
        assert pruned.sampling is not None
        seed, tolerance = pruned.sampling.seed, pruned.sampling.tolerance

        def of_seed(seed: int, which: Tensor) -> Tensor:
            one, some = engine.with_tolerance(tolerance, seed=seed), edits.pick(which)
            found = torch.zeros(len(which), 3, dtype=torch.double)
            for at, values in one.in_chunks(one.estimates, some, memory, workers):
                found[at] = values.cpu()
            return found

        strata = _strata(engine.cost_of(edits), seed)
        tried = torch.cat([which for which, _ in strata])
        first = of_seed(seed, tried)
        parts = first.split([len(which) for which, _ in strata])
        chosen = torch.cat(
            [
                # Without errors to show, any of them.
                which[(part[:, 2] == 0).argsort(stable=True)[:wanted]]
                for (which, wanted), part in zip(strata, parts, strict=True)
            ]
        )
        at = {int(one): i for i, one in enumerate(tried)}
        own = first[[at[int(one)] for one in chosen]]
        found = [own, *(of_seed(seed + more, chosen) for more in range(1, SEEDS))]
        truth = exactly(engine, edits.pick(chosen), memory, workers)
        dtype = summed_in(engine.before.dtype)
        return Calibration(chosen, truth.to(dtype), torch.stack(found), tolerance, dtype)

    @cached_property
    def _smallest(self) -> float:
        """The smallest estimate that was compared: of smaller ones less is known than in proportion."""
        estimate = self.found[..., 0]
        seen = estimate[(estimate > 0) & estimate.isfinite()]
        return float(seen.min()) if len(seen) else 0.0

    @cached_property
    def _unit(self) -> float:
        """What brings planned errors to the size of `tolerance · estimate`: the median ratio, else 0."""
        estimate, _, planned = self.found.unbind(-1)
        ratio = self.tolerance * estimate[planned > 0] / planned[planned > 0]
        ratio = ratio[(ratio > 0) & ratio.isfinite()]
        return float(ratio.median()) if len(ratio) else 0.0

    def _rough(self, found: Tensor) -> Tensor:
        """What errors are in proportion to."""
        estimate, drawn, planned = found.unbind(-1)
        size = self.tolerance * estimate.clamp(min=self._smallest)
        return (drawn.square() + size.square() + (self._unit * planned).square()).sqrt()

    @cached_property
    def _near(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Logarithms of sizes, of the bias and of the spread there `[k]`."""
        found, truth = self.found, self.truth.double()
        estimate = found[..., 0].mean(0)
        seen = (found[..., 2] > 0).any(0) & (estimate > 0) & (truth > 0) & estimate.isfinite()
        order = estimate[seen].argsort(stable=True)
        found, truth, estimate = found[:, seen][:, order], truth[seen][order], estimate[seen][order]
        count = len(truth)
        if count < ENOUGH:
            return np.zeros(1), np.zeros(1), np.zeros(1)
        near = min(NEAREST, count)
        windows = [slice(low, low + near) for low in range(count - near + 1)]
        windows = [windows[min(max(i - near // 2, 0), count - near)] for i in range(count)]
        ratio = (estimate / truth).log()
        limits = torch.tensor(QUANTILES, dtype=torch.double)
        bias = torch.stack([ratio[w].clamp(*ratio[w].quantile(limits)).mean() for w in windows])
        off = (found[..., 0] - truth * bias.exp()).abs() / self._rough(found)
        square = off.square().mean(0)
        total = torch.stack([square[w].sum() for w in windows]) + MODERATING * square.mean()
        spread = total / (near + MODERATING) * near / (near - 2)
        return estimate.log().numpy(), bias.numpy(), spread.sqrt().clamp(min=SMALLEST).log().numpy()

    @property
    def factor(self) -> float:
        """The usual ratio of errors to `rough`: the median of the spreads; 1 where unknown."""
        return float(np.exp(np.median(self._near[2])))

    def _unbiased(self, found: Tensor) -> tuple[Tensor, Tensor]:
        """Scores without their bias, and their standard errors `[n]` each."""
        sizes, biases, spreads = self._near
        size = found[:, 0].clamp(min=self._smallest).log().numpy()
        drawn = found[:, 2] > 0
        bias = torch.from_numpy(np.exp(np.interp(size, sizes, biases)))
        spread = torch.from_numpy(np.exp(np.interp(size, sizes, spreads)))
        errors = spread * self._rough(found) / bias
        return found[:, 0] / torch.where(drawn, bias, 1.0), torch.where(drawn, errors, 0.0)

    def scored(
        self, found: Tensor, engine: Engine, edits: EditBatch, memory: int, workers: int | None
    ) -> tuple[Tensor, Tensor]:
        """Scores and their standard errors `[n]` each.

        What draws have moved may be beyond what a model bears (a root, a logarithm): estimates that are NaN
        are replaced by the truth.

        Args:
            found: What `Engine.estimates` says `[n, 3]`.
            engine: The exact engine.
            removals: Of what `[n]`.
            memory: Bytes that chunks in work may take.
            workers: Threads.
        """
        scores, errors = (part.to(self.dtype) for part in self._unbiased(found.cpu()))
        lost = (~(scores.isfinite() & errors.isfinite())).nonzero().flatten()
        if len(lost):
            truth = exactly(engine, edits.pick(lost), memory, workers)
            scores[lost], errors[lost] = truth.to(self.dtype), 0.0
        return scores, errors

    def facts(self, removed: str = "nodes") -> dict[str, Any]:
        """What is reported of it, JSON-able; `removed` is what removals are of."""
        own = self.found[0]
        scores, truth = self._unbiased(own)[0].numpy(), self.truth.double().numpy()
        raw = own[:, 0].numpy()
        scores, raw, truth = (one[np.isfinite(scores)] for one in (scores, raw, truth))
        reported: dict[str, Any] = {
            f"exact_{removed}": len(self.truth),
            "error_factor": self.factor,
        }
        seen = truth > 0
        if seen.sum() > 1:
            reported |= {
                "pearson": pearson(scores, truth),
                "spearman": spearman(scores, truth),
                "median_error": float(np.median(np.abs(scores[seen] / truth[seen] - 1))),
                "median_ratio": float(np.median(raw[seen] / truth[seen])),
            }
        return {key: value for key, value in reported.items() if value == value}

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


def _strata(cost: Tensor, seed: int) -> list[tuple[Tensor, int]]:
    """Strata of the sample by cost: removals to try, the first first, and how many are wanted."""
    count = min(max(len(cost) // ONE_IN, FEWEST), MOST, len(cost))
    order = cost.argsort(descending=True, stable=True)
    found: list[tuple[Tensor, int]] = []
    for low, high, share in STRATA:
        stratum = order[round(low * len(cost)) : round(high * len(cost))]
        left = count - sum(wanted for _, wanted in found)
        wanted = min(left if high == 1 else round(share * count), left, len(stratum))
        found.append((stratum[shuffled(len(stratum), seed)[: TRIED * wanted]], wanted))
    return found
