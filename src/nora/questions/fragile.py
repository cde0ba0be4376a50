"""Which predictions depend on a single node or edge?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

import pandas as pd
import torch
from torch import Tensor, nn

from nora.engine.effects import ChangedPredictions
from nora.graph.node_index import Graph
from nora.model import Problem
from nora.model.task import Task
from nora.questions.edge_influence import edge_table
from nora.questions.score import Batch, changed_predictions, gathered, how_given, score, tracked
from nora.questions.session import Session
from nora.questions.session_options import CountingOptions, takes_session_options
from nora.results.fragile import Fragile
from nora.results.tables import split_node_ids, with_names


@takes_session_options(CountingOptions)
def fragile(
    model: nn.Module,
    data: Graph,
    task: Task | None = None,
    *,
    by: str = "nodes",
    method: str = "exact",
    memory: str | float = "2GB",
    workers: int | None = None,
    progress: bool = True,
    **about: Unpack[CountingOptions],
) -> Fragile:
    """Find every single removal of a node or edge that flips predictions.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        task: What is predicted; node classification from logits by default.
        by: What is removed, one at a time: `nodes`, or `edges` (both directions together in an undirected
            graph).
        method: `exact`, or `brute` for full forward passes.
        memory: Memory limit of the computation, as in the method `exact`.
        workers: Threads; all cores by default.
        progress: Show a progress bar.
        **about: Arguments of `nora.Session`.

    Returns:
        Every flip, and for each node the number of single removals that flip its prediction.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> found = nora.fragile(run.model, run.data, progress=False)
        >>> int(found.counts.sum()) == len(found.flips)
        True
    """
    session = Session(model, data, task, **about, once=True)
    return session.fragile(by=by, method=method, progress=progress, memory=memory, workers=workers)


def find_fragile(
    session: Session, by: str, method: str, progress: bool, options: dict[str, Any]
) -> Fragile:
    """See `fragile`."""
    if by not in ("nodes", "edges"):
        raise ValueError(f"by is {by!r}; it must be 'nodes' or 'edges'")
    if "tolerance" in options:
        raise TypeError("flips are exact: fragile takes no tolerance")
    how = how_given(options, "fragile", ("memory", "workers"))
    if session.task.predicts != "classes":
        raise ValueError(
            f"fragile needs a task that predicts classes; this task predicts {session.task.predicts}"
        )
    asked = session.problem()
    problem = replace(asked, task=asked.task.on_every_class())
    start = time.perf_counter()
    batch = Batch.nodes(problem.nodes)
    if by == "edges":
        batch = Batch.edges(session, torch.arange(len(session.edge_units[0]) - 1))
    with problem.evaluating(), torch.no_grad():
        before = problem.predict()
        parts = score(session, problem, batch, flips_in(problem), method=method, how=how)
        parts = tracked(parts, len(batch), f"fragile: removing {by}", progress)
        which, item, now = gathered(parts)
    classes = before.argmax(dim=1)
    counted = torch.ones(len(before), dtype=torch.bool, device=before.device)
    counted = counted if problem.targets is None else problem.targets
    ordered = (which * max(len(before), 1) + item).argsort()
    which, item, now = which[ordered], item[ordered], now[ordered]
    largest = before.topk(2, dim=1).values
    return Fragile(
        flips=_table(session, by, which, item, classes.cpu()[item], now),
        counts=torch.bincount(item, minlength=len(before)),
        classes=classes.cpu(),
        margin=(largest[:, 0] - largest[:, 1]).cpu(),
        counted=counted.cpu(),
        by=by,
        removals=len(batch),
        names=session.names,
        class_names=session.class_names,
        node_types=session.node_index.sizes(),
        seconds=time.perf_counter() - start,
    )


def flips_in(
    problem: Problem,
) -> Callable[[Tensor, ChangedPredictions], tuple[Tensor, Tensor, Tensor]]:
    """For `score`: the predictions that flip, as `removal`, `item` and the class after it."""

    def flips(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        now = after.argmax(dim=1)
        return now != before.argmax(dim=1), now

    return changed_predictions(problem, flips)


def _table(
    session: Session, by: str, which: Tensor, item: Tensor, start: Tensor, end: Tensor
) -> pd.DataFrame:
    flips = pd.DataFrame(
        {"node": item.numpy(), "from_class": start.numpy(), "to_class": end.numpy()}
    )
    if by == "nodes":
        flips.insert(0, "removed", which.numpy())
    flips = with_names(flips, session.names, session.class_names)
    flips = split_node_ids(flips, session.node_index.sizes())
    if by == "nodes":
        return flips
    edges = edge_table(session.every_edge).iloc[which.numpy()].reset_index(drop=True)
    edges = with_names(edges, None if session.node_index.types else session.names)
    return pd.concat([edges, flips], axis=1)
