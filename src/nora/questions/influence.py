"""Score every node by how much its removal changes the predictions of the other nodes."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nora.arguments import check_options
from nora.engine.exec.kernels.choice import compiles_first
from nora.engine.prepared import Prepared
from nora.graph.node_index import Graph, Nodes
from nora.memory import parse_bytes
from nora.methods import METHODS, MethodEntry
from nora.methods.exact import DEFAULTS, ExactOptions, engine_for
from nora.model import Problem, Transform
from nora.model.calling import Forward
from nora.model.known_influences import Labels
from nora.model.measuring import By, MeasureNames, Measuring
from nora.model.task import Task
from nora.options import option
from nora.progress import progress_bar
from nora.questions.executors import Remote, check_remote, remote_for, saved_for
from nora.questions.recomputed import check_finished
from nora.questions.score import (
    Batch,
    Checkpoint,
    ScoredParts,
    asked_for,
    collected,
    is_definition,
    measuring_of,
    method_parts,
    score,
    tracked,
)
from nora.questions.session import Session
from nora.questions.workers import Question
from nora.registry import check_known
from nora.results.checkpoint import STDERR, Shards, begun_with
from nora.results.influence import Influence
from nora.stacklevel import warn


def influence(  # noqa: PLR0913
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
    measure: MeasureNames = "change",
    by: By | None = None,
    key: str | None = None,
    executor: Any = None,
    progress: bool = True,
    **options: Any,
) -> Influence:
    """Score every node by how much its removal changes the predictions of the other nodes.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph, with `x` and `edge_index`; or a `HeteroData`, see `nora.graph.node_index`.
        method: A name from `nora methods`. `auto` takes `exact`, which computes the influence as defined, if
            that fits `budget=60` seconds. Otherwise it takes the best estimate that fits, and warns.
        task: What is predicted; node classification from logits by default.
        nodes: Score only these (ids or mask); the others get NaN. In a `HeteroData`, for example `{"author":
            [3, 17]}`, or `"author"` for all nodes of a type.
        targets: Count only the change of these predictions: node ids, or positions in `task.pairs` for links.
        forward: `(model, data) -> output` for models not called as `model(x, edge_index)`.
        transform: `data -> data`, for structure that is computed before the model, such as PyG's `SIGN(2)`.
            NORA applies it to the graph, and again to the graph without each node.
        strict: Raise an error, not a warning, if `data` contains structure that was computed beforehand
            (normalised weights, positional encodings, degrees).
        names: Node names `[num_nodes]`. Results show them, and you can refer to nodes by name.
        class_names: Class names, used in results and in measures.
        labels: True influences of some nodes, for methods that learn from them: an `Influence` of
            these nodes, `(ids, influences)`, or a mapping.
        checkpoint: Folder for finished parts. A second call with the same input resumes there.
        measure: What is summed over the predictions that change. `change`: how far each one moves, which is
            the definition. `flips`: how many change their class. `loss` and `accuracy`: the change of the
            mean against `data.y`; `loss:test` restricts it to a mask. `class:NAME` or `class:2`: the signed
            change of the probability of a class. Or a function `(before [Q, C], after [Q, C], items [Q]) ->
            values [Q]` of the predictions that change. Pass several measures as a list, or functions as a
            dictionary by name: the first gives the scores, the others `columns`. Only `exact` and `brute`
            compute measures other than `change`.
        by: A categorical attribute of the nodes whose predictions change: its name in `data`, or one value
            per node. Every measure gets a column per group, such as `change of left`.
        key: A version name of your own for parts of the model that cannot be compared between two calls, such
            as an open file. Checkpoints of such models need it.
        executor: Where exact values are computed: in threads of this process (None), in the processes of a
            `concurrent.futures.ProcessPoolExecutor` or a similar executor, or on a `nora.RayCluster`. With an
            executor, `auto` means `exact`, and `memory` is the limit of each process.
        progress: Show a progress bar.
        **options: The method's own options.

    Returns:
        Scores `[num_nodes]`, with the method, options and details of the run.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> scores = nora.influence(run.model, run.data, progress=False)
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
    *,
    nodes: Nodes | None,
    labels: Labels | None,
    checkpoint: Checkpoint,
    measure: MeasureNames,
    by: By | None,
    executor: Any,
    progress: bool,
    options: dict[str, Any],
) -> Influence:
    """See `influence`."""
    plain, key = is_definition(measure, by), checkpoint.key
    entry = METHODS[method]
    if entry.facts.chooses and (executor is not None or not plain):
        entry = METHODS["exact"]
    bound = _options(session, entry, options, plain, labels is not None, executor)
    problem = _checked_problem(session, entry, nodes, labels, progress)
    measuring, described = None, {}
    if not plain:
        problem, measuring = measuring_of(session, problem, measure, by)
        described = asked_for(measuring, measure, by, key)
    start, chosen = time.perf_counter(), dict[str, Any]()
    with problem.evaluating(), saved_for(session, executor, key):
        if entry.facts.chooses:
            folder = checkpoint.folder
            with progress_bar(f"{method}: preparing, trying what fits", None, progress):
                entry, bound, chosen = _choose(entry, problem, session.prepared, bound, folder)
        errors = plain and entry.facts.estimates_errors(bound)
        columns = ("change",) if measuring is None else measuring.columns
        columns = (*columns, STDERR) if errors else columns
        # Draws are made by a seed: with estimates it is not an execution option.
        how = set(entry.facts.execution_options) - ({"seed"} if errors else set())
        telling = {name: value for name, value in bound.items() if name not in how} | described
        shards = checkpoint.open(problem, entry.name, telling, columns)
        todo = problem if shards is None else shards.remaining(problem)
        if shards is not None and plain and entry.facts.exact and not bound.get("tolerance"):
            check_finished(shards, problem, todo)
        memory = parse_bytes(bound.get("memory", "2GB"))
        remote = remote_for(session, executor, Question("nodes", measure, by, memory), key)
        parts = _parts(session, entry, todo, measuring, bound, remote, shards, progress)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not entry.facts.exact):
            table, details = collected(parts, problem.num_nodes, len(columns))
        table = table if shards is None else shards.values()
    return _influence(
        session,
        problem,
        _only(table, problem.nodes),
        columns,
        method=entry.name,
        options={**bound, **described},
        seconds=time.perf_counter() - start,
        details={**details, **chosen},
    )


def _checked_problem(
    session: Session,
    entry: MethodEntry,
    nodes: Nodes | None,
    labels: Labels | None,
    progress: bool,
) -> Problem:
    """The question, with what is found out about the model where the method uses it."""
    uses_model = entry.facts.uses_model
    with progress_bar(f"{entry.name}: checking the model", None, progress and uses_model):
        problem = session.problem(nodes, labels, uses_model=uses_model)
    if uses_model:
        _check_direct(entry, problem)
    return problem


def _options(
    session: Session,
    entry: MethodEntry,
    options: dict[str, Any],
    plain: bool,
    labelled: bool,
    executor: Any,
) -> dict[str, Any]:
    """All options of a method, checked; raises if the method cannot answer the question."""
    if not plain:
        _check_measures(entry, labelled)
    bound = bind_options(entry, options)
    check_remote(executor, entry.name, bound.get("tolerance"), bound.get("workers"))
    check_labels(entry, labelled)
    if session.restricted and not entry.facts.uses_targets:
        raise ValueError(
            f"method {entry.name!r} does not look at predictions and cannot restrict itself to targets"
        )
    return bound


def _only(table: Tensor, nodes: Tensor) -> Tensor:
    """The scores of these nodes; NaN for all others, which a method or a checkpoint may know."""
    others = torch.ones(len(table), dtype=torch.bool)
    others[nodes] = False
    return table.masked_fill(others.unsqueeze(1), float("nan"))


def _parts(
    session: Session,
    entry: MethodEntry,
    problem: Problem,
    measuring: Measuring | None,
    options: dict[str, Any],
    remote: Remote | None,
    shards: Shards | None,
    progress: bool,
) -> ScoredParts:
    """Yield the scores of a problem's nodes; `exact` and `brute` do without gradients."""
    if not len(problem.nodes):
        return {}
    batch, ready, how = Batch.nodes(problem.nodes), None, DEFAULTS
    if entry.name == "exact" and remote is None:
        how = ExactOptions.of(options)
        compiles = compiles_first(how.backend, problem, len(batch))
        once = ", compiling its loops (once, up to a minute)" if compiles else ""
        with progress_bar(f"exact: preparing{once}", None, progress):
            ready = engine_for(problem, session.prepared, batch.removals, how, quickest=True)
    if remote is None and entry.name not in ("exact", "brute"):
        parts = method_parts(entry, problem, options, session.prepared)
    else:
        name = entry.name
        parts = score(
            session, problem, batch, measuring, method=name, how=how, ready=ready, remote=remote
        )
    label = f"{entry.name}: removing nodes"
    return (yield from tracked(parts, len(batch), label, progress, shards))


def _influence(
    session: Session,
    problem: Problem,
    table: Tensor,
    columns: Sequence[str],
    details: dict[str, Any],
    **about: Any,
) -> Influence:
    """The result: the first column are the scores, the others further measures or standard errors."""
    if session.task.counted_classes is not None:
        details = {**details, "classes": list(session.task.counted_classes)}
    if problem.by_id:
        details = {**details, "removal": "isolated"}
    more = dict(zip(columns[1:], table.t()[1:], strict=True))
    return Influence(
        scores=table[:, 0],
        stderr=more.pop(STDERR, None),
        task=problem.task.name,
        details=details,
        names=session.names,
        node_types=problem.node_index.sizes(),
        measure=columns[0],
        columns=more,
        **about,
    )


def _check_measures(entry: MethodEntry, labelled: bool) -> None:
    """Raise unless a method gives other measures than the change of predictions."""
    if labelled:
        raise ValueError("methods that learn from labels estimate the change of predictions only")
    if entry.name not in ("exact", "brute"):
        raise ValueError(
            f"method {entry.name!r} estimates the change of predictions only: for other measures and for "
            f"{option('by')} use {option('method', 'exact')} or 'brute'"
        )


def _choose(
    entry: MethodEntry,
    problem: Problem,
    prepared: Prepared,
    options: dict[str, Any],
    checkpoint: str | Path | None,
) -> tuple[MethodEntry, dict[str, Any], dict[str, Any]]:
    """The method that a choosing method such as `auto` picks, its options, and details for the result.

    A checkpoint that exists continues with the method it was started with.
    """
    begun = None if checkpoint is None else begun_with(Path(checkpoint))
    if begun is not None:
        name, given = begun
        if name not in ("exact", "cauchy", "nora"):
            raise ValueError(
                f"{checkpoint} holds scores of {name!r}: ask with {option('method', name)}"
            )
        if name != "exact" or given.get("tolerance"):
            warn(f"auto continues with the estimate {name} {given}", UserWarning)
        given["memory"] = options["memory"]
        facts = {"method": name, "reason": "the checkpoint was started with it"}
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


def bind_options(entry: MethodEntry, options: dict[str, Any]) -> dict[str, Any]:
    """The method's options with defaults filled in; an unknown one is an error with a remedy."""
    known = {
        key: parameter.default
        for key, parameter in inspect.signature(entry.value).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    if "pruning" in options:
        raise TypeError(
            "pruning was removed: tolerance=0.05 alone gives estimates, by sampling rows"
        )
    check_known(f"method {entry.name!r}", options, list(known))
    # NumPy's numbers would not fit into provenance.
    given = {
        key: value.item() if hasattr(value, "item") else value for key, value in options.items()
    }
    check_options(repr(entry.name), entry.value, given)
    # A tuple would come back from a saved file as a list.
    bound = {**known, **given}
    return {key: list(v) if isinstance(v, tuple) else v for key, v in bound.items()}
