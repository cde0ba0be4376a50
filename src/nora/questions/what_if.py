"""What would happen, had these nodes and edges been removed together?"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from nora.engine.effects import Effects, check_method
from nora.problem import Transform
from nora.problem.calling import Forward
from nora.problem.node_index import Graph, Nodes
from nora.problem.removal import EdgeList, edge_pairs
from nora.problem.removal import remove_edges as without_edges
from nora.problem.task import Task
from nora.problem.tasks.link_prediction import LinkPrediction
from nora.questions.session import Session
from nora.results.effect import Effect


def what_if(
    model: nn.Module,
    data: Graph,
    remove: Nodes = (),
    task: Task | None = None,
    *,
    remove_edges: EdgeList = (),
    targets: Nodes | None = None,
    forward: Forward | None = None,
    transform: Transform | None = None,
    method: str = "exact",
) -> Effect:
    """What would happen, had these nodes and edges been removed together?

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        remove: A node id, or several removed at once; with node types `("author", 17)`.
        task: What is predicted; node classification from logits by default. With `classes`, their
            change alone counts; flips are still told on all classes.
        remove_edges: Edges to remove, as pairs `[(3, 17), (5, 6)]`; their nodes stay. Where every
            edge has its reverse the graph is undirected, and loses both directions.
        targets: Count only the change of these predictions, as in `influence`.
        forward: As in `influence`.
        transform: As in `influence`.
        method: `exact`, or `brute` for a full forward pass on the reduced graph, which edges get
            in any case.

    Returns:
        Who changes, by how much, towards which class.

    Example:
        >>> import nora
        >>> dataset = nora.load_dataset("karate")
        >>> model = nora.train("gcn", dataset, epochs=5, progress=False).model
        >>> nora.what_if(model, dataset.data, remove=[0, 33]).removed
        (0, 33)
        >>> nora.what_if(model, dataset.data, remove_edges=[(1, 0)]).removed_edges
        ((0, 1),)
    """
    session = Session(
        model, data, task, forward=forward, transform=transform, targets=targets, once=True
    )
    return session.what_if(remove, remove_edges=remove_edges, method=method)


def effect_of(session: Session, remove: Nodes, remove_edges: EdgeList, method: str) -> Effect:
    """See `what_if`."""
    index = session.node_index
    removed = index.ids(remove)
    edges = edge_pairs(session.data, remove_edges)
    if removed.numel() == 0 and not edges:
        raise ValueError(
            "remove names no node and remove_edges no edge: give a node id or a list of them, or "
            "edges, e.g. remove_edges=[(3, 17)]"
        )
    if removed.numel() == session.num_nodes:
        raise ValueError(
            f"remove names all {session.num_nodes:,} nodes: nobody would be left to change"
        )
    check_method(method)
    problem = session.problem()
    # Which class a node moves to can be told from all of them only.
    classes = problem.task.counted_classes
    problem = replace(problem, task=problem.task.on_every_class())
    with problem.evaluating(), torch.no_grad():
        if edges:
            reduced = replace(problem, data=without_edges(session.data, edges), original=None)
            effects = Effects(reduced, problem.predict())
        else:
            effects = Effects.prepare(problem, session.prepared, method)
        after, survivors = effects.after(removed)
    counted = survivors if problem.targets is None else survivors & problem.targets
    return Effect(
        removed=index.named(removed.tolist()),
        before=effects.before,
        after=after,
        counted=counted,
        task=problem.task.name,
        pairs=problem.task.pairs if isinstance(problem.task, LinkPrediction) else None,
        names=session.names,
        classes=classes,
        removed_edges=edges,
        node_types=index.sizes(),
        predicts=problem.task.predicts,
        removal="isolated" if problem.by_id else "deleted",
    )
