"""Edits translated from the ids of the first graph to those of a snapshot; see `live`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from nora.graph.edge_lookup import EdgeType, one_by_one
from nora.graph.edge_sets import Kind
from nora.graph.node_index import NodeIndex
from nora.questions.session import Session


class SnapshotIds:
    """Translates edits from the ids of the first graph to those of the snapshot.

    Args:
        session: About the snapshot.
        known: The position of every node, see `State.position`.
        with_added: The same with the nodes that these edits add.
    """

    def __init__(
        self, session: Session, known: Mapping[Kind, Tensor], with_added: Mapping[Kind, Tensor]
    ) -> None:
        self.session, self.known, self.with_added = session, known, with_added
        types = session.node_index.types
        self.index = NodeIndex(types, tuple(map(len, known.values())))

    def removed(self, nodes: Any) -> dict[Kind, Tensor]:
        """Nodes by type, in the ids of the first graph."""
        return self.index.by_type(self.index.ids(nodes))

    def _at(self, kind: Kind, node: int, position: Mapping[Kind, Tensor]) -> int:
        if not 0 <= node < len(position[kind]):
            raise ValueError(
                f"node {node} is out of range: the live graph has had {len(position[kind])} nodes "
                f"(0 … {len(position[kind]) - 1})"
            )
        found = int(position[kind][node])
        if found < 0:
            raise ValueError(f"node {node if kind is None else (kind, node)} was removed")
        return found

    def nodes(self, nodes: Any) -> list[Any]:
        """Removed nodes."""
        found = [
            (kind, self._at(kind, node, self.known))
            for kind, ids in self.removed(nodes).items()
            for node in ids.tolist()
        ]
        return found if self.index.types else [node for _, node in found]

    def edges(self, edges: Any) -> Any:
        """Edges with their attributes."""
        found: dict[EdgeType, list[Any]] = {}
        for edge_type, given in self.session.edges.by_type(edges).items():
            ends = (None, None) if edge_type is None else (edge_type[0], edge_type[2])
            found[edge_type] = [
                (
                    self._at(ends[0], int(pair[0]), self.with_added),
                    self._at(ends[1], int(pair[1]), self.with_added),
                    *pair[2:],
                )
                for pair in one_by_one(given)
            ]
        return found.get(None, []) if not self.index.types else found

    def features(self, features: Any) -> Any:
        """Changed rows, by node."""
        if features is None:
            return None
        if not isinstance(features, Mapping):
            raise TypeError("features must be a mapping from nodes to rows, e.g. {17: row}")
        found = {}
        for node, row in features.items():
            nodes = self.nodes(node)
            if len(nodes) != 1:
                raise ValueError(f"features names one node at a time, got {node!r}")
            found[nodes[0]] = row
        return found
