"""The graph behind `Live` at one time: a session, the edits since, and where every node is.

Sessions are about the *snapshot*, an earlier graph, or about a `LiveGraph`, which is always current. `Live`
names nodes by their ids in the first graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from nora.graph.edge_sets import Kind, node_counts
from nora.graph.edit_batch import EditBatch
from nora.graph.edits import Edits
from nora.model.edited import After, Changes
from nora.questions.live_graph import Inverse, LiveGraph
from nora.questions.live_ids import SnapshotIds
from nora.questions.live_versions import Version
from nora.questions.session import Session

NOTHING = EditBatch.of()
# A session about a graph, for the model and the task of a `Live`.
SessionOf = Callable[[Any], Session]


@dataclass(frozen=True, eq=False)
class EditedGraph:
    """The graph after some edits.

    Attributes:
        session: The session about the snapshot, or about the `LiveGraph`.
        edits: All edits since the snapshot, in its ids; of a `LiveGraph` the last ones.
        done: The same, resolved.
        position: The id in the snapshot of every node that ever existed, by type; nodes added since have
            the ids after its last one, and removed nodes −1. In a `LiveGraph` every node has its own id.
    """

    session: Session
    edits: Edits
    done: EditBatch
    position: dict[Kind, Tensor]

    def by_id(self, after: After, kind: Kind) -> Tensor:
        """Predictions of the nodes of a type, by the ids of the first graph `[ids, C]`."""
        position, rows = self.position[kind], predicted_rows(self.session, after.predictions, kind)
        if after.added is not None:
            counts, types = self.done.added_counts, self.session.node_index.types
            first = sum(counts.get(one, 0) for one in types[: types.index(kind)]) if types else 0
            rows = torch.cat([rows, after.added[first : first + counts.get(kind, 0)]])
        position = position.to(rows.device)
        found = rows[position.clamp(min=0)]
        found[position < 0] = float("nan")
        return found


@dataclass(frozen=True, eq=False)
class State(EditedGraph):
    """The graph at one time; in a `LiveGraph` its edits are none.

    Attributes:
        predictions: The predictions of that time, of every node that ever was.
        removed: The ids of all nodes that were removed, in a `LiveGraph`.
        inverse: How the last edit is undone in a `LiveGraph`; None if the state before it is a snapshot.
    """

    predictions: Version
    removed: Tensor | None = None
    inverse: Inverse | None = None

    def after(self, edits: Edits, both_ways: bool | None) -> EditedGraph:
        """The graph after more edits, checked.

        Args:
            edits: In the ids of the first graph.
            both_ways: Whether edges are removed and added in both directions, where edits do not say it.
        """
        session, added_before = self.session, self.done.added_counts
        added = {}
        if edits.add_nodes is not None:
            added = session.resolve(Edits(add_nodes=edits.add_nodes)).added_counts
        position, counts = dict(self.position), node_counts(session.data)
        if self.removed is not None:
            counts[None] = len(position[None])
        for kind, count in added.items():
            last = counts[kind] + added_before.get(kind, 0)
            position[kind] = torch.cat([position[kind], last + torch.arange(count)])
        ids = SnapshotIds(session, self.position, position)
        own = Edits(
            remove=ids.nodes(edits.remove),
            remove_edges=ids.edges(edits.remove_edges),
            add_edges=ids.edges(edits.add_edges),
            add_nodes=edits.add_nodes,
            features=ids.features(edits.features),
            undirected=both_ways if edits.undirected is None else edits.undirected,
        )
        both = self.edits + own if self.edits else own
        done = session.resolve(both)
        for kind, removed in ids.removed(edits.remove).items():
            if len(removed):
                position[kind] = position[kind].clone()
                position[kind][removed] = -1
        return EditedGraph(session, both, done, position)

    def renewed(self, session_of: SessionOf) -> State:
        """The same with the graph as it is as the snapshot, where its edits led from an earlier one."""
        done, session = self.done, self.session
        removed = session.node_index.by_type(done.node)
        counts, added = node_counts(session.data), done.added_counts
        position = {}
        for kind, there in self.position.items():
            count = counts[kind] + added.get(kind, 0)
            left = torch.ones(count, dtype=torch.bool)
            left[removed[kind]] = False
            new = torch.where(left, left.long().cumsum(0) - 1, -1)
            position[kind] = (
                torch.where(there >= 0, new[there.clamp(min=0)], -1) if count else there
            )
        return State(
            session_of(done.apply(session.data)), Edits(), NOTHING, position, self.predictions
        )

    def snapshot(self, session_of: SessionOf, graph: LiveGraph) -> State:
        """The same with the graph as it is as the snapshot, of a `LiveGraph`."""
        there = self.position[None] >= 0
        return replace(
            self,
            session=session_of(graph.now(self.position[None])),
            position={None: torch.where(there, there.cumsum(0) - 1, -1)},
            removed=None,
        )

    def graph(self, session_of: SessionOf, total: int = 0) -> LiveGraph:
        """A `LiveGraph` of the graph as it is, with rows for so many ids."""
        position = self.position[None]
        there = (position >= 0).nonzero().flatten()
        ids = there[position[there].argsort()]
        data = self.done.apply(self.session.data)
        assert isinstance(data, Data)
        return LiveGraph.of(session_of, data, ids, max(total, len(position)))


@dataclass(frozen=True, eq=False)
class RowChanges:
    """The predictions that an edit changes, by the ids of the first graph.

    Attributes:
        changes: The changes of existing nodes.
        removed: Removed nodes.
        added: Predictions of added nodes `[k, C]`.
        inverse: The edit that undoes it, once it is applied.
    """

    changes: Changes
    removed: Tensor
    added: Tensor
    inverse: Inverse | None

    def after(self, before: Version) -> Version:
        """The predictions after it."""
        return before.replaced(self.changes, self.removed, self.added)


def predicted_rows(session: Session, rows: Tensor, kind: Kind) -> Tensor:
    """The rows of the nodes of a type, of all predictions."""
    return rows if kind is None else rows[session.node_index.span(kind)]
