"""What if nodes and edges were removed or added, or features were different?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import nn

from nora.engine.effects import Effects, check_method
from nora.graph.edit_resolution import new_edges
from nora.graph.edits import Edits
from nora.graph.node_index import Graph, Nodes
from nora.model.edited import Changes
from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction
from nora.questions.session import Session
from nora.questions.session_options import CountingOptions, takes_session_options
from nora.results.effect import Effect


@takes_session_options(CountingOptions)
def what_if(
    model: nn.Module,
    data: Graph,
    remove: Nodes | Edits = (),
    task: Task | None = None,
    *,
    remove_edges: Any = (),
    add_edges: Any = (),
    add_nodes: Any = None,
    features: Any = None,
    method: str = "exact",
    **about: Unpack[CountingOptions],
) -> Effect:
    """Compute how all predictions change if nodes, edges and features are edited together.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        remove: A node id, several ids to remove at once, or `nora.Edits`. In a `HeteroData`, a node is
            `("author", 17)`.
        task: What is predicted; node classification from logits by default. If the task has `classes`, only
            their change counts; flips are still between all classes.
        remove_edges: Edges to remove, as pairs `[(3, 17), (5, 6)]`; their nodes stay. A graph in which every
            edge has its reverse is undirected: both directions are removed. In a `HeteroData`, `{("author",
            "writes", "paper"): [(3, 17)]}`.
        add_edges: Edges to add, in the same form; see `nora.Edits`.
        add_nodes: Feature rows of nodes to add; see `nora.Edits`.
        features: New rows of `x`, `{17: row}`.
        method: `exact`, or `brute` for a full forward pass on the edited graph.
        **about: Arguments of `nora.Session`.

    Returns:
        Which predictions change, by how much, and to which class.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> nora.what_if(run.model, run.data, remove=[0, 33]).removed
        (0, 33)
        >>> nora.what_if(run.model, run.data, remove_edges=[(1, 0)], add_edges=[(0, 33)]).added_edges
        ((0, 33),)
    """
    session = Session(model, data, task, **about, once=True)
    return session.what_if(
        remove,
        remove_edges=remove_edges,
        add_edges=add_edges,
        add_nodes=add_nodes,
        features=features,
        method=method,
    )


def effect_of(session: Session, edits: Edits, method: str) -> Effect:
    """See `what_if`."""
    index = session.node_index
    if not edits:
        raise ValueError(
            "the edit is empty: give remove=17 or a list of ids, "
            "remove_edges=[(3, 17)], add_edges, add_nodes or features"
        )
    edits = session.with_ids(edits)
    done = edits.resolve(session.data, session.edges)
    if len(done.node) == session.num_nodes and not done.added_nodes:
        raise ValueError(
            f"remove names all {session.num_nodes:,} nodes: no prediction would be left to change"
        )
    check_method(method)
    problem = session.problem()
    # The class that a node moves to is known from all classes only.
    classes = problem.task.counted_classes
    problem = replace(problem, task=problem.task.on_every_class())
    with problem.evaluating(), torch.no_grad():
        effects = Effects.prepare(problem, session.prepared, method)
        found = effects.changes_of(done)
    features = [
        index.starts[kind] + node if kind is not None else node
        for kind, changed in done.features.items()
        for node in changed.node.tolist()
    ]
    lookup = session.edges.with_undirected(edits.undirected)
    new = new_edges(edits, lookup, done.added_counts)
    refusal = session.prepared.refusal if method == "exact" else ""
    about: dict[str, Any] = dict(
        removed=index.named(done.node.tolist()),
        before=effects.before,
        task=problem.task.name,
        pairs=problem.task.pairs if isinstance(problem.task, LinkPrediction) else None,
        names=session.names,
        classes=classes,
        removed_edges=named_edges(lookup.named(edits.remove_edges)),
        added_edges=named_edges({key: pairs for key, (pairs, _) in new.items()}),
        changed_features=index.named(sorted(features)),
        node_types=index.sizes(),
        predicts=problem.task.predicts,
        removal="isolated" if problem.by_id else "deleted",
        targets=problem.targets,
        class_names=session.class_names,
    )
    if isinstance(found, Changes):
        return Effect.of_changes(found, **about, fallback=refusal)
    counted = found.survivors if problem.targets is None else found.survivors & problem.targets
    return Effect(
        after=found.predictions,
        counted=counted,
        added=found.added,
        fallback=found.fallback or refusal,
        **about,
    )


def named_edges(edges: dict[Any, torch.Tensor]) -> tuple[Any, ...]:
    """Edges as results name them: `(3, 17)`, with edge types `(("author", "writes", "paper"), 3, 17)`."""
    return tuple(
        tuple(pair) if edge_type is None else (edge_type, *pair)
        for edge_type, pairs in edges.items()
        for pair in pairs.t().tolist()
    )
