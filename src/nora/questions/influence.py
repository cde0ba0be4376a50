"""How much would everybody else's prediction change, had each node been removed?"""

from __future__ import annotations

import inspect
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nora.arguments import check_options, path_of
from nora.engine.prepared import Prepared
from nora.memory import parse_bytes
from nora.methods import METHODS, MethodEntry, Part
from nora.options import option
from nora.problem import Problem, Transform
from nora.problem.calling import Forward
from nora.problem.fingerprint import fingerprint
from nora.problem.known_influences import Labels
from nora.problem.measuring import Asked, By
from nora.problem.node_index import Graph, Nodes
from nora.problem.task import Task
from nora.progress import progress_bar
from nora.questions.recomputed import check_finished
from nora.questions.session import Session
from nora.registry import nearest
from nora.results.checkpoint import STDERR, Shards, begun_with
from nora.results.influence import Influence
from nora.stacklevel import warn


def influence(
    model: nn.Module,
    data: Graph,
    method: str = "auto",
    task: Task | None = None,
    *,
    nodes: Nodes | None = None,
    targets: Nodes | None = None,
    forward: Forward | None = None,
    transform: Transform | None = None,
    strict: bool = False,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    labels: Labels | None = None,
    checkpoint: str | Path | None = None,
    measure: Asked = "change",
    by: By | None = None,
    key: str | None = None,
    executor: Any = None,
    progress: bool = True,
    **options: Any,
) -> Influence:
    """How much would everybody else's prediction change, had each node been removed?

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph, with `x` and `edge_index`; or a `HeteroData`, see `nora.problem.node_index`.
        method: A name from `nora methods`. `auto` takes `exact`, which gives the definition's numbers,
            where it fits `budget=60` seconds, else the best estimate that does, and says so.
        task: What is predicted; node classification from logits by default.
        nodes: Score only these (ids or mask); the others get NaN. With node types e.g.
            `{"author": [3, 17]}`, or `"author"` for all of a type.
        targets: Count only the change of these predictions: node ids, or for links positions in
            `task.pairs`.
        forward: `(model, data) -> output` for models not called as `model(x, edge_index)`.
        transform: `data -> data`, for models of structure that is computed beforehand: applied to the
            graph, and again without each node, before the model sees it. E.g. PyG's `SIGN(2)`.
        strict: Refuse structure in `data` that was recognised as computed beforehand (normalised weights,
            positional encodings, degrees), instead of warning of it.
        names: The nodes' names, `[num_nodes]`: results show them, and nodes may be given by name.
        class_names: The classes' names, by which results show classes and measures may name them.
        labels: True influences of some nodes, for methods that learn from them: an `Influence` of
            these nodes, `(ids, influences)`, or a mapping.
        checkpoint: Folder for finished parts; a second call with the same input resumes there.
        measure: What is summed over the predictions that change: `change` (how far they move: the
            definition), `flips` (how many go to another class), `loss` and `accuracy` (the change of their
            mean against `data.y`, on a mask by `loss:test`), `class:NAME` or `class:2` (the change of a
            class's probability, with its sign), or a function `(before [Q, C], after [Q, C], items [Q]) ->
            values [Q]` of the predictions that change. Several in a list, or functions by name in a
            dictionary: the first gives the scores, the others `columns`. Other measures than `change`
            are told by `exact` and `brute`.
        by: A categorical attribute of the nodes whose predictions move, its name in `data` or a value per
            node: every measure gets a column per group, `change of left`.
        key: A name of your own that stands for what in the model cannot be compared between two calls,
            e.g. an open file; a checkpoint asks for it then.
        executor: Who does the work, for exact values: None for threads of this process, a
            `concurrent.futures.ProcessPoolExecutor` or the like, or a `nora.RayCluster`. `auto` is then
            `exact`, and `memory` is that of each process.
        progress: Show a progress bar.
        **options: The method's own options.

    Returns:
        Scores `[num_nodes]` with their provenance.

    Example:
        >>> import nora
        >>> dataset = nora.load_dataset("karate")
        >>> model = nora.train("gcn", dataset, epochs=5, progress=False).model
        >>> scores = nora.influence(model, dataset.data, progress=False)
        >>> len(scores.top(3))
        3
    """
    if isinstance(method, str):
        METHODS[method]  # a slip in the name is answered before anything else
    session = Session(
        model,
        data,
        task,
        forward=forward,
        transform=transform,
        strict=strict,
        targets=targets,
        names=names,
        class_names=class_names,
        once=True,
    )
    return session.influence(
        method,
        nodes=nodes,
        labels=labels,
        checkpoint=checkpoint,
        measure=measure,
        by=by,
        key=key,
        executor=executor,
        progress=progress,
        **options,
    )


def score_nodes(
    session: Session,
    method: str,
    nodes: Nodes | None,
    labels: Labels | None,
    checkpoint: str | Path | None,
    key: str | None,
    progress: bool,
    options: dict[str, Any],
    executor: Any = None,
) -> Influence:
    """See `influence`."""
    entry = METHODS["exact" if executor is not None and method == "auto" else method]
    bound = bind_options(entry, options)
    if executor is not None:
        _check_spread(entry, bound, executor)
    check_labels(entry, labels is not None)
    if session.restricted and not entry.facts.uses_targets:
        raise ValueError(
            f"method {method!r} does not look at predictions and cannot restrict itself to targets"
        )
    looks = progress and entry.facts.uses_model
    with progress_bar(f"{method}: checking the model", None, looks):
        problem = session.problem(
            nodes, labels, uses_model=entry.facts.uses_model, again=not entry.facts.runs_again
        )
    if entry.facts.uses_model:
        _check_direct(entry, problem)
    start = time.perf_counter()
    chosen: dict[str, Any] = {}
    with problem.evaluating(), _kept_for(session, executor, key):
        if entry.facts.chooses:
            with progress_bar(f"{method}: preparing, trying what fits", None, progress):
                entry, bound, chosen = _choose(entry, problem, session.prepared, bound, checkpoint)
            if not entry.facts.runs_again:
                session.problem(nodes)  # nobody has seen yet that it is deterministic
        errors = entry.facts.tells_errors(bound)
        if checkpoint is None:
            shards, todo = None, problem
        else:
            # Draws are made by a seed: with estimates it is no matter of how the work is done.
            draws = ("seed",) if errors else ()
            how = set(entry.facts.execution_options) - set(draws)
            telling = {key: value for key, value in bound.items() if key not in how}
            asked = fingerprint(problem, entry.name, telling, key)
            columns = ("change", STDERR) if errors else ("change",)
            place, alone = path_of(checkpoint, "checkpoint"), executor is not None
            shards = Shards.open(place, asked, problem, columns, alone=alone)
            todo = shards.remaining(problem)
            if entry.facts.exact and not bound.get("tolerance"):
                check_finished(shards, problem, todo)
        spread = None if executor is None else _spread(session, executor, todo, bound, key)
        scores, stderr, details = collect(
            entry, todo, bound, session.prepared, shards, progress, spread
        )
        if shards is not None:
            scores = shards.scores()
            stderr = shards.values()[:, 1] if errors else None
    if entry.facts.runs_again:
        session.seen_again()
    if problem.task.counted_classes is not None:
        details = {**details, "classes": list(problem.task.counted_classes)}
    if problem.by_id:
        details = {**details, "removal": "isolated"}
    unasked = torch.ones(len(scores), dtype=torch.bool)
    unasked[problem.nodes] = False
    return Influence(
        scores=scores.masked_fill(unasked, float("nan")),
        stderr=None if stderr is None else stderr.masked_fill(unasked, float("nan")),
        method=entry.name,
        task=problem.task.name,
        options=bound,
        seconds=time.perf_counter() - start,
        details={**details, **chosen},
        names=session.names,
        node_types=problem.node_index.sizes(),
    )


def _check_spread(entry: MethodEntry, bound: dict[str, Any], executor: Any) -> None:
    """Raise unless an executor can do the work."""
    from nora.questions.spread import check_spread

    check_spread(executor, entry.name, bound.get("tolerance"), bound.get("workers"))


def _kept_for(session: Session, executor: Any, key: str | None) -> AbstractContextManager[None]:
    from nora.questions.spread import kept_for

    return kept_for(session, executor, key)


def _spread(
    session: Session, executor: Any, problem: Problem, bound: dict[str, Any], key: str | None
) -> Generator[Part, None, dict[str, Any]]:
    """Yield the exact influence of nodes as others compute it."""
    from nora.questions.spread import Spread
    from nora.questions.workers import Question

    spread = Spread(session, executor, key)
    question = Question("nodes", memory=parse_bytes(bound["memory"]))
    for ids, values in spread.answers(question, problem.nodes, problem):
        yield ids, values[:, 0]
    return spread.facts()


def _choose(
    entry: MethodEntry,
    problem: Problem,
    prepared: Prepared,
    options: dict[str, Any],
    checkpoint: str | Path | None,
) -> tuple[MethodEntry, dict[str, Any], dict[str, Any]]:
    """The method that a choosing method chooses, its options, and what to say of it.

    A checkpoint that is there goes on with what it was begun with.
    """
    begun = None if checkpoint is None else begun_with(Path(checkpoint))
    if begun is not None:
        name, given = begun
        if name not in ("exact", "cauchy", "nora"):
            raise ValueError(
                f"{checkpoint} holds scores of {name!r}: ask with {option('method', name)}"
            )
        if name != "exact" or given.get("tolerance"):
            warn(f"auto goes on with the estimate {name} {given}", UserWarning)
        given["memory"] = options["memory"]
        facts = {"method": name, "reason": "the checkpoint was begun with it"}
    else:
        choice = entry.value(problem, prepared, **options)
        name, given, facts = choice.method, choice.options, choice.facts()
    picked = METHODS[name]
    return picked, bind_options(picked, given), {"auto": facts}


def _check_direct(entry: MethodEntry, problem: Problem) -> None:
    """Raise when a method needs rows of nodes, and the model returns the pairs' scores."""
    if problem.direct and not (entry.facts.exact or entry.facts.chooses):
        raise ValueError(
            f"method {entry.name!r} needs an output per node, but the model scores pairs itself (its "
            f"forward takes edge_label_index): use {option('method', 'exact')} or 'brute', or split it into "
            "encode(x, edge_index) and decode(z, pairs)"
        )


def check_labels(entry: MethodEntry, given: bool) -> None:
    """Raise when a method that learns from labels has none, or one that does not is given some."""
    wants = entry.facts.labels
    if wants == "required" and not given:
        raise ValueError(
            f"method {entry.name!r} learns from the true influence of some nodes: pass "
            "labels=(ids, influences), e.g. labels=nora.influence(model, data, nodes=sample)"
        )
    if wants is None and given:
        remedy = (
            f"To find its options by them, use nora.tune(…, method={entry.name!r}, labels=…)"
            if entry.facts.tunable
            else "Leave them out"
        )
        raise ValueError(f"method {entry.name!r} does not learn from labels. {remedy}")


def collect(
    entry: MethodEntry,
    problem: Problem,
    options: dict[str, Any],
    prepared: Prepared | None = None,
    shards: Shards | None = None,
    progress: bool = False,
    result: Iterator[Part] | None = None,
) -> tuple[Tensor, Tensor | None, dict[str, Any]]:
    """Scores, their standard errors if the method tells any, and facts about the run.

    Every finished part is kept at once, so that an interruption loses little. `result` are the method's parts
    where others compute them.
    """
    if result is not None:
        pass
    elif entry.facts.uses_engine:
        result = entry.value(problem, prepared or Prepared(), **options)
    else:
        result = entry.value(problem, **options)
    if isinstance(result, Tensor):
        whole = _checked_scores(entry.name, result.detach().cpu(), problem.num_nodes)
        if shards is not None:
            shards.write(problem.nodes, whole[problem.nodes])
        return whole, None, {}
    scores: Tensor | None = None
    tells_errors = entry.facts.tells_errors(options)
    errors: Tensor | None = None
    parts = _parts_of(entry.name, result)
    with progress_bar(f"{entry.name}: removing nodes", len(problem.nodes), progress) as advance:
        try:
            while True:
                part: Part = next(parts)
                ids = part[0].cpu()
                values = _checked_scores(entry.name, part[1].detach().cpu(), len(ids))
                if scores is None:
                    scores = torch.full((problem.num_nodes,), float("nan"), dtype=values.dtype)
                scores[ids] = values
                if tells_errors:
                    # A part without errors is exact.
                    off = part[2].detach().cpu() if len(part) > 2 else torch.zeros_like(values)
                    errors = torch.full_like(scores, float("nan")) if errors is None else errors
                    errors[ids] = off.to(errors.dtype)
                    values = torch.stack([values, off.to(values.dtype)], dim=1)
                if shards is not None:
                    shards.add(ids, values)
                advance(len(ids))
        except StopIteration as stop:
            details = stop.value or {}
        finally:
            # First what is finished: closing waits for chunks that are still running.
            if shards is not None:
                shards.flush()
            if inspect.isgenerator(parts):
                parts.close()
    if scores is None:
        scores = torch.full((problem.num_nodes,), float("nan"))
    return scores, errors, details


def _checked_scores(method: str, scores: Tensor, count: int) -> Tensor:
    """What a method returned for so many nodes, as numbers with a point."""
    if scores.shape != (count,):
        raise ValueError(
            f"the method {method!r} must give one score per node, [{count}]; it gave "
            f"{list(scores.shape)}"
        )
    return scores if scores.is_floating_point() else scores.to(torch.get_default_dtype())


def _parts_of(method: str, result: Any) -> Iterator[Part]:
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


def bind_options(entry: MethodEntry, options: dict[str, Any]) -> dict[str, Any]:
    """The method's options with defaults filled in; an unknown one is an error with a remedy."""
    known = {
        key: parameter.default
        for key, parameter in inspect.signature(entry.value).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for key in options:
        if key not in known:
            takes = ", ".join(known) or "no options"
            raise TypeError(
                f"method {entry.name!r} has no option {key!r}.{nearest(key, list(known))} "
                f"It takes: {takes}"
            )
    # NumPy's numbers would not fit into provenance.
    given = {
        key: value.item() if hasattr(value, "item") else value for key, value in options.items()
    }
    check_options(repr(entry.name), entry.value, given)
    # A tuple would come back from a saved file as a list.
    bound = {**known, **given}
    return {key: list(v) if isinstance(v, tuple) else v for key, v in bound.items()}
