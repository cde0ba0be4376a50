"""How much would the predictions change, had each edge been removed?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from nora.engine.effects import check_method
from nora.graph.edge_lookup import EdgeLookup, EdgeType
from nora.graph.node_index import Graph, Nodes
from nora.methods.auto import Budget
from nora.methods.exact import How, engine_for, samples
from nora.model import Problem, Transform
from nora.model.calling import Forward
from nora.model.measuring import Asked, By
from nora.model.task import Task
from nora.questions.score import (
    Batch,
    Checkpoint,
    asked_for,
    collected,
    how_given,
    measuring_of,
    score,
)
from nora.questions.session import Session
from nora.questions.spread import Spread, check_spread, kept_for
from nora.questions.workers import Question
from nora.results.checkpoint import STDERR, begun_with
from nora.results.edge_influence import EdgeInfluence


def edge_influence(
    model: nn.Module,
    data: Graph,
    edges: Any = None,
    task: Task | None = None,
    *,
    method: str = "exact",
    measure: Asked = "change",
    by: By | None = None,
    targets: Nodes | None = None,
    forward: Forward | None = None,
    transform: Transform | None = None,
    strict: bool = False,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    checkpoint: str | Path | None = None,
    key: str | None = None,
    executor: Any = None,
    progress: bool = True,
    **options: Any,
) -> EdgeInfluence:
    """How much would the predictions change, had each edge been removed?

    In a graph where every edge has its reverse, both directions are one edge: they go together and have one
    score; with edge types also the reverse that PyG's `ToUndirected` has made (`rev_…`). All copies of an
    edge go with it. The nodes stay, and their predictions count.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        edges: Score only these: pairs `[(3, 17), …]` or a tensor `[2, k]`; with edge types
            `{("author", "writes", "paper"): [(3, 17)]}`. All by default.
        task: What is predicted; node classification from logits by default.
        method: `exact`, `brute` for a full forward pass per edge, or `auto`: exact where that fits a
            `budget` of seconds, else with a tolerance, which is then called an estimate.
        measure: What is summed over the predictions that change; see `nora.influence`.
        by: A categorical attribute of nodes whose groups get columns of their own, as in `influence`.
        targets: Count only the change of these predictions, as in `influence`.
        forward: As in `influence`.
        transform: As in `influence`.
        strict: As in `influence`.
        names: As in `influence`.
        class_names: As in `influence`.
        checkpoint: Folder for finished parts; a second call with the same input resumes there.
        key: As in `influence`.
        executor: Who does the work, as in `influence`; `auto` is then `exact`.
        progress: Show a progress bar.
        **options: `tolerance`, `memory` and `workers`, as of the method `exact`; with `auto` a `budget` in
            seconds (60 by default) in place of the tolerance.

    Returns:
        Scores of edges with their provenance; with a tolerance also their standard errors, as the column
        `stderr`, 0 where a score is exact.

    Example:
        >>> import nora
        >>> dataset = nora.load_dataset("karate")
        >>> model = nora.train("gcn", dataset, epochs=5, progress=False).model
        >>> scores = nora.edge_influence(model, dataset.data, progress=False)
        >>> len(scores), list(scores.top(1))
        (78, ['source', 'target', 'influence', 'rank'])
    """
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
    return session.edge_influence(
        edges,
        method=method,
        measure=measure,
        by=by,
        checkpoint=checkpoint,
        key=key,
        executor=executor,
        progress=progress,
        **options,
    )


def score_edges(
    session: Session,
    edges: Any,
    method: str,
    *,
    measure: Asked = "change",
    by: By | None = None,
    checkpoint: str | Path | None = None,
    key: str | None = None,
    executor: Any = None,
    progress: bool = True,
    options: dict[str, Any],
) -> EdgeInfluence:
    """See `edge_influence`."""
    chooses = method == "auto" and executor is None
    what = "edge_influence with method='auto'" if chooses else "edge_influence"
    how = how_given(options, what, ("budget" if chooses else "tolerance", "memory", "workers"))
    budget = Budget(float(options.get("budget", 60.0)))
    method = "exact" if method == "auto" else method
    check_method(method)
    check_spread(executor, method, how.tolerance, how.workers)
    every = session.every_edge
    wanted = every if edges is None else session.named_edges(edges)
    if not sum(pairs.size(1) for pairs in wanted.values()):
        raise ValueError(
            "the graph has no edges"
            if edges is None
            else "edges names no edge: give e.g. [(3, 17)]"
        )
    table = edge_table(every)
    batch = Batch.edges(session, places_of(session.edges, every, wanted))
    problem, measuring = measuring_of(session, session.problem(), measure, by)
    told = asked_for(measuring, measure, by, key)
    details = _details(session)
    start = time.perf_counter()
    with problem.evaluating(), torch.no_grad(), kept_for(session, executor, key):
        if chooses:
            tolerance, details["auto"] = _chosen(
                session, problem, batch, budget, how, options.get("memory", "2GB"), checkpoint
            )
            how = replace(how, tolerance=tolerance)
        spread, ready = None, None
        if executor is not None:
            question = Question("edges", measure, by, how.memory)
            spread = Spread(session, executor, question, key)
        elif method == "exact":
            ready = engine_for(problem, session.prepared, batch.removals, how)
        # Where full passes are taken, or all rows, there is no error to tell.
        errors = ready is not None and samples(ready[0], how, measuring)
        columns = (*measuring.columns, STDERR) if errors else measuring.columns
        telling = {"edges": True, "tolerance": how.tolerance, **told}
        kept = Checkpoint(checkpoint, key, executor is not None, table)
        shards = kept.open(problem, method, telling, columns)
        todo = batch if shards is None else batch.kept(shards.unfinished(batch.ids))
        parts = score(
            session,
            problem,
            todo,
            measuring,
            method=method,
            how=how,
            ready=ready,
            spread=spread,
            shards=shards,
            label=f"{method}: removing edges",
            progress=progress,
        )
        values, facts = collected(parts, len(table), len(columns))
        if shards is not None:
            finished = shards.values()
            values[batch.ids] = finished[batch.ids].to(values.dtype)
    return EdgeInfluence.of_scored(
        table,
        values.double(),
        columns[1:],
        method=method,
        task=problem.task.name,
        options={"tolerance": how.tolerance, **told},
        seconds=time.perf_counter() - start,
        details={**details, **facts},
        names=session.names,
        measure=measuring.first,
    )


def _chosen(
    session: Session,
    problem: Problem,
    batch: Batch,
    budget: Budget,
    how: How,
    memory: str | float,
    checkpoint: str | Path | None,
) -> tuple[float, dict[str, Any]]:
    """The tolerance that fits a budget, 0 for exact, and why; a checkpoint goes on with its own."""
    begun = None if checkpoint is None else begun_with(Path(checkpoint))
    if begun is not None:
        why = {"method": "exact", "reason": "the checkpoint was begun with it"}
        return float(begun[1].get("tolerance", 0.0)), why
    choice = budget.choose(problem, session.prepared, batch.removals, memory, how.seed, how.workers)
    return float(choice.options.get("tolerance", 0.0)), choice.facts()


def _details(session: Session) -> dict[str, Any]:
    both_ways = all(session.edges.paired(kind) for kind in session.edges.types)
    details: dict[str, Any] = {"undirected": both_ways}
    typed = [kind for kind in session.edges.types if kind is not None]
    if typed:  # by the type of both ends and the relation
        details["both_ways"] = [list(kind[:2]) for kind in typed if session.edges.paired(kind)]
    if session.task.counted_classes is not None:
        details["classes"] = list(session.task.counted_classes)
    return details


def edge_table(edges: dict[EdgeType, Tensor]) -> pd.DataFrame:
    """Edges as results name them, one row each, in the order of `edges`."""
    parts = []
    for edge_type, pairs in edges.items():
        source, target = (ends.numpy() for ends in pairs)
        if edge_type is None:
            parts.append(pd.DataFrame({"source": source, "target": target}))
            continue
        first, relation, last = edge_type
        parts.append(
            pd.DataFrame(
                {
                    "source_type": first,
                    "source": source,
                    "relation": relation,
                    "target_type": last,
                    "target": target,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def places_of(
    lookup: EdgeLookup, every: dict[EdgeType, Tensor], wanted: dict[EdgeType, Tensor]
) -> Tensor:
    """Where edges stand in the list of all edges `[k]`, sorted."""
    starts = dict(
        zip(every, np.cumsum([0, *(one.size(1) for one in every.values())]), strict=False)
    )
    found = []
    for edge_type, pairs in wanted.items():
        home = edge_type
        if edge_type not in every:  # the reverse that PyG has made: scored with the original
            home, pairs = lookup.directions.mirrors[edge_type], pairs.flip(0)
        own = lookup.types[home]
        keys, order = own.keys(every[home]).sort()
        at = order[torch.searchsorted(keys, own.keys(pairs))]
        found.append(at + int(starts[home]))
    return torch.cat(found).unique()
