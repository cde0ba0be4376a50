"""How edges are scored within a budget: exactly where that fits, else with a tolerance that does.

As `auto` does it for nodes: a sample of edges, the costliest among them, is removed with the engine, exactly
and with growing tolerances. That tells what each would take for all edges, and how far it agrees with
`exact`. An estimate is called one, and comes with a warning.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.engine.changed import Removals
from nora.engine.effects import Effects
from nora.engine.engine import Engine
from nora.questions.measured import How, why_not_followed
from nora.results.agreement import pearson, spearman
from nora.seeds import shuffled
from nora.stacklevel import warn
from nora.wording import duration

TOLERANCES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
# Strata by expected cost (from, to, edges sampled).
STRATA = ((0.0, 0.01, 12), (0.01, 0.1, 24), (0.1, 1.0, 60))
ENOUGH_SECONDS = 0.2
# Below this correlation on the sample, a tolerance is not worth it.
WORTHWHILE = 0.95


def chosen(
    effects: Effects, removals: Removals, budget: float, how: How
) -> tuple[float, dict[str, Any]]:
    """The tolerance, 0 for exact, and what to say of it.

    Args:
        effects: What is prepared.
        removals: The edges, one by one.
        budget: Seconds that scoring may take.
        how: How the work is done.
    """
    start = time.perf_counter()
    tolerance, facts = _chosen(effects, removals, budget, how)
    if tolerance:
        warn(f"auto picked an estimate: {facts['reason']}", UserWarning)
    return tolerance, {**facts, "choosing_seconds": time.perf_counter() - start}


def _chosen(
    effects: Effects, removals: Removals, budget: float, how: How
) -> tuple[float, dict[str, Any]]:
    begin = time.perf_counter()
    engine = effects.engine
    if engine is None or why_not_followed(engine, removals):
        return 0.0, {
            "method": "exact",
            "reason": "a full pass is taken for every edge",
            "expected_pearson": 1.0,
        }
    pilot = _Pilot(engine, removals, how)
    seconds, truth = pilot.tried(engine)
    left = budget - (time.perf_counter() - begin)
    if seconds <= left:
        return 0.0, {
            "method": "exact",
            "reason": f"exact should take {duration(seconds)}, within the budget of {duration(budget)}",
            "expected_seconds": seconds,
            "expected_pearson": 1.0,
        }
    best: tuple[float, dict[str, Any]] | None = None
    for tolerance in TOLERANCES:
        took, scores = pilot.tried(engine.with_tolerance(tolerance))
        left = budget - (time.perf_counter() - begin)
        agrees = pearson(scores, truth, pilot.weight)
        quicker = best is None or took < best[1]["expected_seconds"]
        if agrees >= WORTHWHILE and quicker and took < seconds / 2:
            fits = took <= left
            over = "" if fits else ", more than the budget"
            reason = (
                f"exact would take {duration(seconds)}; with tolerance {tolerance:g} edges should take "
                f"{duration(took)}{over}, and on {len(truth)} sampled edges it correlates with exact by "
                f"{agrees:.3f}"
            )
            facts = {
                "method": "exact",
                "reason": reason,
                "expected_seconds": took,
                "expected_pearson": agrees,
                "expected_spearman": spearman(scores, truth),
            }
            best = tolerance, facts
            if fits:
                return best
        if left <= 0:
            break
    if best is not None:
        return best
    return 0.0, {
        "method": "exact",
        "reason": f"no tolerance fits {duration(budget)} and agrees with exact, which should take "
        f"{duration(seconds)}",
        "expected_seconds": seconds,
        "expected_pearson": 1.0,
    }


class _Pilot:
    """A sample of edges, by what they should cost."""

    def __init__(self, engine: Engine, removals: Removals, how: How) -> None:
        self.removals, self.how = removals, how
        order = engine.cost_of(removals).argsort(descending=True, stable=True)
        self.strata: list[Tensor] = []
        self.sampled: list[int] = []
        for low, high, count in STRATA:
            stratum = order[round(low * len(order)) : round(high * len(order))]
            if len(stratum):
                self.strata.append(stratum[shuffled(len(stratum), 0)])
                self.sampled.append(min(count, len(stratum)))
        self._scores(engine, self.strata[-1][:1])  # compiles what is compiled, starts threads

    @property
    def weight(self) -> np.ndarray:
        """How many edges each sampled one stands for."""
        each = [len(all_) / count for all_, count in zip(self.strata, self.sampled, strict=True)]
        return np.repeat(each, self.sampled)

    def tried(self, engine: Engine) -> tuple[float, np.ndarray]:
        """Seconds for all edges, by strata, and the sample's scores."""
        seconds, found = 0.0, []
        for stratum, count in zip(self.strata, self.sampled, strict=True):
            start = time.perf_counter()
            found.append(self._scores(engine, stratum[:count]))
            spent, done = time.perf_counter() - start, count
            while spent < ENOUGH_SECONDS and done < len(stratum):
                done = min(8 * done, len(stratum))
                start = time.perf_counter()
                self._scores(engine, stratum[:done])
                spent = time.perf_counter() - start
            seconds += spent / done * len(stratum)
        return seconds, np.concatenate(found)

    def _scores(self, engine: Engine, which: Tensor) -> np.ndarray:
        some = self.removals.picked(which)
        scores = torch.zeros(len(which), dtype=torch.double)
        for at, values in engine.in_chunks(
            engine.influences, some, self.how.memory, self.how.workers
        ):
            scores[at] = values.cpu().double()
        return scores.numpy()
