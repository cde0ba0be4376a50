"""Which predictions hang on a single node or edge?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from nora.engine.effects import Moves
from nora.graph.node_index import Graph, Nodes
from nora.model import Problem, Transform
from nora.model.calling import Forward
from nora.model.task import Task
from nora.questions.edge_influence import edge_table
from nora.questions.score import Batch, how_given, score
from nora.questions.session import Session
from nora.results.fragile import Fragile
from nora.results.tables import split_node_ids, with_names


def fragile(
    model: nn.Module,
    data: Graph,
    task: Task | None = None,
    *,
    by: str = "nodes",
    targets: Nodes | None = None,
    forward: Forward | None = None,
    transform: Transform | None = None,
    strict: bool = False,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    method: str = "exact",
    progress: bool = True,
    **options: Any,
) -> Fragile:
    """Which predictions hang on a single node or edge? Every removal that flips one, and whom.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        task: What is predicted; node classification from logits by default.
        by: What is removed, one at a time: `nodes` or `edges` (in undirected graphs both directions as
            one).
        targets: Look at these predictions only, as in `influence`.
        forward: As in `influence`.
        transform: As in `influence`.
        strict: As in `influence`.
        names: As in `influence`.
        class_names: As in `influence`.
        method: `exact`, or `brute` for full forward passes.
        progress: Show a progress bar.
        **options: `memory` and `workers`, as of the method `exact`.

    Returns:
        Every flip, and per node how many single removals flip its prediction.

    Example:
        >>> import nora
        >>> dataset = nora.load_dataset("karate")
        >>> model = nora.train("gcn", dataset, epochs=5, progress=False).model
        >>> found = nora.fragile(model, dataset.data, progress=False)
        >>> int(found.counts.sum()) == len(found.flips)
        True
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
    return session.fragile(by=by, method=method, progress=progress, **options)


def find_fragile(
    session: Session, by: str, method: str, progress: bool, options: dict[str, Any]
) -> Fragile:
    """See `fragile`."""
    if by not in ("nodes", "edges"):
        raise ValueError(f"by is {by!r}; it must be 'nodes' or 'edges'")
    if "tolerance" in options:
        raise TypeError("a flip is told exactly: fragile takes no tolerance")
    how = how_given(options, "fragile", ("memory", "workers"))
    if session.task.predicts != "classes":
        raise ValueError(
            f"fragile tells predicted classes that flip; the task predicts {session.task.predicts}"
        )
    asked = session.problem()
    problem = replace(asked, task=asked.task.on_every_class())
    start = time.perf_counter()
    batch = Batch.nodes(problem.nodes)
    if by == "edges":
        batch = Batch.edges(session, torch.arange(len(session.edge_units[0]) - 1))
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    with problem.evaluating(), torch.no_grad():
        before = problem.predict()
        found = score(
            session,
            problem,
            batch,
            flips_in(problem),
            method=method,
            how=how,
            label=f"fragile: removing {by}",
            progress=progress,
        )
        for ids, (removal, item, now), _ in found:
            parts.append((ids[removal], item, now))
    classes = before.argmax(dim=1)
    counted = torch.ones(len(before), dtype=torch.bool, device=before.device)
    counted = counted if problem.targets is None else problem.targets
    none = torch.empty(0, dtype=torch.long)
    which, item, now = (
        torch.cat([none, *column]) for column in zip((none, none, none), *parts, strict=True)
    )
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


def flips_in(problem: Problem) -> Callable[[Tensor, Moves], tuple[Tensor, Tensor, Tensor]]:
    """What `score` makes of changed predictions: those that flip, as `removal`, `item` and class after it."""

    def flips(before: Tensor, moves: Moves) -> tuple[Tensor, Tensor, Tensor]:
        now = moves.after.argmax(dim=1)
        flipped = now != before[moves.item].argmax(dim=1)
        if problem.targets is not None:
            flipped &= problem.targets[moves.item]
        return moves.removal[flipped].cpu(), moves.item[flipped].cpu(), now[flipped].cpu()

    return flips


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
