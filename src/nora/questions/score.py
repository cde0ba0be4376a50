"""The loop behind every question that scores many removals: nodes or edges, by any method and any measures.

`score` yields finished parts, computed by this process or by an executor. `tracked` shows them in a progress
bar and keeps them in a checkpoint. `collected` runs them to the end. What decides between exact, estimate and
full passes is `nora.methods.auto.Budget` and `nora.methods.exact.engine_for`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from nora.arguments import path_of
from nora.engine.effects import ChangedPredictions, check_method
from nora.engine.prepared import Prepared
from nora.graph.edit_batch import EditBatch
from nora.methods import MethodEntry, Part
from nora.methods.exact import DEFAULTS, ExactOptions, Measures, Ready, ScoredPart, parts_of, passes
from nora.model import Problem
from nora.model.content import content_digest
from nora.model.fingerprint import fingerprint
from nora.model.measuring import (
    By,
    MeasureNames,
    Measuring,
    groups_of,
    items_of,
    measures_of,
)
from nora.progress import progress_bar
from nora.registry import check_known
from nora.results.checkpoint import Shards

if TYPE_CHECKING:
    from nora.questions.executors import Remote
    from nora.questions.session import Session

# Finished parts; facts about the run are returned at the end.
ScoredParts = Generator[ScoredPart, None, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Batch:
    """Removals that are scored one by one, and their ids in results.

    Attributes:
        of: `nodes` or `edges`.
        ids: Nodes by global ids, or places in the list of all edges `[n]`.
        removals: What goes with each `[n]`.
    """

    of: Literal["nodes", "edges"]
    ids: Tensor
    removals: EditBatch

    @staticmethod
    def nodes(ids: Tensor) -> Batch:
        """Every node by itself."""
        ids = ids.cpu()
        return Batch("nodes", ids, EditBatch.remove_nodes(ids))

    @staticmethod
    def edges(session: Session, places: Tensor) -> Batch:
        """Every edge by itself."""
        return Batch("edges", places, EditBatch.remove_edges(*session.edge_units).pick(places))

    def __len__(self) -> int:
        return len(self.ids)

    def pick(self, which: Tensor) -> Batch:
        """Some of them `[m]`, in this order."""
        return Batch(self.of, self.ids[which], self.removals.pick(which))

    def kept(self, ids: Tensor) -> Batch:
        """Those whose ids are among these."""
        return self.pick(torch.isin(self.ids, ids).nonzero().flatten())


def score(
    session: Session,
    problem: Problem,
    batch: Batch,
    measures: Measures = None,
    *,
    method: str = "exact",
    how: ExactOptions = DEFAULTS,
    count: int | None = None,
    at_once: int | None = None,
    ready: Ready | None = None,
    remote: Remote | None = None,
) -> ScoredParts:
    """Yield finished parts: ids, values, and standard errors of estimates.

    Returns facts about the run. The model is to be in eval mode, without gradients (`problem.evaluating()`).

    Args:
        session: The session.
        problem: The question: which predictions and classes count.
        batch: What is removed.
        measures: What is made of the predictions that change; None for the definition.
        method: `exact` or `brute`.
        how: How they do the work.
        count: How many removals will be asked about in all, where these are some of them.
        at_once: Finish so many, in the batch's order, before the next are begun; by default the costliest go
            first.
        ready: What `engine_for` has returned, where it was called before.
        remote: The executor that computes, if not this process.
    """
    check_method(method)
    if remote is not None:
        return (yield from remote.answers(batch, problem, at_once))
    pieces = [batch]
    if at_once is not None:
        pieces = [batch.pick(some) for some in torch.arange(len(batch)).split(at_once)]
    count = len(batch) if count is None else count
    facts: dict[str, Any] = {}
    for piece in pieces:
        removals = piece.removals
        if method == "brute":
            parts: Any = passes(problem, removals, measures)
        else:
            parts = parts_of(problem, session.prepared, removals, measures, how, count, ready)
        with closing(parts):
            while True:
                try:
                    which, values, errors = next(parts)
                except StopIteration as stop:
                    facts = stop.value or {}
                    break
                yield ScoredPart(piece.ids[which], values, errors)
    return facts


def tracked(
    parts: Iterator[ScoredPart],
    total: int,
    label: str,
    progress: bool,
    shards: Shards | None = None,
) -> ScoredParts:
    """Pass on finished parts, and show the progress.

    Args:
        parts: What is yielded.
        total: How many removals there are.
        label: What the progress bar shows.
        progress: Show a progress bar.
        shards: The checkpoint that each part is kept in at once, so that an interruption loses little.
    """
    with progress_bar(label, total, progress) as advance:
        try:
            while True:
                try:
                    part = next(parts)
                except StopIteration as stop:
                    return dict(stop.value or {})
                if shards is not None:
                    shards.add(part.which, columns_of(part, len(shards.columns)))
                advance(len(part.which))
                yield part
        finally:
            # First what is finished: closing waits for chunks that are still running.
            if shards is not None:
                shards.flush()
            if inspect.isgenerator(parts):
                parts.close()


def columns_of(part: ScoredPart, columns: int) -> Tensor:
    """A part's values `[m, columns]`, the last of which are its standard errors if there is one more."""
    values: Tensor = part.values.detach().cpu()
    if columns == values.size(1):
        return values
    # A part without errors is exact.
    off = torch.zeros_like(values[:, 0]) if part.errors is None else part.errors.detach().cpu()
    return torch.cat([values, off.to(values.dtype).unsqueeze(1)], dim=1)


def collected(parts: ScoredParts, size: int, columns: int) -> tuple[Tensor, dict[str, Any]]:
    """All parts as a table `[size, columns]`, NaN where nothing was scored, and facts about the run."""
    table: Tensor | None = None
    while True:
        try:
            part = next(parts)
        except StopIteration as stop:
            if table is None:
                table = torch.full((size, columns), float("nan"))
            return table, stop.value or {}
        values = columns_of(part, columns)
        if table is None:
            table = torch.full((size, columns), float("nan"), dtype=values.dtype)
        table[part.which] = values


def method_parts(
    entry: MethodEntry, problem: Problem, options: dict[str, Any], prepared: Prepared | None = None
) -> ScoredParts:
    """Yield what a method of nodes returns or yields, checked, as parts."""
    given = (prepared or Prepared(),) if entry.facts.uses_engine else ()
    result = entry.value(problem, *given, **options)
    if isinstance(result, Tensor):
        whole = _checked(entry.name, result.detach().cpu(), problem.num_nodes)
        yield ScoredPart(problem.nodes.cpu(), whole[problem.nodes.cpu()].unsqueeze(1))
        return {}
    parts = _parts_in(entry.name, result)
    try:
        while True:
            try:
                ids, scores, *errors = next(parts)
            except StopIteration as stop:
                return stop.value or {}
            scores = _checked(entry.name, scores.detach().cpu(), len(ids))
            yield ScoredPart(ids.cpu(), scores.unsqueeze(1), errors[0] if errors else None)
    finally:
        if inspect.isgenerator(parts):
            parts.close()


def _checked(method: str, scores: Tensor, count: int) -> Tensor:
    """Check the scores that a method returned for this many nodes, and convert them to floats."""
    if scores.shape != (count,):
        raise ValueError(
            f"the method {method!r} must give one score per node, [{count}]; it gave "
            f"{list(scores.shape)}"
        )
    return scores if scores.is_floating_point() else scores.to(torch.get_default_dtype())


def _parts_in(method: str, result: Any) -> Iterator[Part]:
    """The finished parts that a method yields."""
    if not isinstance(result, Iterable) or isinstance(result, str):
        raise TypeError(
            f"the method {method!r} must return a tensor of scores or yield parts (node ids, scores); it "
            f"returned {type(result).__name__}"
        )
    return _pairs(method, result) if isinstance(result, Sequence) else iter(result)


def _pairs(method: str, result: Sequence[Any]) -> Iterator[Part]:
    for part in result:
        if not isinstance(part, tuple) or not all(isinstance(one, Tensor) for one in part):
            raise TypeError(
                f"the method {method!r} returned a list of {type(part).__name__}: return a tensor of "
                "scores, or parts (node ids, scores)"
            )
        yield part


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A folder that keeps finished parts.

    Attributes:
        folder: Where; None for nowhere.
        key: A name that stands for what cannot be compared between two calls.
        alone: Refuse a folder that another such driver is writing to.
        edges: All edges of the graph, where edges are removed.
    """

    folder: str | Path | None
    key: str | None = None
    alone: bool = False
    edges: Any = None

    def open(
        self, problem: Problem, method: str, telling: dict[str, Any], columns: Sequence[str]
    ) -> Shards | None:
        """The open folder, begun or continued; one that belongs to another run is refused."""
        if self.folder is None:
            return None
        asked = fingerprint(problem, method, telling, self.key)
        place = path_of(self.folder, "checkpoint")
        return Shards.open(place, asked, problem, columns, self.edges, self.alone)


def how_given(options: dict[str, Any], what: str, known: Sequence[str]) -> ExactOptions:
    """The options of a question, checked.

    Args:
        options: What was given.
        what: What takes them, for messages.
        known: The names it takes.
    """
    check_known(what, options, known)
    return ExactOptions.of({name: value for name, value in options.items() if name != "budget"})


def is_definition(asked: MeasureNames, by: By | None) -> bool:
    """Whether only the change of all predictions is requested."""
    given = list(asked) if isinstance(asked, list | tuple) else [asked]
    return by is None and len(given) == 1 and isinstance(given[0], str) and given[0] == "change"


def measuring_of(
    session: Session, problem: Problem, asked: MeasureNames, by: By | None
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
    session: Session, problem: Problem, asked: MeasureNames, what: str
) -> tuple[Problem, Measuring]:
    """As `measuring_of`, where a question is about one measure only; `what` says so in messages."""
    found, measuring = measuring_of(session, problem, asked, None)
    if len(measuring.measures) > 1:
        raise ValueError(
            f"{what} by one measure, got {len(measuring.measures)}: {', '.join(measuring.measures)}"
        )
    return found, measuring


def asked_for(
    measuring: Measuring, asked: MeasureNames, by: By | None, key: str | None
) -> dict[str, Any]:
    """The measures in a fingerprint and in provenance; empty for the definition."""
    if measuring.definition:
        return {}
    facts: dict[str, Any] = {"measure": list(measuring.measures)}
    if by is not None:
        facts["by"] = by if isinstance(by, str) else content_digest({"by": by}, key=key)
    single = isinstance(asked, str) or callable(asked)
    each: Any = [asked] if single else getattr(asked, "values", lambda: asked)()
    functions = [one for one in each if not isinstance(one, str)]
    if functions:
        facts["functions"] = content_digest({"measure": functions}, key=key)
    return facts


def changed_predictions(
    problem: Problem, chosen: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> Callable[[Tensor, ChangedPredictions], tuple[Tensor, Tensor, Tensor]]:
    """For `score`: the changed predictions that count, as `removal`, `item` and a value of each.

    Args:
        problem: The question.
        chosen: From predictions before and after `[Q, …]` to which of them to keep, and their values `[Q]`.
    """

    def kept(before: Tensor, moves: ChangedPredictions) -> tuple[Tensor, Tensor, Tensor]:
        keep, value = chosen(before[moves.item], moves.after)
        if problem.targets is not None:
            keep = keep & problem.targets[moves.item]
        return moves.removal[keep].cpu(), moves.item[keep].cpu(), value[keep].cpu()

    return kept


def gathered(parts: ScoredParts) -> tuple[Tensor, ...]:
    """The `changed_predictions` of all parts, with what is removed by its id: three columns."""
    none = torch.empty(0, dtype=torch.long)
    rows = [(ids[removal], item, value) for ids, (removal, item, value), _ in parts]
    return tuple(torch.cat(column) for column in zip((none, none, none), *rows, strict=True))
