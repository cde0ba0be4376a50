"""Pairwise influence: the change of each prediction by each removal, before it is summed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import pandas as pd
import torch
from torch import Tensor, nn

from nora.graph.edit_batch import EditBatch
from nora.graph.node_index import Graph, Nodes
from nora.methods.exact import engine_for
from nora.model.measuring import MeasureNames
from nora.model.task import Task, item_change
from nora.model.tasks.link_prediction import LinkPrediction
from nora.questions.frontier import frontier_nodes
from nora.questions.score import (
    Batch,
    changed_predictions,
    collected,
    gathered,
    one_measure,
    score,
    tracked,
)
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
    """Compute how much the removal of each of these nodes changes each prediction.

    A removal leaves most predictions unchanged, so the matrix is returned as a table of its nonzero entries.
    The entries of a removed node add up to its influence.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph, with `x` and `edge_index`.
        nodes: The nodes to remove, one at a time (ids or mask). The table can be large: a hub changes
            thousands of predictions.
        task: What is predicted; node classification from logits by default.
        method: `exact`, or `brute` for full forward passes (which also lists tiny changes from rounding).
        progress: Show a progress bar.
        **about: Arguments of `nora.Session`.

    Returns:
        One row per change, with the columns `removed`, `node`, `change`. For links: `removed`, `pair` (the
        position in the task), `source`, `target`, `change`. Sorted by removed node, largest change first.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> changes = nora.influence_matrix(run.model, run.data, [0, 33], progress=False)
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

    def changes(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        change = item_change(before, after)
        return change > 0, change

    with problem.evaluating(), torch.no_grad():
        batch = Batch.nodes(problem.nodes)
        parts = score(session, problem, batch, changed_predictions(problem, changes), method=method)
        parts = tracked(parts, len(batch), "matrix: removing nodes", progress)
        removed, item, change = gathered(parts)
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
    measure: MeasureNames = "change",
    method: str = "exact",
    progress: bool = True,
    **about: Unpack[SessionOptions],
) -> pd.DataFrame:
    """Find the nodes whose removal changes the prediction of one node most.

    This is `nora.influence` with the node as the only target, for all nodes that can affect it. In a link
    task, the predictions of all pairs with this node count.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph, with `x` and `edge_index`.
        node: The node whose prediction is explained.
        k: How many to list.
        task: What is predicted; node classification from logits by default.
        measure: How the change of its prediction is measured, as in `nora.influence`. Measures that can be
            negative rank by absolute value.
        method: `exact`, or `brute` for full forward passes.
        progress: Show a progress bar.
        **about: Arguments of `nora.Session`.

    Returns:
        At most `k` rows with the columns `node`, `influence`, `rank`, the most influential node first. Nodes
        without influence are left out.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> len(nora.influencers(run.model, run.data, 16, k=3, progress=False))
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
    measure: MeasureNames = "change",
) -> pd.DataFrame:
    """See `influencers`."""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    plain = session.problem(uses_model=False)
    ids = plain.node_index.ids(node)
    if ids.numel() != 1:
        raise ValueError(f"node must be one node id, e.g. node=17; got {ids.numel()} nodes")
    # Items of this node's own, and the nodes whose output they are made of.
    items = ends = ids.to(plain.device)
    if isinstance(plain.task, LinkPrediction):
        items = (plain.task.pairs == ends).any(dim=0).nonzero().flatten()
        if items.numel() == 0:
            raise ValueError(f"no pair of the task contains node {int(ids)}: it has no prediction")
        ends = plain.task.pairs[:, items].flatten()
    mask = torch.zeros(plain.task.num_items(plain.num_nodes), dtype=torch.bool, device=items.device)
    mask[items] = True
    if plain.targets is not None and not bool(plain.targets[items].all()):
        raise ValueError(
            f"node {node!r} has no prediction that counts: it is not of the type that is classified, or "
            "not among the session's targets"
        )
    problem, measuring = one_measure(
        session, replace(session.problem(), targets=mask), measure, "influencers are ranked"
    )
    with problem.evaluating(), torch.no_grad():
        every = EditBatch.remove_nodes(torch.arange(problem.num_nodes))
        ready = None
        if method == "exact":
            ready = engine_for(problem, session.prepared, every)
        nodes = frontier_nodes(problem, None if ready is None else ready[0], ends)
        batch = Batch.nodes(nodes[nodes != ids])
        parts = score(session, problem, batch, measuring, method=method, ready=ready)
        parts = tracked(parts, len(batch), "who: removing nodes", progress)
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
