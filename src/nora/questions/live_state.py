"""The graph behind `Live` at one time: a session, the edits since, and where every node is.

What sessions are about is the *snapshot*, a graph that was there before, or a `LiveGraph`, which is always
the graph as it is. `Live` names nodes by their ids in the first graph.
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
from nora.questions.live_ids import Moved
from nora.questions.live_versions import Version
from nora.questions.session import Session

NOTHING = EditBatch.of()
# A session about a graph, for the model and the task of a `Live`.
SessionOf = Callable[[Any], Session]


@dataclass(frozen=True, eq=False)
class Asked:
    """The graph after some edits.

    Attributes:
        session: The session about the snapshot, or about the `LiveGraph`.
        edits: All edits since the snapshot, in its ids; of a `LiveGraph` the last ones.
        done: The same, resolved.
        place: Where every node that ever was is in the snapshot, by type; nodes added since have the ids
            after its last one, and removed ones −1. In a `LiveGraph` every node has its own id.
    """

    session: Session
    edits: Edits
    done: EditBatch
    place: dict[Kind, Tensor]

    def by_id(self, after: After, kind: Kind) -> Tensor:
        """Predictions of the nodes of a type, by the ids of the first graph `[ids, C]`."""
        place, rows = self.place[kind], predicted_rows(self.session, after.predictions, kind)
        if after.added is not None:
            counts, types = self.done.added_counts, self.session.node_index.types
            first = sum(counts.get(one, 0) for one in types[: types.index(kind)]) if types else 0
            rows = torch.cat([rows, after.added[first : first + counts.get(kind, 0)]])
        place = place.to(rows.device)
        found = rows[place.clamp(min=0)]
        found[place < 0] = float("nan")
        return found


@dataclass(frozen=True, eq=False)
class State(Asked):
    """The graph at one time; in a `LiveGraph` its edits are none.

    Attributes:
        predictions: The predictions of that time, of every node that ever was.
        removed: The ids of all nodes that were removed, in a `LiveGraph`.
        inverse: How the last edit is undone in a `LiveGraph`; None if the state before it is a snapshot.
    """

    predictions: Version
    removed: Tensor | None = None
    inverse: Inverse | None = None

    def after(self, edits: Edits, both_ways: bool | None) -> Asked:
        """The graph after more edits, checked.

        Args:
            edits: In the ids of the first graph.
            both_ways: Whether edges are removed and added in both directions, where edits do not say it.
        """
        session, came = self.session, self.done.added_counts
        added = {}
        if edits.add_nodes is not None:
            added = session.resolve(Edits(add_nodes=edits.add_nodes)).added_counts
        place, counts = dict(self.place), node_counts(session.data)
        if self.removed is not None:
            counts[None] = len(place[None])
        for kind, count in added.items():
            last = counts[kind] + came.get(kind, 0)
            place[kind] = torch.cat([place[kind], last + torch.arange(count)])
        moved = Moved(session, self.place, place)
        mine = Edits(
            remove=moved.nodes(edits.remove),
            remove_edges=moved.edges(edits.remove_edges),
            add_edges=moved.edges(edits.add_edges),
            add_nodes=edits.add_nodes,
            features=moved.features(edits.features),
            undirected=both_ways if edits.undirected is None else edits.undirected,
        )
        both = self.edits + mine if self.edits else mine
        done = session.resolve(both)
        for kind, removed in moved.removed(edits.remove).items():
            if len(removed):
                place[kind] = place[kind].clone()
                place[kind][removed] = -1
        return Asked(session, both, done, place)

    def renewed(self, session_of: SessionOf) -> State:
        """The same with the graph as it is as the snapshot, where its edits led from an earlier one."""
        done, session = self.done, self.session
        removed = session.node_index.by_type(done.node)
        counts, more = node_counts(session.data), done.added_counts
        place = {}
        for kind, there in self.place.items():
            count = counts[kind] + more.get(kind, 0)
            left = torch.ones(count, dtype=torch.bool)
            left[removed[kind]] = False
            new = torch.where(left, left.long().cumsum(0) - 1, -1)
            place[kind] = torch.where(there >= 0, new[there.clamp(min=0)], -1) if count else there
        return State(
            session_of(done.apply(session.data)), Edits(), NOTHING, place, self.predictions
        )

    def snapshot(self, session_of: SessionOf, graph: LiveGraph) -> State:
        """The same with the graph as it is as the snapshot, of a `LiveGraph`."""
        there = self.place[None] >= 0
        return replace(
            self,
            session=session_of(graph.now(self.place[None])),
            place={None: torch.where(there, there.cumsum(0) - 1, -1)},
            removed=None,
        )

    def graph(self, session_of: SessionOf, total: int = 0) -> LiveGraph:
        """A `LiveGraph` of the graph as it is, with rows for so many ids."""
        place = self.place[None]
        there = (place >= 0).nonzero().flatten()
        ids = there[place[there].argsort()]
        data = self.done.apply(self.session.data)
        assert isinstance(data, Data)
        return LiveGraph.of(session_of, data, ids, max(total, len(place)))


@dataclass(frozen=True, eq=False)
class Rows:
    """The predictions that an edit changes, by the ids of the first graph.

    Attributes:
        changes: What becomes of nodes that were there.
        lost: Nodes that are removed by it.
        more: Predictions of nodes that are added `[k, C]`.
        inverse: How it is undone, once it is made.
    """

    changes: Changes
    lost: Tensor
    more: Tensor
    inverse: Inverse | None

    def after(self, before: Version) -> Version:
        """The predictions after it."""
        return before.replaced(self.changes, self.lost, self.more)


def predicted_rows(session: Session, rows: Tensor, kind: Kind) -> Tensor:
    """The rows of the nodes of a type, of all predictions."""
    return rows if kind is None else rows[session.node_index.span(kind)]
