"""Choose for the user: exact where it fits the budget, else the best estimate that does.

For removals of nodes and of edges. If even a full pass for every removal fits, `exact` does.
Otherwise a small stratified sample is removed for real (`nora.engine.estimate.cost_sample`), in at most a
tenth of the budget. That shows what all would take, and, with tolerances from fine to coarse, what
estimates would take and how well they agree with `exact`: the choice is the finest that fits. When none
does, or the engine cannot follow the model, there is for nodes the sketch (`cauchy`), and last the paper's
approximation (`nora`), which costs a few passes; edges have no other estimate, and are scored with the
coarsest tolerance if it agrees, or exactly. An estimate that samples rows comes before the sketch even where
it agrees a little less than usual: but for deep models it is quicker and agrees better
(`benchmarks/sketch.py`). The choice is reported with its reason and the measured accuracy; an estimate
comes with a warning that names what `exact` would take.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch_geometric.nn import MessagePassing

from nora.engine.edit_support import unsupported_edits
from nora.engine.engine import Engine
from nora.engine.estimate.calibration import FIRST, MOST
from nora.engine.estimate.cost_sample import Agreement, CostSample
from nora.engine.estimate.linear import Linearised
from nora.engine.ir.op import Tally
from nora.engine.prepared import Prepared
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.memory import parse_bytes
from nora.methods import METHODS, MethodFacts
from nora.model import Problem
from nora.options import option
from nora.seeds import shuffled
from nora.stacklevel import warn
from nora.wording import duration

TOLERANCES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
# Choosing may take this share of the budget, once the engine is there.
CHOOSING = 0.1
# What exceeds the budget by no more than this share is not worth an estimate.
LATE = 0.15
# Where preparing has used up the budget, removals may still take this share of it: to have prepared for
# nothing would be worse than to be late.
AT_LEAST = 0.25
VERIFIED = 2
# Removals that an estimate does exactly: those it is compared with, and the first ones.
CALIBRATED = MOST + FIRST
# Passes that preparing takes: two that are recorded, and what the engine computes itself.
PREPARING = 3
# A pass that takes longer is not made only to be timed.
LONG_SECONDS = 0.2
SAMPLES, SAMPLED = 64, 12


@dataclass(frozen=True)
class Choice:
    """The chosen method, and the reason.

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
        """For provenance: unknown values are left out."""
        return {key: value for key, value in vars(self).items() if value == value}


@dataclass(frozen=True)
class Budget:
    """Seconds that an answer may take, from when this is made; `choose` decides how to spend them.

    Attributes:
        seconds: How many.
        least: Removals that are done whatever the time.
        began: When it was made, by `time.perf_counter`.
    """

    seconds: float
    least: int = 0
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"budget must be positive, got {self.seconds}")

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.began + self.seconds - time.perf_counter()

    def over(self, done: int) -> bool:
        """Whether to stop after this many removals."""
        return done >= self.least and self.left <= 0

    def choose(
        self,
        problem: Problem,
        prepared: Prepared,
        removals: EditBatch,
        memory: str | float = "2GB",
        seed: int = 0,
        workers: int | None = None,
    ) -> Choice:
        """Exact, an estimate, or full passes for these removals; an estimate comes with a warning.

        Args:
            problem: The question, checked.
            prepared: What is prepared for the exact engine.
            removals: What is removed: single nodes, or edges.
            memory: As in `exact`.
            seed: Seed of the sample, and of estimates.
            workers: Threads that the run will have.

        Raises:
            ValueError: When nothing fits.
        """
        choice = _choose(self, problem, prepared, removals, memory, seed, workers)
        if choice.method != "exact" or choice.options.get("tolerance", 0.0) > 0:
            warn(f"auto picked an estimate: {choice.reason}", UserWarning)
        return replace(choice, choosing_seconds=time.perf_counter() - self.began)


@METHODS.register(
    "auto",
    "exact if it fits the budget, else the best estimate; reports which",
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
        seed: Seed of the sample, and of estimates.
    """
    removals = EditBatch.remove_nodes(problem.nodes.cpu())
    return Budget(budget).choose(problem, prepared, removals, memory, seed)


def _choose(
    limit: Budget,
    problem: Problem,
    prepared: Prepared,
    removals: EditBatch,
    memory: str | float,
    seed: int,
    workers: int | None,
) -> Choice:
    """See `Budget.choose`: full passes if they fit, else what a sample of removals shows."""
    forward, budget = _pass_seconds(problem), limit.seconds
    count, nodes = len(removals), not len(removals.edge)
    options: dict[str, Any] = {"memory": memory}
    by_passes = count * forward
    if by_passes <= budget:
        return Choice(
            "exact",
            options,
            f"even {count:,} full forward passes of {duration(forward)} fit {duration(budget)}",
            expected_pearson=1.0,
        )
    if nodes and not prepared.ready and PREPARING * forward > (1 + LATE) * budget:
        return _last_resort(
            problem,
            f"preparing exact alone would take {duration(PREPARING * forward)}, more than the budget of "
            f"{duration(budget)}",
            budget / forward,
        )
    try:
        engine = prepared.engine(problem, removals=count)
        reason = unsupported_edits(engine, removals)
    except UnsupportedError as error:
        reason = str(error)
    if not reason:
        # The run itself checks a few removals by brute force, each on a newly made graph.
        options |= {"verify": VERIFIED, "seed": seed}
        cost_sample = CostSample(
            engine, removals, parse_bytes(memory), workers, seed, CHOOSING * budget
        )
        return _by_sample(limit, problem, engine, cost_sample, removals, options, forward)
    if by_passes <= (1 + LATE) * budget:
        return Choice("exact", options, _late("brute force", by_passes, budget), by_passes, 1.0)
    if not nodes:
        why = f"a full pass is made for every edge ({reason}), and edges have no other estimate"
        return Choice("exact", options, why, by_passes, 1.0)
    return _last_resort(
        problem,
        f"the engine does not support this model ({reason}), and brute force would take "
        f"{duration(by_passes)}, more than the budget of {duration(budget)}",
        budget / forward,
    )


def _by_sample(
    limit: Budget,
    problem: Problem,
    engine: Engine,
    cost_sample: CostSample,
    removals: EditBatch,
    options: dict[str, Any],
    forward: float,
) -> Choice:
    """Exact if the sample shows that it fits, else the finest estimate that fits and agrees."""
    budget, count, nodes = limit.seconds, len(removals), not len(removals.edge)
    verifying = 2 * VERIFIED * forward
    seconds = min(cost_sample.seconds + verifying, count * forward)
    left = max(limit.left, AT_LEAST * budget)
    if seconds <= left:
        within = f"exact should take {duration(seconds)}, within the budget of {duration(budget)}"
        return Choice("exact", options, within, seconds, 1.0)
    if seconds <= left + LATE * budget:
        return Choice("exact", options, _late("exact", seconds, budget), seconds, 1.0)
    price = f"exact would take {duration(seconds)}"
    deadline = max(limit.began + budget, time.perf_counter() + AT_LEAST * budget) + LATE * budget
    found, agreement, fits = _tolerable(
        engine, cost_sample, removals, deadline - verifying, price, options
    )
    if not nodes:
        quicker = found.expected_seconds < seconds / 2
        if agreement.worthwhile and (fits or quicker):
            return found
        why = f"no tolerance fits {duration(budget)} and agrees with exact, which should take "
        return Choice("exact", options, why + duration(seconds), seconds, 1.0)
    # An estimate whose agreement was measured is better than one whose agreement is unknown.
    if fits and (agreement.enough if _samples_rows(engine) else agreement.worthwhile):
        return found
    left = deadline - time.perf_counter()
    # A backward pass takes no less than half of a forward pass; to try one takes time and memory.
    hopeless = SAMPLES * forward / 2 > left
    sketch = float("inf") if hopeless else _sketch_seconds(engine, problem, left)
    if not fits:
        price += f", and no tolerance up to {TOLERANCES[-1]:g} fits {duration(budget)}"
    else:
        price += (
            f", and with tolerance {found.options['tolerance']:g}, which fits {duration(budget)}, its "
            f"error would be too large{_accuracy(agreement)}"
        )
    if sketch <= left:
        return Choice(
            "cauchy",
            {"samples": SAMPLES, "memory": options["memory"]},
            f"{price}; a sketch of {SAMPLES} backward passes should take {duration(sketch)}",
            sketch,
        )
    if fits and (agreement.enough or not _differentiable(problem)):
        return found
    return _last_resort(problem, price, count * budget / seconds)


def _late(what: str, seconds: float, budget: float) -> str:
    return (
        f"{what} should take {duration(seconds)}, so little over the budget of {duration(budget)} that "
        "an estimate is not worth it"
    )


def _differentiable(problem: Problem) -> bool:
    """Whether the paper's approximation applies: to message-passing layers with parameters."""
    if problem.direct or not any(p.is_floating_point() for p in problem.model.parameters()):
        return False
    return any(isinstance(module, MessagePassing) for module in problem.model.modules())


def _last_resort(problem: Problem, price: str, fits: float) -> Choice:
    """The paper's approximation, where it applies; else nothing but the price.

    Args:
        problem: The question.
        price: What the others would take.
        fits: How many nodes `exact` would do within the budget.

    Raises:
        ValueError: When nothing fits the budget.
    """
    if not _differentiable(problem):
        few = f"about {int(fits):,} fit" if fits >= 1 else "not even one fits"
        raise ValueError(
            f"nothing fits the budget: {price}. Ask for fewer nodes (nodes=…, {few}), give it the time "
            f"(budget=…), or take {option('method', 'exact')}, however long it takes"
        )
    return Choice(
        "nora",
        {},
        f"{price}; the paper's approximation takes a few passes, and how well it agrees with exact here "
        "is not known. For exact numbers ask for fewer nodes, or give a larger budget",
    )


def _pass_seconds(problem: Problem) -> float:
    """The time of a forward pass: from the checks if it is long, else measured."""
    seconds = (found.seconds for found in problem.checked_removals.values())
    known = min(seconds, default=problem.passes.seconds)
    if known > LONG_SECONDS:
        return known
    start = time.perf_counter()
    with torch.no_grad():
        problem.items(problem.data, problem.task)
    return time.perf_counter() - start


def _tolerable(
    engine: Engine,
    cost_sample: CostSample,
    removals: EditBatch,
    deadline: float,
    price: str,
    options: dict[str, Any],
) -> tuple[Choice, Agreement, bool]:
    """The finest tolerance that fits, else the coarsest; how well it agrees with exact; whether it fits."""
    removed = "edges" if len(removals.edge) else "nodes"
    fits = False
    for tolerance in TOLERANCES:
        seconds, scores = cost_sample.tried(engine.with_tolerance(tolerance, seed=options["seed"]))
        # What estimates are measured by is exact, too.
        seconds += CALIBRATED * cost_sample.seconds / max(len(removals), 1)
        fits = seconds <= deadline - time.perf_counter()
        if fits:
            break
    found = cost_sample.agreement(scores)  # coarser ones agree no better
    over = "" if fits else ", more than the budget"
    choice = Choice(
        "exact",
        {**options, "tolerance": tolerance},
        f"{price}; with tolerance {tolerance:g}, removals should take {duration(seconds)}{over}, and on "
        f"{len(scores)} sampled {removed} its correlation with exact is {found.pearson:.4f}"
        f"{_accuracy(found)}",
        seconds,
        found.pearson,
        found.spearman,
        found.error,
    )
    return choice, found, fits


def _accuracy(found: Agreement) -> str:
    order = f"Spearman {found.spearman:.3f}, " if found.spearman == found.spearman else ""
    return f" ({order}median error {100 * found.error:.1f}%)"


def _samples_rows(engine: Engine) -> bool:
    """Whether a tolerance samples rows by importance, or can only leave changes out."""
    return bool(engine.importance.rows)


def _sketch_seconds(engine: Engine, problem: Problem, left: float) -> float:
    """The expected time of the sketch, from two backward passes and a sample; infinite if unsupported."""
    try:
        linearised = Linearised(engine)
    except UnsupportedError:
        return float("inf")
    prediction = linearised.prediction
    cotangent = torch.ones(2, *prediction.shape, device=prediction.device, dtype=prediction.dtype)
    start = time.perf_counter()
    gradients = linearised.gradients(cotangent)
    seconds = (time.perf_counter() - start) / 2 * SAMPLES
    if seconds > left:
        return seconds
    nodes = problem.nodes[shuffled(len(problem.nodes), 0)[:SAMPLED].to(problem.nodes.device)]
    start = time.perf_counter()
    linearised.projections(EditBatch.remove_nodes(nodes.to(prediction.device)), gradients, Tally())
    return seconds + (time.perf_counter() - start) / len(nodes) * len(problem.nodes)
