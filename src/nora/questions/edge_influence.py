"""How much would the predictions change, had each edge been removed?"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from nora.engine.effects import check_method
from nora.graph.edge_lookup import EdgeLookup, EdgeType
from nora.graph.node_index import Graph
from nora.methods.auto import Budget
from nora.methods.exact import ExactOptions, engine_for, is_sampled
from nora.model import Problem
from nora.model.measuring import By, MeasureNames
from nora.model.task import Task
from nora.questions.executors import check_remote, remote_for, saved_for
from nora.questions.score import (
    Batch,
    Checkpoint,
    asked_for,
    collected,
    how_given,
    measuring_of,
    score,
    tracked,
)
from nora.questions.session import Session
from nora.questions.session_options import CountingOptions, takes_session_options
from nora.questions.workers import Question
from nora.results.checkpoint import STDERR, begun_with
from nora.results.edge_influence import EdgeInfluence


@takes_session_options(CountingOptions)
def edge_influence(  # noqa: PLR0913
    model: nn.Module,
    data: Graph,
    edges: Any = None,
    task: Task | None = None,
    *,
    method: str = "exact",
    measure: MeasureNames = "change",
    by: By | None = None,
    checkpoint: str | Path | None = None,
    key: str | None = None,
    executor: Any = None,
    tolerance: float | None = None,
    memory: str | float | None = None,
    workers: int | None = None,
    budget: float | None = None,
    progress: bool = True,
    **about: Unpack[CountingOptions],
) -> EdgeInfluence:
    """Score every edge by how much its removal changes the predictions.

    If every edge of the graph has its reverse, both directions are one edge: they are removed together and
    have one score. In a `HeteroData`, this includes the reverse types that PyG's `ToUndirected` adds
    (`rev_…`). All copies of an edge are removed together. The nodes stay, and all predictions count.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        edges: Score only these: pairs `[(3, 17), …]` or a tensor `[2, k]`; in a `HeteroData`, `{("author",
            "writes", "paper"): [(3, 17)]}`. Default: all edges.
        task: What is predicted; node classification from logits by default.
        method: `exact`, `brute` (a full forward pass per edge) or `auto`: exact if that fits the `budget`,
            and otherwise an estimate with a tolerance.
        measure: What is summed over the predictions that change; see `nora.influence`.
        by: A categorical node attribute; every group gets a column, as in `nora.influence`.
        checkpoint: Folder for finished parts. A second call with the same input resumes there.
        key: As in `nora.influence`.
        executor: Where exact values are computed, as in `nora.influence`. With an executor, `auto` means
            `exact`.
        tolerance: As in the method `exact`; not with `auto`. Default: 0, which is exact.
        memory: As in the method `exact`. Default: `"2GB"`.
        workers: As in the method `exact`. Default: all cores.
        budget: Seconds that `auto` may take. Default: 60.
        progress: Show a progress bar.
        **about: Arguments of `nora.Session`.

    Returns:
        Scores of edges, with the method, options and details of the run. Estimates have standard errors in
        the column `stderr`, which is 0 for exact scores.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> scores = nora.edge_influence(run.model, run.data, progress=False)
        >>> len(scores), list(scores.top(1))
        (78, ['source', 'target', 'influence', 'rank'])
    """
    session = Session(model, data, task, **about, once=True)
    options = {"tolerance": tolerance, "memory": memory, "workers": workers, "budget": budget}
    return session.edge_influence(
        edges,
        method=method,
        measure=measure,
        by=by,
        checkpoint=checkpoint,
        key=key,
        executor=executor,
        progress=progress,
        **{name: value for name, value in options.items() if value is not None},
    )


def score_edges(
    session: Session,
    edges: Any,
    method: str,
    *,
    measure: MeasureNames = "change",
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
    budget, memory = Budget(float(options.get("budget", 60.0))), options.get("memory", "2GB")
    method = "exact" if method == "auto" else method
    check_method(method)
    check_remote(executor, method, how.tolerance, how.workers)
    batch = Batch.edges(session, _wanted(session, edges))
    table = edge_table(session.every_edge)
    problem, measuring = measuring_of(session, session.problem(), measure, by)
    asked = asked_for(measuring, measure, by, key)
    details = _details(session)
    start = time.perf_counter()
    with problem.evaluating(), torch.no_grad(), saved_for(session, executor, key):
        if chooses:
            how, details["auto"] = _chosen(session, problem, batch, budget, how, memory, checkpoint)
        question = Question("edges", measure, by, how.memory)
        remote, ready = remote_for(session, executor, question, key), None
        if remote is None and method == "exact":
            ready = engine_for(problem, session.prepared, batch.removals, how)
        # Full passes, and rows that are all computed, have no error.
        errors = ready is not None and is_sampled(ready[0], how, measuring)
        columns = (*measuring.columns, STDERR) if errors else measuring.columns
        telling = {"edges": True, "tolerance": how.tolerance, **asked}
        kept = Checkpoint(checkpoint, key, executor is not None, table)
        shards = kept.open(problem, method, telling, columns)
        todo = batch if shards is None else batch.kept(shards.unfinished(batch.ids))
        parts = score(
            session, problem, todo, measuring, method=method, how=how, ready=ready, remote=remote
        )
        parts = tracked(parts, len(todo), f"{method}: removing edges", progress, shards)
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
        options={"tolerance": how.tolerance, **asked},
        seconds=time.perf_counter() - start,
        details={**details, **facts},
        names=session.names,
        measure=measuring.first,
    )


def _wanted(session: Session, edges: Any) -> Tensor:
    """The positions of the given edges in the list of all edges; of all where none are given."""
    every = session.every_edge
    wanted = every if edges is None else session.named_edges(edges)
    if not sum(pairs.size(1) for pairs in wanted.values()):
        raise ValueError(
            "the graph has no edges"
            if edges is None
            else "edges names no edge: give e.g. [(3, 17)]"
        )
    return _positions(session.edges, every, wanted)


def _chosen(
    session: Session,
    problem: Problem,
    batch: Batch,
    budget: Budget,
    how: ExactOptions,
    memory: str | float,
    checkpoint: str | Path | None,
) -> tuple[ExactOptions, dict[str, Any]]:
    """With the tolerance that fits a budget, 0 for exact, and why; a checkpoint continues with its own."""
    begun = None if checkpoint is None else begun_with(Path(checkpoint))
    if begun is not None:
        why = {"method": "exact", "reason": "the checkpoint was started with it"}
        return replace(how, tolerance=float(begun[1].get("tolerance", 0.0))), why
    choice = budget.choose(problem, session.prepared, batch.removals, memory, how.seed, how.workers)
    return replace(how, tolerance=float(choice.options.get("tolerance", 0.0))), choice.facts()


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
    """A table of edges, one row each, in the order of `edges`."""
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


def _positions(
    lookup: EdgeLookup, every: dict[EdgeType, Tensor], wanted: dict[EdgeType, Tensor]
) -> Tensor:
    """The positions of edges in the list of all edges `[k]`, sorted."""
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
