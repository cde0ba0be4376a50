"""Who influences whom: the change of each prediction by each removal, before it is summed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import pandas as pd
import torch
from torch import Tensor, nn

from nora.engine.effects import Moves
from nora.engine.engine import Engine
from nora.engine.ir.op import EVERYWHERE
from nora.graph.edit_batch import EditBatch
from nora.graph.node_index import Graph, Nodes
from nora.methods.exact import engine_for
from nora.model import Problem
from nora.model.measuring import Asked
from nora.model.task import Task, item_change
from nora.model.tasks.link_prediction import LinkPrediction
from nora.questions.score import Batch, collected, one_measure, score
from nora.questions.session import Session
from nora.questions.session_options import (
    CountingOptions,
    SessionOptions,
    takes_session_options,
)
from nora.results.influence import Influence
from nora.results.tables import split_node_ids, with_names


@takes_session_options(CountingOptions)
def influence_matrix(
    model: nn.Module,
    data: Graph,
    nodes: Nodes,
    task: Task | None = None,
    *,
    method: str = "exact",
    progress: bool = True,
    **about: Unpack[CountingOptions],
) -> pd.DataFrame:
    """By how much does the removal of each of these nodes change each prediction?

    Most predictions are out of a node's reach, so the matrix is given as a table of its entries that
    are not zero. Summed over a removed node they are its influence.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph, with `x` and `edge_index`.
        nodes: The nodes to remove, one at a time (ids or mask). Mind the size of the table: hubs
            reach thousands of nodes each.
        task: What is predicted; node classification from logits by default.
        method: `exact`, or `brute` for full forward passes (whose rounding shows as tiny changes).
        progress: Show a progress bar.
        **about: Options of the session; see `nora.Session`.

    Returns:
        One row per change: `removed`, `node`, `change`; of links `removed`, `pair` (its position
        in the task), `source`, `target`, `change`. By removed node, the largest change first.

    Example:
        >>> import nora
        >>> dataset = nora.load_dataset("karate")
        >>> model = nora.train("gcn", dataset, epochs=5, progress=False).model
        >>> changes = nora.influence_matrix(model, dataset.data, [0, 33], progress=False)
        >>> list(changes)
        ['removed', 'node', 'change']
    """
    session = Session(model, data, task, **about, once=True)
    return session.influence_matrix(nodes, method=method, progress=progress)


def changes_of(session: Session, nodes: Nodes, method: str, progress: bool) -> pd.DataFrame:
    """See `influence_matrix`."""
    if session.node_index.ids(nodes).numel() == 0:
        raise ValueError("nodes names no node: give the nodes to remove")
    problem = session.problem(nodes)

    def changes(before: Tensor, moves: Moves) -> tuple[Tensor, Tensor, Tensor]:
        change = item_change(before[moves.item], moves.after)
        counts = change > 0
        if problem.targets is not None:
            counts &= problem.targets[moves.item]
        return moves.removal[counts].cpu(), moves.item[counts].cpu(), change[counts].cpu()

    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    with problem.evaluating(), torch.no_grad():
        batch, label = Batch.nodes(problem.nodes), "matrix: removing nodes"
        found = score(
            session, problem, batch, changes, method=method, label=label, progress=progress
        )
        for ids, (removal, item, change), _ in found:
            parts.append((ids[removal], item, change))
    removed, item, change = (torch.cat(column) for column in zip(*parts, strict=True))
    columns: dict[str, Any] = {"removed": removed}
    if isinstance(problem.task, LinkPrediction):
        source, target = problem.task.pairs.cpu()[:, item]
        columns |= {"pair": item, "source": source, "target": target}
    else:
        columns |= {"node": item}
    columns |= {"change": change.double()}
    frame = pd.DataFrame({key: value.numpy() for key, value in columns.items()})
    what = "pair" if "pair" in frame else "node"
    order = ["removed", "change", what]
    frame = frame.sort_values(order, ascending=[True, False, True], ignore_index=True)
    return split_node_ids(with_names(frame, session.names), problem.node_index.sizes())


@takes_session_options(SessionOptions)
def influencers(
    model: nn.Module,
    data: Graph,
    node: int | tuple[str, int],
    k: int = 10,
    task: Task | None = None,
    *,
    measure: Asked = "change",
    method: str = "exact",
    progress: bool = True,
    **about: Unpack[SessionOptions],
) -> pd.DataFrame:
    """Whose removal changes *this* node's prediction most?

    `influence` with this node as the only target, of all nodes within reach of it. Of links, the
    predictions of all its pairs count.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph, with `x` and `edge_index`.
        node: Whose prediction it is about.
        k: How many to tell.
        task: What is predicted; node classification from logits by default.
        measure: What is told of its prediction, one of the measures of `nora.influence`. Those that may be
            negative rank by their size.
        method: `exact`, or `brute` for full forward passes.
        progress: Show a progress bar.
        **about: Options of the session; see `nora.Session`.

    Returns:
        At most `k` rows, the most influential first: `node`, `influence`, `rank`. Nodes without
        influence on it are left out.

    Example:
        >>> import nora
        >>> dataset = nora.load_dataset("karate")
        >>> model = nora.train("gcn", dataset, epochs=5, progress=False).model
        >>> len(nora.influencers(model, dataset.data, 16, k=3, progress=False))
        3
    """
    session = Session(model, data, task, **about, once=True)
    return session.influencers(node, k, measure=measure, method=method, progress=progress)


def influencers_of(
    session: Session,
    node: Nodes,
    k: int,
    method: str,
    progress: bool,
    measure: Asked = "change",
) -> pd.DataFrame:
    """See `influencers`."""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    plain = session.problem(uses_model=False)
    ids = plain.node_index.ids(node)
    if ids.numel() != 1:
        raise ValueError(f"node names {ids.numel()} nodes: give one node id, e.g. node=17")
    # Items of this node's own, and the nodes whose output they are made of.
    items = ends = ids.to(plain.device)
    if isinstance(plain.task, LinkPrediction):
        items = (plain.task.pairs == ends).any(dim=0).nonzero().flatten()
        if items.numel() == 0:
            raise ValueError(f"no pair of the task has node {int(ids)}: it has no prediction")
        ends = plain.task.pairs[:, items].flatten()
    mask = torch.zeros(plain.task.num_items(plain.num_nodes), dtype=torch.bool, device=items.device)
    mask[items] = True
    if plain.targets is not None and not bool(plain.targets[items].all()):
        raise ValueError(
            f"the prediction of node {node} does not count here: it is not of the type that is "
            "classified, or not among the session's targets"
        )
    problem, measuring = one_measure(
        session, replace(session.problem(), targets=mask), measure, "influencers are ranked"
    )
    with problem.evaluating(), torch.no_grad():
        every = EditBatch.remove_nodes(torch.arange(problem.num_nodes))
        ready = None
        if method == "exact":
            ready = engine_for(problem, session.prepared, every)
        nodes = within_reach(problem, None if ready is None else ready[0], ends)
        parts = score(
            session,
            problem,
            Batch.nodes(nodes[nodes != ids]),
            measuring,
            method=method,
            ready=ready,
            label="who: removing nodes",
            progress=progress,
        )
        scores = collected(parts, problem.num_nodes, 1)[0][:, 0].double()
    scores[scores == 0] = float("nan")
    found = Influence(
        scores,
        method,
        problem.task.name,
        names=session.names,
        node_types=problem.node_index.sizes(),
        measure=measuring.first,
    )
    return found.top(k)


def within_reach(problem: Problem, engine: Engine | None, ends: Tensor) -> Tensor:
    """The nodes whose removal alone can change the output at `ends`; all where the frontier is unknown."""
    if engine is None or engine.program.output.depth >= EVERYWHERE:
        return torch.arange(problem.num_nodes)
    # Where the plan's own steps carry a change, whichever way its edges are read.
    source, target = engine.program.hops()
    near = torch.zeros(problem.num_nodes, dtype=torch.bool, device=source.device)
    near[ends] = True
    for _ in range(engine.program.output.depth):
        near[source[near[target]]] = True
    # Where the model takes another branch without a node, everything may change.
    every = torch.arange(problem.num_nodes)
    broken = engine.program.guards.broken(EditBatch.remove_nodes(every))
    return (near.cpu() | broken).nonzero().flatten()
