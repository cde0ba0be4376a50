"""Any removals, by any measures: the loop behind every question that scores many removals."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nora.engine.calibration import estimated
from nora.engine.changed import Removals
from nora.engine.edits import why_not
from nora.engine.effects import Effects, check_method
from nora.engine.engine import Engine
from nora.memory import parse_bytes
from nora.problem import Problem
from nora.problem.content import content_digest
from nora.problem.edit_resolution import Resolved
from nora.problem.measuring import (
    Asked,
    By,
    Measuring,
    groups_of,
    is_definition,
    items_of,
    measures_of,
)
from nora.progress import progress_bar
from nora.registry import nearest
from nora.results.checkpoint import Shards

if TYPE_CHECKING:
    from nora.questions.session import Session


@dataclass(frozen=True)
class How:
    """How the work is done.

    Attributes:
        tolerance: As in `exact`; 0 is exact.
        budget: Seconds that scoring may take where the tolerance is to be chosen; None where it is not.
        memory: What the chunks in work may take together, bytes.
        workers: Threads; None for all cores.
    """

    tolerance: float = 0.0
    memory: int = parse_bytes("2GB")
    workers: int | None = None
    budget: float | None = None

    @staticmethod
    def given(options: dict[str, Any], what: str, chooses: bool = False) -> How:
        """Options as a question takes them, checked.

        Args:
            options: What was given.
            what: What takes them, for messages.
            chooses: Whether it is to choose a tolerance by itself, within a budget.
        """
        known = ("budget" if chooses else "tolerance", "memory", "workers")
        for key in options:
            if key not in known:
                raise TypeError(
                    f"{what} has no option {key!r}.{nearest(key, list(known))} It takes: "
                    f"{', '.join(known)}"
                )
        tolerance, workers = float(options.get("tolerance", 0.0)), options.get("workers")
        if not 0 <= tolerance < 1:
            raise ValueError(f"tolerance must be a number from 0 up to 1, got {tolerance}")
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        budget = float(options.get("budget", 60.0))
        if not budget > 0:
            raise ValueError(f"budget must be positive, got {budget}")
        memory = parse_bytes(options.get("memory", "2GB"))
        return How(tolerance, memory, workers, budget if chooses else None)


def measuring_of(
    session: Session, problem: Problem, asked: Asked, by: By | None
) -> tuple[Problem, Measuring]:
    """The question on the classes that its measures look at, and what is summed."""
    classes = problem.task.counted_classes
    every = replace(problem, task=problem.task.on_every_class())
    with every.evaluating(), torch.no_grad():
        items = items_of(every, every.predict(), classes, session.masks, session.class_names)
    groups = groups_of(by, problem.data, items, session.class_names)
    if is_definition(asked, by):
        # The classes that count are then all that is predicted.
        alone = measures_of("change", replace(items, classes=None))
        return problem, Measuring(alone, problem.targets, definition=True)
    return every, Measuring(measures_of(asked, items), problem.targets, groups)


def one_measure(
    session: Session, problem: Problem, asked: Asked, what: str
) -> tuple[Problem, Measuring]:
    """As `measuring_of`, where a question is about one measure only; `what` says so in messages."""
    found, measuring = measuring_of(session, problem, asked, None)
    if len(measuring.measures) > 1:
        raise ValueError(
            f"{what} by one measure, got {len(measuring.measures)}: {', '.join(measuring.measures)}"
        )
    return found, measuring


def totals_of(
    effects: Effects, nodes: Tensor, measuring: Measuring | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield `(nodes, values [m])` part by part, every node removed by itself; None for the definition."""
    if measuring is None:
        yield from effects.totals(nodes)
        return
    for which, values in sums_of(effects, Removals.single(nodes), measuring, How()):
        yield nodes[which], values[:, 0]


def asked_for(measuring: Measuring, asked: Asked, by: By | None, key: str | None) -> dict[str, Any]:
    """What a fingerprint and provenance tell of the measures; nothing where it is the definition."""
    if measuring.definition:
        return {}
    told: dict[str, Any] = {"measure": list(measuring.measures)}
    if by is not None:
        told["by"] = by if isinstance(by, str) else content_digest({"by": by}, key=key)
    functions = [one for one in _each(asked) if not isinstance(one, str)]
    if functions:
        told["functions"] = content_digest({"measure": functions}, key=key)
    return told


def _each(asked: Any) -> list[Any]:
    if isinstance(asked, str) or callable(asked):
        return [asked]
    return list(asked.values() if hasattr(asked, "values") else asked)


def prepared_effects(
    session: Session, problem: Problem, method: str, removals: int, how: How
) -> Effects:
    """The effects of so many removals: by the engine where it pays and follows the model."""
    check_method(method)
    effects = Effects.prepare(problem, session.prepared, method, removals)
    if effects.engine is not None and how.tolerance > 0:
        effects = replace(effects, engine=effects.engine.with_tolerance(how.tolerance))
    return effects


def sums_of(
    effects: Effects, removals: Removals, measuring: Measuring, how: How
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield `(which, values [m, columns])` part by part, as they finish."""
    engine = effects.engine
    if engine is not None and measuring.definition and not why_not_followed(engine, removals):
        found = engine.in_chunks(engine.influences, removals, how.memory, how.workers)
        for which, values in found:
            yield which, values.cpu().unsqueeze(1)
        return
    for moves in effects.moves(removals, how.memory, how.workers):
        before = effects.before[moves.item]
        values = measuring.sums(
            before, moves.after, moves.item, moves.removal, len(moves.which), moves.weight
        )
        yield moves.which, values.cpu()


def estimates_of(
    engine: Engine, removals: Removals, how: How
) -> Generator[tuple[Tensor, Tensor], None, dict[str, Any]]:
    """Yield `(which, influences and their standard errors [m, 2])`; first some that are exact.

    Returns what these say of the estimates. The engine is one with a tolerance.
    """
    removed = "edges" if removals.edge is not None else "nodes"
    exact = engine.with_tolerance(0)
    found = estimated(exact, engine, removals, how.memory, how.workers, removed)
    try:
        while True:
            which, *scored = next(found)
            yield which, torch.stack([one.double() for one in scored], dim=1)
    except StopIteration as stop:
        facts: dict[str, Any] = stop.value
        return facts


def why_not_followed(engine: Engine, removals: Removals) -> str:
    """Why the engine does not tell the effect of these removals; empty where it does."""
    if removals.edge is None:
        return ""
    none = torch.empty(0, dtype=torch.long)
    return why_not(engine, Resolved(none, {}, removals.edge.cpu(), {}, {}))


def collected(
    effects: Effects,
    removals: Removals,
    ids: Tensor,
    measuring: Measuring,
    how: How,
    shards: Shards | None,
    label: str,
    progress: bool,
    others: Iterator[tuple[Tensor, Tensor]] | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield `(ids, values [m, columns])` of every finished part, which is kept at once.

    Args:
        effects: The effects.
        removals: What is removed.
        ids: What stands for each removal in results `[removals]`.
        measuring: What is summed.
        how: How the work is done.
        shards: Where finished parts are kept; None for nowhere.
        label: What the progress bar says.
        progress: Whether to show one.
        others: The finished parts, where others compute them.
    """

    def here() -> Iterator[tuple[Tensor, Tensor]]:
        for which, values in sums_of(effects, removals, measuring, how):
            yield ids[which], values

    with progress_bar(label, len(removals), progress) as advance:
        try:
            for done, values in here() if others is None else others:
                if shards is not None:
                    shards.add(done, values)
                advance(len(done))
                yield done, values
        finally:
            if shards is not None:
                shards.flush()
