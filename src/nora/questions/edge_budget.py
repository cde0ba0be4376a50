"""How edges are scored within a budget: exactly where that fits, else with a tolerance that does.

As `auto` does it for nodes: a sample of edges, the costliest among them, is removed with the engine, exactly
and with growing tolerances. That tells what each would take for all edges, and how far it agrees with
`exact`. An estimate is called one, and comes with a warning.
"""

from __future__ import annotations

import time
from typing import Any

from nora.engine.effects import Effects
from nora.engine.estimate.cost_sample import Pilot
from nora.graph.edit_batch import EditBatch
from nora.questions.measured import How, why_not_followed
from nora.stacklevel import warn
from nora.wording import duration

TOLERANCES = (0.01, 0.03, 0.1, 0.2)
# The sample may take this share of the budget.
CHOOSING = 0.1


def chosen(
    effects: Effects, removals: EditBatch, budget: float, how: How
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
    effects: Effects, removals: EditBatch, budget: float, how: How
) -> tuple[float, dict[str, Any]]:
    begin = time.perf_counter()
    engine = effects.engine
    if engine is None or why_not_followed(engine, removals):
        return 0.0, {
            "method": "exact",
            "reason": "a full pass is taken for every edge",
            "expected_pearson": 1.0,
        }
    pilot = Pilot(engine, removals, how.memory, how.workers, seconds=CHOOSING * budget)
    seconds = pilot.seconds
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
        agreement = pilot.agreement(scores)
        quicker = best is None or took < best[1]["expected_seconds"]
        if agreement.worthwhile and quicker and took < seconds / 2:
            fits = took <= left
            over = "" if fits else ", more than the budget"
            reason = (
                f"exact would take {duration(seconds)}; with tolerance {tolerance:g} edges should take "
                f"{duration(took)}{over}, and on {len(scores)} sampled edges its median error is "
                f"{100 * agreement.error:.1f} % (Spearman {agreement.spearman:.3f})"
            )
            facts = {
                "method": "exact",
                "reason": reason,
                "expected_seconds": took,
                "expected_pearson": agreement.pearson,
                "expected_spearman": agreement.spearman,
                "expected_error": agreement.error,
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
