"""Choose for the user: exact where it fits the budget, else the best estimate that does.

Brute force on the whole graph is measured first; if even that fits, `exact` does. Otherwise a small
stratified sample of nodes is removed for real, with the exact engine and with growing tolerances. That
tells what each would take for all nodes, how much influence hangs on the messages a tolerance leaves
out, and how well each agrees with `exact` when that is made up for: the choice is the smallest tolerance
that fits. When none does (a removal's reach is the whole graph), it is `cauchy`.
Whatever is chosen is said, with the reason and the measured accuracy; an estimate comes with a warning.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.engine.changed import Removals
from nora.engine.engine import Engine
from nora.engine.linear import Linearised
from nora.engine.plan import UnsupportedError
from nora.engine.prepared import Prepared
from nora.engine.steps.step import Tally
from nora.memory import parse_bytes
from nora.methods import METHODS, MethodFacts
from nora.problem import Problem
from nora.results.agreement import pearson, spearman
from nora.seeds import shuffled
from nora.stacklevel import warn
from nora.wording import duration

TOLERANCES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
# Strata by expected cost (from, to, nodes sampled): the costliest hundredth, the next tenth, the rest.
STRATA = ((0.0, 0.01, 6), (0.01, 0.1, 24), (0.1, 1.0, 60))
# Below this correlation on the sample, a tolerance is no better than the sketch.
WORTHWHILE = 0.95
ENOUGH_SECONDS = 0.3
VERIFIED = 2
# A pass that takes longer is not made only to be timed; trying a tolerance must cost less than this share
# of what it may save, once the budget is used up.
LONG_SECONDS, TRYING_SHARE = 0.2, 0.2
SAMPLES = 64


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes:
        method: The method's name.
        options: Its options.
        reason: One sentence.
        expected_seconds: What it should take from here on.
        expected_pearson: Its measured correlation with `exact` on a sample; 1 for `exact` itself, NaN
            when it was not measured.
        expected_spearman: The same of ranks.
        expected_error: Its median relative error on the sample; 0 for `exact` itself.
        choosing_seconds: What choosing took.
    """

    method: str
    options: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    expected_seconds: float = float("nan")
    expected_pearson: float = float("nan")
    expected_spearman: float = float("nan")
    expected_error: float = float("nan")
    choosing_seconds: float = 0.0

    def facts(self) -> dict[str, Any]:
        """For provenance: what is not known is left out."""
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {key: value for key, value in told.items() if value == value}


@dataclass(frozen=True)
class _Pilot:
    """A stratified sample.

    Attributes:
        strata: All nodes of each stratum, in random order.
        nodes: Those sampled: the first of each.
        stands_for: How many nodes each of these stands for.
    """

    strata: list[Tensor]
    nodes: list[Tensor]
    stands_for: list[float]

    @staticmethod
    def of(nodes: Tensor, cost: Tensor, seed: int) -> _Pilot:
        order = nodes[cost.argsort(descending=True, stable=True)]
        strata, picked, weights = [], [], []
        for low, high, sampled in STRATA:
            stratum = order[round(low * len(order)) : round(high * len(order))]
            if len(stratum):
                stratum = stratum[shuffled(len(stratum), seed)]
                some = stratum[:sampled]
                strata.append(stratum)
                picked.append(some)
                weights.append(len(stratum) / len(some))
        return _Pilot(strata, picked, weights)

    def try_out(self, engine: Engine, memory: int) -> tuple[float, np.ndarray]:
        """Seconds for all nodes, by strata, and the sample's scores."""
        seconds, scores = 0.0, []
        for stratum, nodes in zip(self.strata, self.nodes, strict=True):
            start = time.perf_counter()
            found = dict(_flat(engine.scores(nodes, memory)))
            spent, count = time.perf_counter() - start, len(nodes)
            scores += [found[node] for node in nodes.tolist()]
            # So few nodes mostly show what starting costs: take more until there is work to time.
            while spent < ENOUGH_SECONDS and count < len(stratum):
                count = min(8 * count, len(stratum))
                start = time.perf_counter()
                for _ in engine.scores(stratum[:count], memory):
                    pass
                spent = time.perf_counter() - start
            seconds += spent / count * len(stratum)
        return seconds, np.array(scores)

    @property
    def weight(self) -> np.ndarray:
        """How many nodes each sampled node stands for."""
        return np.repeat(self.stands_for, [len(nodes) for nodes in self.nodes])

    def lost(self, engine: Engine, memory: int) -> np.ndarray:
        """What each removal leaves out in each step, `[sample, steps]`."""

        def ask(removals: Removals, tally: Tally) -> Tensor:
            engine.changed_output(removals, tally=tally)
            return torch.stack(tally.lost, dim=1)

        nodes = torch.cat(self.nodes)
        found = dict(_flat(engine.by_chunks(ask, nodes, memory)))
        return np.array([found[node] for node in nodes.tolist()])


def _flat(parts: Any) -> Any:
    for nodes, scores in parts:
        yield from zip(nodes.tolist(), scores.tolist(), strict=True)


@METHODS.register(
    "auto",
    "exact where it fits the budget, else the best estimate; says which",
    MethodFacts(chooses=True, uses_engine=True, runs_again=True),
)
def auto(
    problem: Problem,
    prepared: Prepared,
    *,
    budget: float = 60.0,
    memory: str | float = "2GB",
    seed: int = 0,
) -> Choice:
    """Choose a method for the problem.

    Args:
        problem: The question, checked.
        prepared: What is prepared for the exact engine.
        budget: Seconds that scoring may take, choosing included.
        memory: As in `exact`.
        seed: Seed of the sample.
    """
    if not budget > 0:
        raise ValueError(f"budget must be positive, got {budget}")
    start = time.perf_counter()
    choice = _choose(problem, prepared, budget, memory, seed)
    spent = time.perf_counter() - start
    if choice.method != "exact" or choice.options.get("tolerance", 0.0) > 0:
        warn(f"auto picked an estimate: {choice.reason}", UserWarning)
    return replace(choice, choosing_seconds=spent)


def _choose(
    problem: Problem, prepared: Prepared, budget: float, memory: str | float, seed: int
) -> Choice:
    start = time.perf_counter()
    forward = _pass_seconds(problem)
    count = len(problem.nodes)
    options: dict[str, Any] = {"memory": memory}
    if count * forward <= budget:
        return Choice(
            "exact",
            options,
            f"even {count:,} full forward passes of {duration(forward)} fit {duration(budget)}",
            expected_pearson=1.0,
        )
    try:
        engine = prepared.engine(problem, removals=count)
    except UnsupportedError as reason:
        return Choice(
            "exact",
            options,
            f"the engine cannot follow this model ({reason}), so only brute force is left; it may "
            f"take {duration(count * forward)}",
            expected_seconds=count * forward,
            expected_pearson=1.0,
        )
    # The run itself checks a few removals by brute force, each on a graph that is cut anew.
    options["verify"] = VERIFIED
    again = 2 * VERIFIED * forward
    bytes_ = parse_bytes(memory)
    pilot = _Pilot.of(problem.nodes, engine.cost.cpu()[problem.nodes], seed)
    list(engine.scores(pilot.nodes[-1], bytes_))  # compiles what is compiled, starts threads
    seconds, truth = pilot.try_out(engine, bytes_)
    seconds += again
    left = budget - (time.perf_counter() - start)
    if seconds <= left:
        return Choice(
            "exact",
            options,
            f"exact should take {duration(seconds)}, within the budget of {duration(budget)}",
            seconds,
            1.0,
        )
    found = _tolerable(engine, pilot, truth, bytes_, budget, start - again, seconds, options)
    if found is not None and found.expected_seconds < seconds / 2:
        return found
    sketch = _sketch_seconds(engine, pilot)
    if not sketch < seconds:
        return Choice(
            "exact",
            options,
            f"nothing fits {duration(budget)}; exact is the quickest of what is left, and should "
            f"take {duration(seconds)}",
            seconds,
            1.0,
        )
    return Choice(
        "cauchy",
        {"samples": SAMPLES, "memory": memory},
        f"exact would take {duration(seconds)}, and no tolerance up to {TOLERANCES[-1]:g} is quicker "
        f"and agrees with it well; a sketch of {SAMPLES} backward passes should take "
        f"{duration(sketch)}",
        sketch,
    )


def _pass_seconds(problem: Problem) -> float:
    """What a forward pass takes: as checks have seen it where it is long, else tried."""
    known = min((found.seconds for found in problem.checked_removals.values()), default=0.0)
    if known > LONG_SECONDS:
        return known
    start = time.perf_counter()
    with torch.no_grad():
        problem.items(problem.data, problem.task)
    return time.perf_counter() - start


def _tolerable(
    engine: Engine,
    pilot: _Pilot,
    truth: np.ndarray,
    memory: int,
    budget: float,
    start: float,
    exact_seconds: float,
    options: dict[str, Any],
) -> Choice | None:
    """The smallest tolerance that fits and agrees with exact, else the quickest that agrees.

    Where preparing has used up the budget, the removals may still take half of it; and
    the next tolerance is tried as long as that takes little beside what it may save.
    """
    quickest: Choice | None = None
    for tolerance in TOLERANCES:
        tried = time.perf_counter()
        pruned = engine.with_tolerance(tolerance)
        seconds, scores = pilot.try_out(pruned, memory)
        gains, guessed = _compensation(pilot, pruned, scores, truth, memory)
        agrees = pearson(guessed, truth, pilot.weight)
        left = start + budget - time.perf_counter()
        if agrees >= WORTHWHILE and (quickest is None or seconds < quickest.expected_seconds):
            fits = (
                ""
                if seconds <= max(left, budget / 2)
                else f", more than the {duration(max(left, 0))} left of the budget"
            )
            ranks, off = _order_and_error(pilot, guessed, truth)
            quickest = Choice(
                "exact",
                {**options, "tolerance": tolerance, "compensate": gains},
                f"exact would take {duration(exact_seconds)}; with tolerance {tolerance:g}, and what "
                f"that leaves out compensated, removals should take {duration(seconds)}{fits}, and on "
                f"{len(truth)} sampled nodes it correlates with exact by {agrees:.3f}"
                f"{_told(ranks, off)}",
                seconds,
                agrees,
                ranks,
                off,
            )
            if not fits:
                return quickest
        spent = time.perf_counter() - tried
        saves = (seconds if quickest is None else quickest.expected_seconds) - budget
        if left <= 0 and spent > TRYING_SHARE * saves:
            break
    return quickest


def _compensation(
    pilot: _Pilot, pruned: Engine, scores: np.ndarray, truth: np.ndarray, memory: int
) -> tuple[list[float], np.ndarray]:
    """Influence per message left out, by step, and the scores this gives on held-out halves."""
    from scipy.optimize import nnls  # slow to load, and mostly not needed

    lost, root = pilot.lost(pruned, memory), np.sqrt(pilot.weight)

    def fitted(some: np.ndarray) -> np.ndarray:
        missing = np.maximum(truth - scores, 0.0)
        return nnls(lost[some] * root[some, None], missing[some] * root[some])[0]

    half = np.arange(len(truth)) % 2 == 0
    guessed = scores.copy()
    for part in (half, ~half):
        guessed[~part] += lost[~part] @ fitted(part)
    return fitted(np.full(len(truth), True)).tolist(), guessed


def _order_and_error(pilot: _Pilot, guessed: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Rank correlation with the truth, and median relative error, by the nodes each stands for."""
    # Pearson's correlation is ruled by the few hubs; these tell of the many others.
    often = np.repeat(np.arange(len(truth)), np.rint(pilot.weight).astype(int))
    seen = often[truth[often] > 0]
    off = np.abs(guessed[seen] - truth[seen]) / truth[seen]
    return spearman(guessed[often], truth[often]), float(np.median(off)) if len(seen) else 0.0


def _told(ranks: float, off: float) -> str:
    order = f"Spearman {ranks:.3f}, " if ranks == ranks else ""
    return f" ({order}median error {100 * off:.0f}%)"


def _sketch_seconds(engine: Engine, pilot: _Pilot) -> float:
    """What the sketch should take: two backward passes and the sample, scaled up; NaN if it cannot."""
    try:
        linearised = Linearised(engine)
    except UnsupportedError:
        return float("nan")
    prediction = linearised.prediction
    cotangent = torch.ones(2, *prediction.shape, device=prediction.device, dtype=prediction.dtype)
    start = time.perf_counter()
    gradients = linearised.gradients(cotangent)
    seconds = (time.perf_counter() - start) / 2 * SAMPLES
    for nodes, stands_for in zip(pilot.nodes, pilot.stands_for, strict=True):
        start = time.perf_counter()
        removals = Removals.single(nodes.to(prediction.device))
        linearised.projections(removals, gradients, Tally())
        seconds += (time.perf_counter() - start) * stands_for
    return seconds
