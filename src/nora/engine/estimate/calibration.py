"""Standard errors of estimates, calibrated on removals that are also computed exactly.

An estimate `E(r)` has errors from three sources. Up to a factor, the size of each is known without the truth:

- the sample of the last op: its variance `σ²` follows from the sampled rows;
- rows of any op that were not sampled: their variance `V` follows from the inclusion probabilities, in units
  of importance (`sampling.py`). It is large beside `E` where importance is far above the change: where
  changes cancel, or a few rows decide;
- activations and absolute values of sums that the sample has moved: they come out too large, by about
  `tolerance · E`.

The factor is measured on calibration removals, stratified by cost, so that hubs are as well represented as
leaves. Each is computed exactly once and estimated `SEEDS` times, since an estimate is many times cheaper.
A removal gets the errors of the calibration removals that are nearest in size:

    F(r) = E(r) / bias(r)
    rough(r)² = σ(r)² + (tolerance · max(E(r), smallest calibrated E))² + unit² · V(r)
    stderr(r) = spread(r) · rough(r) / bias(r)

Here `unit`, the median of `tolerance · E / √V`, converts importance to influence; `bias` is the mean ratio of
estimate to truth among the `NEAREST` calibration removals. `spread²` is the mean square of `error / rough`
among these, together with the mean of all calibration removals at the weight of `MODERATING` removals: twenty
seldom contain one from a tail, sixty more often (a moderated variance, Smyth 2004). It is multiplied by
`n / (n − 2)` for `n` nearest ones, the variance of Student's t, because the scale is estimated, too.

Removals whose rows were all computed are exact. So are the `FIRST` of the ranking: those that estimates rank
first are computed exactly, until the first ones all are.
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

# One removal in so many is a calibration removal, within these bounds.
ONE_IN, FEWEST, MOST = 25, 10, 60
# Strata by expected cost (from, to, share of the sample): the costliest hundredth, the next tenth, the rest.
STRATA = ((0.0, 0.01, 0.15), (0.01, 0.1, 0.25), (0.1, 1.0, 0.6))
# A removal of which nothing is sampled shows no error: so many times the wanted number are tried.
TRIED = 2
# Estimates of each calibration removal.
SEEDS = 4
# How many calibration removals are nearest, and how many are needed to measure the bias.
NEAREST, ENOUGH = 20, 5
# The weight of the mean over all calibration removals, in removals.
MODERATING = 10
# Ratios are clamped to these quantiles of the nearest ones.
QUANTILES = (0.1, 0.9)
# The smallest spread.
SMALLEST = 1e-6
# How many of the first are exact, and how many of the largest estimates are candidates.
FIRST, WAITING = 20, 60
# A median error of so many times the tolerance is worth a warning.
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
    """Yield `(which, scores, standard errors)`, calibration removals first and the first ones last.

    Warns if the median error is far above the tolerance. Returns facts about the estimates.

    Args:
        engine: The exact engine.
        pruned: The engine that estimates.
        edits: All removals.
        memory: Bytes that the current chunks may take.
        workers: Threads.
        removed: `nodes` or `edges`, for messages.
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
        found: `Engine.estimates` of them, by several seeds `[seeds, n, 3]`.
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
        """Compute and estimate some of the removals; see `estimated`."""
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
                # Those with errors first.
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
        """The smallest calibrated estimate: errors of smaller ones need not be in proportion."""
        estimate = self.found[..., 0]
        seen = estimate[(estimate > 0) & estimate.isfinite()]
        return float(seen.min()) if len(seen) else 0.0

    @cached_property
    def _unit(self) -> float:
        """The median ratio of `tolerance · estimate` to the planned error; 0 without planned errors."""
        estimate, _, planned = self.found.unbind(-1)
        ratio = self.tolerance * estimate[planned > 0] / planned[planned > 0]
        ratio = ratio[(ratio > 0) & ratio.isfinite()]
        return float(ratio.median()) if len(ratio) else 0.0

    def _rough(self, found: Tensor) -> Tensor:
        """The scale of the errors, up to a factor."""
        estimate, drawn, planned = found.unbind(-1)
        size = self.tolerance * estimate.clamp(min=self._smallest)
        return (drawn.square() + size.square() + (self._unit * planned).square()).sqrt()

    @cached_property
    def _by_size(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Logarithms of sizes, and of bias and spread at these sizes `[k]`."""
        found, truth = self.found, self.truth.double()
        estimate = found[..., 0].mean(0)
        seen = (found[..., 2] > 0).any(0) & (estimate > 0) & (truth > 0) & estimate.isfinite()
        order = estimate[seen].argsort(stable=True)
        found, truth, estimate = found[:, seen][:, order], truth[seen][order], estimate[seen][order]
        count = len(truth)
        if count < ENOUGH:
            return np.zeros(1), np.zeros(1), np.zeros(1)
        width = min(NEAREST, count)
        windows = [slice(low, low + width) for low in range(count - width + 1)]
        windows = [windows[min(max(i - width // 2, 0), count - width)] for i in range(count)]
        ratio = (estimate / truth).log()
        limits = torch.tensor(QUANTILES, dtype=torch.double)
        bias = torch.stack([ratio[w].clamp(*ratio[w].quantile(limits)).mean() for w in windows])
        off = (found[..., 0] - truth * bias.exp()).abs() / self._rough(found)
        square = off.square().mean(0)
        total = torch.stack([square[w].sum() for w in windows]) + MODERATING * square.mean()
        spread = total / (width + MODERATING) * width / (width - 2)
        return estimate.log().numpy(), bias.numpy(), spread.sqrt().clamp(min=SMALLEST).log().numpy()

    @property
    def factor(self) -> float:
        """The usual ratio of errors to `rough`: the median of the spreads; 1 where unknown."""
        return float(np.exp(np.median(self._by_size[2])))

    def _unbiased(self, found: Tensor) -> tuple[Tensor, Tensor]:
        """Scores without their bias, and their standard errors `[n]` each."""
        sizes, biases, spreads = self._by_size
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

        The sample may move rows out of a function's domain (a root, a logarithm): estimates that are NaN are
        replaced by the truth.

        Args:
            found: `Engine.estimates` of the removals `[n, 3]`.
            engine: The exact engine.
            edits: The removals `[n]`.
            memory: Bytes that the current chunks may take.
            workers: Threads.
        """
        scores, errors = (part.to(self.dtype) for part in self._unbiased(found.cpu()))
        lost = (~(scores.isfinite() & errors.isfinite())).nonzero().flatten()
        if len(lost):
            truth = exactly(engine, edits.pick(lost), memory, workers)
            scores[lost], errors[lost] = truth.to(self.dtype), 0.0
        return scores, errors

    def facts(self, removed: str = "nodes") -> dict[str, Any]:
        """Facts about the estimates, for JSON; `removed` is `nodes` or `edges`."""
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
        """The warning about a median error far above the tolerance; empty if there is none."""
        error = self.facts(removed).get("median_error", 0.0)
        if error <= DISAGREES * self.tolerance:
            return ""
        return (
            f"estimates are further off than the tolerance of {self.tolerance:g}: on {len(self.truth)} "
            f"{removed} that were also computed exactly, the median relative error is {100 * error:.0f} %. "
            "Standard errors account for it; for better scores use a smaller tolerance, or tolerance=0"
        )


def _strata(cost: Tensor, seed: int) -> list[tuple[Tensor, int]]:
    """Strata by cost: removals to try, in order, and how many are wanted."""
    count = min(max(len(cost) // ONE_IN, FEWEST), MOST, len(cost))
    order = cost.argsort(descending=True, stable=True)
    found: list[tuple[Tensor, int]] = []
    for low, high, share in STRATA:
        stratum = order[round(low * len(cost)) : round(high * len(cost))]
        left = count - sum(wanted for _, wanted in found)
        wanted = min(left if high == 1 else round(share * count), left, len(stratum))
        found.append((stratum[shuffled(len(stratum), seed)[: TRIED * wanted]], wanted))
    return found
