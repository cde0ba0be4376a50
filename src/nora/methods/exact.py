"""The definition's numbers by incremental recomputation: only what a removal changes.

Removing `r` changes nothing beyond the reach of the model's layers. The engine in
`nora.engine` keeps the original rows of every layer and recomputes, for many removals at once,
only the rows that change.

With `tolerance > 0` the scores are estimates. Of the rows that a removal reaches only some are computed,
sampled at random by importance, and weighted for the others (`nora.engine.estimate.sampling`); the
tolerance is the relative error that is aimed at, for hubs as for leaves. A few removals, of hubs and of
leaves, are done exactly beside their estimates. They show how far estimates are off on this model and
graph: scores are corrected by their bias, and every score gets its standard error from the rest
(`nora.engine.estimate.calibration`). The 20 first are then computed exactly. Where errors are much larger
than the tolerance, it warns.

`parts_of` does this for removals of any kind, nodes or edges, alone or in groups, and for any measures; the
method `exact` is the same for single nodes and the definition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nora.engine.edit_support import unsupported_edits
from nora.engine.effects import ChangedPredictions, Effects
from nora.engine.engine import Engine
from nora.engine.estimate.calibration import estimated
from nora.engine.exec.kernels.choice import BackendName
from nora.engine.prepared import Prepared
from nora.engine.unsupported import UnsupportedError
from nora.engine.verify import is_slower
from nora.graph.edit_batch import EditBatch
from nora.memory import parse_bytes
from nora.methods import METHODS, MethodFacts, Part
from nora.model import Problem
from nora.model.checks import check_deterministic
from nora.model.measuring import Measuring
from nora.stacklevel import warn

# What is made of changed predictions: the sums of measures `[m, columns]`, the definition's change `[m, 1]`
# (None), or whatever a function of the predictions on `G` and those that change returns.
Measures = Measuring | Callable[[Tensor, ChangedPredictions], Any] | None
NO_FASTER = "a full pass for every {removed} takes no longer here"


class ScoredPart(NamedTuple):
    """A finished part.

    Attributes:
        which: The removals, by position or by their ids in results `[m]`.
        values: Their values `[m, columns]`, or whatever measures have made of them.
        errors: Standard errors of estimates `[m]`; None where values are exact.
    """

    which: Tensor
    values: Any
    errors: Tensor | None = None


@dataclass(frozen=True)
class ExactOptions:
    """The options of `exact`, checked.

    Attributes:
        tolerance: The relative error that estimates aim at; 0 is exact.
        memory: What the chunks in work may take together, bytes.
        workers: Threads; None for all cores.
        verify: Removals compared with brute force before the run; None for what becomes so many.
        backend: `compiled`, `vectorised` or `auto`.
        seed: Seed of the verified removals, and of the sampling.
    """

    tolerance: float = 0.0
    memory: int = parse_bytes("2GB")
    workers: int | None = None
    verify: int | None = None
    backend: BackendName = "auto"
    seed: int = 0

    @staticmethod
    def of(options: Mapping[str, Any]) -> ExactOptions:
        """Options as users give them, with memory as text or a number."""
        return ExactOptions(**{**options, "memory": parse_bytes(options.get("memory", "2GB"))})

    def __post_init__(self) -> None:
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance must not be negative, got {self.tolerance}")
        if self.tolerance >= 1:
            raise ValueError(
                "tolerance is the relative error aimed at, and must be below 1, got "
                f"{self.tolerance:g}; 0.05 is a good start"
            )
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1, got {self.workers}")
        if self.verify is not None and self.verify < 0:
            raise ValueError(f"verify must not be negative, got {self.verify}")


DEFAULTS = ExactOptions()
# The engine, or None for full passes; and why, as facts of the run.
Ready = tuple[Engine | None, dict[str, Any]]


@METHODS.register(
    "exact",
    "the same numbers as brute, by recomputing only what changes: hundreds of times faster",
    MethodFacts(
        uses_engine=True,
        exact=True,
        runs_again=True,
        execution_options=("memory", "verify", "workers", "backend", "seed"),
        errors_unless={"tolerance": (0.0,)},
    ),
)
def exact(
    problem: Problem,
    prepared: Prepared,
    *,
    tolerance: float = 0.0,
    memory: str | float = "2GB",
    verify: int | None = None,
    workers: int | None = None,
    backend: BackendName = "auto",
    seed: int = 0,
) -> Generator[Part, None, dict[str, Any]]:
    """Yield `F(r)` chunk by chunk.

    Args:
        problem: The question.
        prepared: What is prepared for the exact engine.
        tolerance: 0 is exact; see the module for what more means.
        memory: What the chunks in work may take together, e.g. `"2GB"`.
        verify: Removals compared with `brute` before the run; 0 for none. By default 8 in long runs,
            fewer in short ones: one in 5,000, at least 2.
        workers: Threads; all cores by default.
        backend: `compiled` (numba), `vectorised` (torch) or `auto`.
        seed: Seed of the verified removals, and of the samples of a tolerance.
    """
    how = ExactOptions(tolerance, parse_bytes(memory), workers, verify, backend, seed)
    removals = EditBatch.remove_nodes(problem.nodes.cpu())
    ready = engine_for(problem, prepared, removals, how, quickest=True)
    if ready[0] is None and "verified" not in ready[1]:
        with torch.no_grad():
            check_deterministic(problem)
    parts = parts_of(problem, prepared, removals, None, how, ready=ready)
    return (yield from _of_nodes(parts, problem.nodes))


def _of_nodes(
    parts: Generator[ScoredPart, None, dict[str, Any]], nodes: Tensor
) -> Generator[Part, None, dict[str, Any]]:
    """The parts by node ids, `(ids, scores [m])` or `(ids, scores, errors)`."""
    with closing(parts):
        while True:
            try:
                which, values, errors = next(parts)
            except StopIteration as stop:
                return dict(stop.value)
            ids, scores = nodes[which.to(nodes.device)], values[:, 0]
            yield (ids, scores) if errors is None else (ids, scores, errors)


def parts_of(
    problem: Problem,
    prepared: Prepared,
    removals: EditBatch,
    measures: Measures = None,
    how: ExactOptions = DEFAULTS,
    count: int | None = None,
    ready: Ready | None = None,
) -> Generator[ScoredPart, None, dict[str, Any]]:
    """Yield finished parts, with standard errors of estimates.

    By the engine where it pays and follows the model and the removals, else by a full pass for each. Returns
    facts about the run: `followed` (`engine`, `brute`, or `mixed` where some removals got a full pass),
    `backend`, `fallback` with its reason, `verified`, `estimated`, `full_passes`.

    Args:
        problem: The question.
        prepared: What is prepared for the exact engine.
        removals: What is removed.
        measures: What is made of the predictions that change.
        how: How the work is done.
        count: How many removals are asked about in all, where these are some of them.
        ready: What `engine_for` has returned, where it was called before.
    """
    engine, facts = ready or engine_for(problem, prepared, removals, how, count)
    if engine is None:
        yield from passes(problem, removals, measures)
        return {"followed": "brute", **facts}
    start = time.perf_counter()
    done: list[Tensor] = []
    with closing(_by_engine(engine, removals, measures, how)) as parts:
        while True:
            try:
                part = next(parts)
            except StopIteration as stop:
                facts |= stop.value
                break
            except (RuntimeError, IndexError, ValueError, TypeError) as error:
                # What went well for the verified removals may still meet a case that a step does not know.
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                left = torch.ones(len(removals), dtype=torch.bool)
                left[torch.cat([*done, torch.empty(0, dtype=torch.long)])] = False
                rest = left.nonzero().flatten()
                warn(
                    f"exact falls back to brute force for {len(rest)} {_removed(removals)}s: a step failed "
                    f"({reason})",
                    RuntimeWarning,
                )
                for which, values, _ in passes(problem, removals.pick(rest), measures):
                    yield ScoredPart(rest[which], values)
                return {"fallback": reason, **facts, "followed": "mixed" if done else "brute"}
            done.append(part.which)
            if isinstance(part.values, ChangedPredictions):
                part = ScoredPart(part.which, reduced(engine.before, measures, part.values))
            yield part
    passed = facts.get("full_passes", 0)
    return {
        "followed": "mixed" if 0 < passed < len(removals) else "brute" if passed else "engine",
        "backend": engine.backend.__name__.rpartition(".")[2],
        "removal_seconds": time.perf_counter() - start,
        **facts,
    }


def engine_for(
    problem: Problem,
    prepared: Prepared,
    removals: EditBatch,
    how: ExactOptions = DEFAULTS,
    count: int | None = None,
    quickest: bool = False,
) -> Ready:
    """The engine for these removals, or None for full passes, and the reason as facts of the run.

    Args:
        problem: The question.
        prepared: What is prepared for the exact engine.
        removals: What is removed.
        how: How the work is done.
        count: How many removals are asked about in all, where these are some of them.
        quickest: Take full passes where checking the engine has shown that they are quicker.
    """
    removed = _removed(removals)
    count = len(removals) if count is None else count
    as_it_comes = how.backend == "auto" and how.verify is None and how.tolerance == 0
    if as_it_comes and not prepared.pays(problem, count):
        prepared.count_passes(len(removals))
        return None, {"backend": "brute", "reason": NO_FASTER.format(removed=removed)}
    try:
        engine = prepared.engine(problem, how.backend, count)
        checked = {} if how.verify == 0 else prepared.verify(engine, how.verify, how.seed, count)
    except UnsupportedError as error:
        warn(f"exact falls back to brute force: {error}", RuntimeWarning)
        return None, {"fallback": str(error)}
    if reason := unsupported_edits(engine, removals):
        warn(f"exact falls back to a full pass for every edge: {reason}", RuntimeWarning)
        return None, {"fallback": reason}
    if quickest and how.tolerance == 0 and is_slower(checked, count):
        return None, {**checked, "backend": "brute", "reason": NO_FASTER.format(removed=removed)}
    return engine, dict(checked)


def is_sampled(engine: Engine | None, how: ExactOptions, measures: Measures) -> bool:
    """Whether scores are estimates with standard errors: of the definition, by rows that are sampled."""
    if engine is None or how.tolerance == 0 or not _is_definition(measures):
        return False
    return bool(engine.importance.rows)


def _is_definition(measures: Measures) -> bool:
    return measures is None or (isinstance(measures, Measuring) and measures.definition)


def _removed(removals: EditBatch) -> str:
    return "edge" if len(removals.edge) else "node"


def reduced(before: Tensor, measures: Measures, moves: ChangedPredictions) -> Any:
    """The measures of changed predictions."""
    if not isinstance(measures, Measuring):
        assert measures is not None, "the definition is summed by the engine, or by a full pass"
        return measures(before, moves)
    item, count = moves.item, len(moves.which)
    return measures.sums(before[item], moves.after, item, moves.removal, count, moves.weight).cpu()


def passes(problem: Problem, removals: EditBatch, measures: Measures) -> Iterator[ScoredPart]:
    """Yield the same by the definition: a full forward pass for every removal."""
    with torch.no_grad():
        effects = Effects(problem, problem.predict())
        if not _is_definition(measures) or len(removals.edge):
            for moves in effects.moves(removals):
                yield ScoredPart(moves.which, reduced(effects.before, measures, moves))
            return
        for at, nodes in enumerate(removals.node.tensor_split(removals.ptr[1:-1].cpu())):
            after, survivors = problem.predict_without(nodes)
            change = problem.total_change(effects.before, after, survivors)
            yield ScoredPart(torch.tensor([at]), change.reshape(1, 1))


def _by_engine(
    engine: Engine, removals: EditBatch, measures: Measures, how: ExactOptions
) -> Generator[ScoredPart, None, dict[str, Any]]:
    """Yield finished parts; with changed predictions as values where measures are to make values of them."""
    rough = engine.with_tolerance(how.tolerance, how.seed) if how.tolerance else engine
    facts: dict[str, Any] = {}
    before = rough.tally.full_passes
    if how.tolerance > 0 and not engine.importance.rows:
        warn(
            "a tolerance saves nothing with this model: none of its layers can be estimated by sampled "
            "rows (sums and attention of known convolutions can), so scores will be exact",
            UserWarning,
        )
    if is_sampled(engine, how, measures):
        facts["estimated"] = yield from _estimated(engine, rough, removals, how)
    elif _is_definition(measures):
        found = rough.in_chunks(rough.influences, removals, how.memory, how.workers)
        for which, values in found:
            yield ScoredPart(which, values.cpu().unsqueeze(1))
    else:
        effects = Effects(engine.problem, engine.before, rough)
        for moves in effects.moves(removals, how.memory, how.workers):
            yield ScoredPart(moves.which, moves)
    if passed := rough.tally.full_passes - before:
        facts["full_passes"] = passed
    return facts


def _estimated(
    engine: Engine, rough: Engine, removals: EditBatch, how: ExactOptions
) -> Generator[ScoredPart, None, dict[str, Any]]:
    """Yield estimates with their standard errors; first some that are exact. Returns facts about these."""
    removed = f"{_removed(removals)}s"
    found = estimated(engine, rough, removals, how.memory, how.workers, removed)
    while True:
        try:
            which, scores, errors = next(found)
        except StopIteration as stop:
            facts: dict[str, Any] = stop.value
            return facts
        yield ScoredPart(which, scores.unsqueeze(1), errors)
