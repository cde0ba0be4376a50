"""Every node's influence by other measures than the definition's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nora.engine.changed import Removals
from nora.methods import METHODS
from nora.options import option
from nora.problem.fingerprint import fingerprint
from nora.problem.measuring import Asked, By
from nora.problem.node_index import Nodes
from nora.questions.measured import How, asked_for, collected, measuring_of, prepared_effects
from nora.questions.spread import check_spread, kept_for, spread_out
from nora.questions.workers import Question
from nora.results.checkpoint import Shards
from nora.results.influence import Influence

if TYPE_CHECKING:
    from nora.questions.session import Session


def score_by_measures(
    session: Session,
    method: str,
    nodes: Nodes | None,
    measure: Asked,
    by: By | None,
    checkpoint: str | Path | None,
    key: str | None,
    progress: bool,
    options: dict[str, Any],
    executor: Any = None,
) -> Influence:
    """See `nora.influence`."""
    METHODS[method]  # a slip in the name has its own answer
    method = "exact" if method == "auto" else method
    if method not in ("exact", "brute"):
        raise ValueError(
            f"method {method!r} tells the change of predictions only: for other measures and for "
            f"{option('by')} use {option('method', 'exact')} or 'brute'"
        )
    how = How.given(options, f"method {method!r} with a measure")
    check_spread(executor, method, how.tolerance, how.workers)
    problem, measuring = measuring_of(session, session.problem(nodes), measure, by)
    told = asked_for(measuring, measure, by, key)
    start = time.perf_counter()
    shape = (problem.num_nodes, len(measuring.columns))
    values = torch.full(shape, float("nan"), dtype=torch.double)
    with problem.evaluating(), torch.no_grad(), kept_for(session, executor, key):
        shards, todo = None, problem.nodes
        if checkpoint is not None:
            telling = {"tolerance": how.tolerance, **told}
            print_ = fingerprint(problem, method, telling, key)
            alone = executor is not None
            shards = Shards.open(Path(checkpoint), print_, problem, measuring.columns, alone=alone)
            todo = shards.unfinished(todo)
        if len(todo):
            others = None
            if executor is not None:
                question = Question("nodes", measure, by, how.memory)
                others = spread_out(session, executor, question, todo, problem, key)
            effects = prepared_effects(session, problem, method, len(todo), how)
            removals, label = Removals.single(todo), f"{method}: removing nodes"
            for ids, found in collected(
                effects, removals, todo, measuring, how, shards, label, progress, others
            ):
                values[ids] = found.double()
        if shards is not None:
            values[problem.nodes] = shards.values().double()[problem.nodes]
    details: dict[str, Any] = {}
    if session.task.counted_classes is not None:
        details["classes"] = list(session.task.counted_classes)
    if problem.by_id:
        details["removal"] = "isolated"
    return Influence(
        scores=values[:, 0],
        method=method,
        task=problem.task.name,
        options={"tolerance": how.tolerance, **told},
        seconds=time.perf_counter() - start,
        details=details,
        names=session.names,
        node_types=problem.node_index.sizes(),
        measure=measuring.first,
        columns={name: values[:, at + 1] for at, name in enumerate(measuring.columns[1:])},
    )
