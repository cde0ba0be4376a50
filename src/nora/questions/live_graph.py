"""The graph behind `Live` as it is now: rows for nodes to come, edges that are removed and added in place.

Nodes have the ids of the first graph. Some rows are kept free for nodes that come; those of nodes that are
gone stay, without edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from nora.graph.edge_lookup import TypedEdges
from nora.graph.edge_sets import Kind, Rewriting, edge_companions, rewrite
from nora.graph.edit_batch import EditBatch
from nora.graph.edit_resolution import node_tensors
from nora.questions.session import Session

# Free rows for added nodes: at least so many, and this share of the existing ones.
ROOM, SHARE = 64, 0.01


class CurrentEdges(TypedEdges):
    """The edges of a graph of which some are removed and others added, with the edge ids after its own.

    Args:
        own: The edges to begin with.

    Attributes:
        removed: The ids of those of them that are removed.
        added: The ids of added edges by their ends, ascending.
        ends: The ends of added edges by id.
        count: How many edge ids have been given.
    """

    def __init__(self, own: TypedEdges) -> None:
        super().__init__(own.edge_type, own.edges, own.sizes, own.start)
        self.removed: set[int] = set()
        self.added: dict[tuple[int, int], list[int]] = {}
        self.ends: dict[int, tuple[int, int]] = {}
        self.count = own.edges.size(1)

    def columns(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """See `TypedEdges.columns`; a column is an edge id."""
        pairs = zip(*(one.tolist() for one in super().columns(edges)), strict=True)
        found = [(which, edge) for which, edge in pairs if edge not in self.removed]
        for which, (source, target) in enumerate(edges.t().tolist()):
            found += [(which, edge) for edge in self.added.get((source, target), ())]
        which, column = torch.tensor(sorted(found), dtype=torch.long).reshape(-1, 2).t()
        return which, column

    def holds(self, edges: Tensor) -> Tensor:
        """See `TypedEdges.holds`."""
        found = torch.zeros(edges.size(1), dtype=torch.bool)
        found[self.columns(edges)[0]] = True
        return found

    def remove(self, edge: int) -> tuple[int, int]:
        """Remove an edge; its ends."""
        if edge in self.ends:
            ends = self.ends.pop(edge)
            self.added[ends].remove(edge)
            return ends
        self.removed.add(edge)
        source, target = self.edges[:, edge].tolist()
        return source, target

    def add(self, source: int, target: int) -> int:
        """Add an edge; its id."""
        self.ends[self.count] = source, target
        self.added.setdefault((source, target), []).append(self.count)
        self.count += 1
        return self.count - 1


@dataclass(frozen=True, eq=False)
class Inverse:
    """How an edit is undone, in the ids of the first graph.

    Attributes:
        added: The edges that it added `[2, k]`.
        removed, attributes: The edges that it removed `[2, m]`, and their edge attributes.
        features: The nodes that it removed or whose features it changed, and their features before.
        nodes, rows: The nodes that it removed, and their rows of all node-level tensors.
    """

    added: Tensor
    removed: Tensor
    attributes: Mapping[str, Tensor]
    features: Mapping[Kind, tuple[Tensor, Tensor]]
    nodes: Tensor
    rows: Mapping[str, Tensor]


class LiveGraph:
    """The current graph.

    Args:
        session: About the graph to begin with, with free rows; this object's own from now on. Edits that it
            resolves are resolved for the graph as it is.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.data = session, session.data
        session.edges.types[None] = self.edges = CurrentEdges(session.edges.types[None])
        self._own_attributes = {
            key: value.cpu() for key, value in edge_companions(self.data).items()
        }
        self._attributes: dict[int, dict[str, Tensor]] = {}  # of added edges, by id

    @staticmethod
    def of(session_of: Callable[[Any], Session], data: Data, ids: Tensor, total: int) -> LiveGraph:
        """The graph with free rows.

        Args:
            session_of: A session about a graph.
            data: The graph.
            ids: The id of each of its nodes in the first graph `[N]`.
            total: How many ids have been given.
        """
        rows = torch.zeros(total + max(ROOM, int(SHARE * total)), dtype=torch.long)
        rows[ids] = torch.arange(len(ids))
        return LiveGraph(session_of(rewrite(data, Rewriting({None: rows}, [{None: ids}]))))

    def batch(self, done: EditBatch, first: int, neighbours: Callable[[int], Tensor]) -> EditBatch:
        """An edit without nodes: those removed lose their edges, those added get features.

        Args:
            done: The edit, as the session resolves it.
            first: The id of the first added node.
            neighbours: From a node to the edges at it `[2, m]`.
        """
        edges = done.edge
        features: dict[Kind, tuple[Tensor, Tensor]] = {}
        if len(done.node):
            pairs = torch.cat([neighbours(node) for node in done.node.tolist()], dim=1)
            edges = torch.cat([edges, self.edges.columns(pairs)[1]]).unique()
        changed, more = done.features.get(None), done.added_nodes.get(None)
        parts = [] if changed is None else [(changed.node, changed.rows)]
        if more is not None and "x" in more.rows:
            parts.append((first + torch.arange(len(more)), more.rows["x"]))
        if parts:
            nodes, rows = (torch.cat(column) for column in zip(*parts, strict=True))
            features = {None: (nodes, rows.to(self.data.x))}
        added = {key: (one.edge_index, one.attributes) for key, one in done.added_edges.items()}
        return EditBatch.of(edges=edges, added_edges=added, features=features)

    def write(self, batch: EditBatch, nodes: Tensor) -> Inverse:
        """Make an edit for good, from which the removed nodes are left out."""
        removed = batch.edge.tolist()
        attributes = {key: torch.stack(rows) for key, rows in self._rows(removed).items() if rows}
        ends = [self.edges.remove(edge) for edge in removed]
        for edge in removed:
            self._attributes.pop(edge, None)
        added = []
        for one in batch.added_edges.values():
            for at, pair in enumerate(one.edge_index.t().tolist()):
                edge = self.edges.add(*pair)
                self._attributes[edge] = {key: rows[at] for key, rows in one.attributes.items()}
                added.append(pair)
        self.session.edges.total = self.edges.count
        changed = batch.features.get(None)
        features: dict[Kind, tuple[Tensor, Tensor]] = {}
        if "x" in self.data:
            touched = nodes if changed is None else torch.cat([nodes, changed.node]).unique()
            features = {None: (touched, self.data.x[touched])} if len(touched) else {}
        if changed is not None:
            self.data.x[changed.node] = changed.rows
        tensors = node_tensors(self.data, None) if len(nodes) else {}
        rows = {key: value[nodes] for key, value in tensors.items()}
        return Inverse(_pairs(added), _pairs(ends), attributes, features, nodes, rows)

    def fill(self, nodes: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Write the rows of nodes in some node-level tensors."""
        for key, values in rows.items():
            self.data[key][nodes] = values.to(self.data[key].device)

    def inverse(self, undo: Inverse) -> EditBatch:
        """The edit that undoes the last one."""
        edges = []
        for pair, count in Counter(map(tuple, undo.added.t().tolist())).items():
            edges += self.edges.columns(_pairs([pair]))[1].tolist()[-count:]
        return EditBatch.of(
            edges=torch.tensor(sorted(edges), dtype=torch.long),
            added_edges={None: (undo.removed, undo.attributes)},
            features=undo.features,
        )

    def now(self, position: Tensor) -> Data:
        """The graph as it is, of the nodes whose position is not −1, which are renumbered."""
        there = torch.zeros(self.session.num_nodes, dtype=torch.bool)
        there[: len(position)] = position >= 0
        added = sorted(self.edges.ends)
        rows = {key: torch.stack(each) for key, each in self._rows(added).items() if each}
        batch = EditBatch.of(
            nodes=(~there).nonzero().flatten(),
            edges=torch.tensor(sorted(self.edges.removed), dtype=torch.long),
            added_edges={None: (_pairs([self.edges.ends[edge] for edge in added]), rows)},
        )
        return batch.apply(self.data)

    def _rows(self, edges: list[int]) -> dict[str, list[Tensor]]:
        """The attributes of some edges, by key."""
        return {
            key: [
                self._attributes[edge][key] if edge in self._attributes else own[edge]
                for edge in edges
            ]
            for key, own in self._own_attributes.items()
        }


def _pairs(pairs: list[Any]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
