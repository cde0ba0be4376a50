"""Many independent edits of one graph, as pointer arrays.

`Edits` is what a user says; `Edits.resolve(graph)` makes an `EditBatch` of it. The engine, full passes
(`apply`, `nora.model.edited`), `Live` and the explorer all take it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.graph.edge_lookup import EdgeLookup, EdgeType
from nora.graph.edge_sets import Kind, exchange_edges, node_counts
from nora.graph.node_index import Graph, node_index_of
from nora.graph.removal import isolate_nodes, remove_nodes
from nora.sparse import expanded

NONE = torch.empty(0, dtype=torch.long)


@dataclass(frozen=True, eq=False)
class EditRows:
    """Rows that belong to edits: those of edit `i` are `ptr[i]:ptr[i+1]` of every tensor beside `ptr`."""

    ptr: Tensor

    def changed(self, ptr: Tensor, change: Callable[[Tensor], Tensor]) -> Self:
        """The same part with another `ptr` and every other tensor changed."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "ptr"}
        return type(self)(ptr=ptr, **{name: _each(value, change) for name, value in values.items()})

    def pick(self, which: Tensor) -> Self:
        """The rows of some edits `[m]`, in this order."""
        _, at, ptr = expanded(self.ptr, which)
        return self.changed(ptr, lambda rows: rows[at.to(rows.device)])


@dataclass(frozen=True, eq=False)
class AddedEdges(EditRows):
    """Edges of one type that edits add.

    Attributes:
        source, target: Their ends, ids within the types of these `[m]`.
        attributes: Their edge attributes by key, `[m, …]`.
    """

    source: Tensor
    target: Tensor
    attributes: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def edge_index(self) -> Tensor:
        """`[2, m]`."""
        return torch.stack([self.source, self.target])


@dataclass(frozen=True, eq=False)
class AddedNodes(EditRows):
    """Nodes of one type that edits add; they have the ids after the graph's last one.

    Attributes:
        rows: Their node-level tensors by key, `[m, …]`.
    """

    rows: Mapping[str, Tensor]

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))


@dataclass(frozen=True, eq=False)
class ChangedFeatures(EditRows):
    """Rows of `x` of one node type that edits change.

    Attributes:
        node: The nodes, ids within the type `[m]`.
        rows: Their new rows `[m, F]`.
    """

    node: Tensor
    rows: Tensor

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, eq=False)
class EditBatch:
    """Independent edits of one graph; each removes, adds and changes several things at once.

    Attributes:
        ptr: `[c+1]`; edit `i` removes the nodes `node[ptr[i]:ptr[i+1]]`.
        node: The removed nodes, global ids.
        edge_ptr: `[c+1]`; edit `i` removes the edges `edge[edge_ptr[i]:edge_ptr[i+1]]`.
        edge: Edge ids (see `nora.graph.edge_lookup`) of removed edges, without those of removed nodes.
        added_edges: Added edges, by edge type.
        added_nodes: Added nodes, by node type.
        features: Changed rows of `x`, by node type.

    Example:
        >>> batch = EditBatch.remove_nodes(torch.tensor([3, 5, 7]))
        >>> len(batch), batch.pick(torch.tensor([2, 0])).node
        (3, tensor([7, 3]))
    """

    ptr: Tensor
    node: Tensor
    edge_ptr: Tensor
    edge: Tensor
    added_edges: Mapping[EdgeType, AddedEdges] = field(default_factory=dict)
    added_nodes: Mapping[Kind, AddedNodes] = field(default_factory=dict)
    features: Mapping[Kind, ChangedFeatures] = field(default_factory=dict)

    @staticmethod
    def remove_nodes(nodes: Tensor) -> EditBatch:
        """One edit per node, which removes it."""
        ptr = torch.arange(len(nodes) + 1, device=nodes.device)
        return EditBatch(ptr, nodes, torch.zeros_like(ptr), nodes[:0])

    @staticmethod
    def remove_edges(ptr: Tensor, edges: Tensor) -> EditBatch:
        """Edit `i` removes the edges `edges[ptr[i]:ptr[i+1]]`, by edge id."""
        return EditBatch(torch.zeros_like(ptr), edges[:0], ptr, edges)

    @staticmethod
    def of(
        nodes: Tensor = NONE,
        edges: Tensor | None = None,
        added_edges: Mapping[EdgeType, tuple[Tensor, Mapping[str, Tensor]]] | None = None,
        added_nodes: Mapping[Kind, Mapping[str, Tensor]] | None = None,
        features: Mapping[Kind, tuple[Tensor, Tensor]] | None = None,
    ) -> EditBatch:
        """One edit, in which everything happens at once.

        Args:
            nodes: Nodes to remove, global ids.
            edges: Edges to remove, by edge id.
            added_edges: Edges to add `[2, m]` and their attributes, by edge type.
            added_nodes: Node-level rows of nodes to add, by node type and key.
            features: Nodes (ids within the type) and their new rows of `x`, by node type.
        """

        def ptr(rows: Tensor) -> Tensor:
            return torch.tensor([0, len(rows)], device=rows.device)

        edges = nodes[:0] if edges is None else edges
        return EditBatch(
            ptr(nodes),
            nodes,
            ptr(edges),
            edges,
            {
                key: AddedEdges(ptr(ends[0]), ends[0], ends[1], attributes)
                for key, (ends, attributes) in (added_edges or {}).items()
                if ends.numel()
            },
            {
                kind: AddedNodes(ptr(next(iter(rows.values()))), rows)
                for kind, rows in (added_nodes or {}).items()
            },
            {
                kind: ChangedFeatures(ptr(ids), ids, x)
                for kind, (ids, x) in (features or {}).items()
            },
        )

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def only_removes(self) -> bool:
        """Whether no edit adds or changes anything."""
        return not (self.added_edges or self.added_nodes or self.features)

    @cached_property
    def one_node_each(self) -> bool:
        """Whether every edit removes exactly one node; it may remove edges, too."""
        return len(self.node) == len(self) and bool((self.ptr[1:] - self.ptr[:-1] == 1).all())

    @property
    def added_counts(self) -> dict[Kind, int]:
        """How many nodes are added, by type."""
        return {kind: len(added) for kind, added in self.added_nodes.items()}

    @property
    def size(self) -> int:
        """How many nodes, edges and rows of features the batch removes, adds and changes in all."""
        parts = (self.added_edges, self.added_nodes, self.features)
        added = sum(len(one) for part in parts for one in part.values())
        return len(self.node) + len(self.edge) + added

    def pick(self, which: Tensor) -> EditBatch:
        """Some of the edits `[m]`, in this order."""
        _, at, ptr = expanded(self.ptr, which)
        _, edge_at, edge_ptr = expanded(self.edge_ptr, which)
        return EditBatch(
            ptr, self.node[at], edge_ptr, self.edge[edge_at], *self._parts(lambda p: p.pick(which))
        )

    def merge(self, size: int) -> EditBatch:
        """Every `size` edits that follow each other as one."""
        return EditBatch(
            self.ptr[::size],
            self.node,
            self.edge_ptr[::size],
            self.edge,
            *self._parts(lambda part: part.changed(part.ptr[::size], lambda rows: rows)),
        )

    def to(self, device: torch.device) -> EditBatch:
        """The same on another device."""
        return EditBatch(
            self.ptr.to(device),
            self.node.to(device),
            self.edge_ptr.to(device),
            self.edge.to(device),
            *self._parts(lambda p: p.changed(p.ptr.to(device), lambda rows: rows.to(device))),
        )

    def _parts(self, change: Callable[[Any], Any]) -> list[dict[Any, Any]]:
        parts = (self.added_edges, self.added_nodes, self.features)
        made = ({key: change(one) for key, one in part.items()} for part in parts)
        return [{key: one for key, one in part.items() if len(one)} for part in made]

    def apply(self, data: Graph, isolate: bool = False) -> Graph:
        """The graph after the one edit of this batch: the definition of what an edit does.

        Args:
            data: The graph that it was resolved for; left as it is.
            isolate: Keep the removed nodes, without edges, so that all ids stay.
        """
        if len(self) != 1:
            raise ValueError(f"apply takes a batch of one edit, got {len(self)}; pick one of them")
        new = copy.copy(data)
        more, edited = self.added_counts, len(self.edge) or self.added_edges
        for kind, added in self.added_nodes.items():
            store = store_of(new, kind)
            for key, rows in added.rows.items():
                store[key] = torch.cat([store[key], rows.to(store[key].device)])
        for kind, count in node_counts(data).items():
            if more.get(kind) or isinstance(data, HeteroData) or edited:
                store_of(new, kind).num_nodes = count + more.get(kind, 0)
        for kind, changed in self.features.items():
            store = store_of(new, kind)
            store.x = store.x.clone()
            store.x[changed.node.to(store.x.device)] = changed.rows.to(store.x.device)
        for edge_type, columns in (
            EdgeLookup(data).columns(self.edge.cpu()).items() if edited else ()
        ):
            edges = self.added_edges.get(edge_type)
            if edges is not None:
                exchange_edges(data, new, edge_type, columns, edges.edge_index, edges.attributes)
            elif len(columns):
                exchange_edges(data, new, edge_type, columns, None, {})
        if not len(self.node):
            return new
        return (isolate_nodes if isolate else remove_nodes)(new, self._removed_from(data, new))

    def _removed_from(self, data: Graph, new: Graph) -> Tensor:
        """The removed nodes' global ids in the graph with the added nodes."""
        index = node_index_of(data)
        if not self.added_nodes or not index.types:
            return self.node.cpu()
        starts, removed = node_index_of(new).starts, index.by_type(self.node.cpu())
        return torch.cat([ids + starts[str(kind)] for kind, ids in removed.items()])


def store_of(data: Graph, kind: Any) -> Any:
    """The storage of a node or edge type in a graph; None without types."""
    return data if kind is None else data[kind]


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Mapping):
        return {key: change(rows) for key, rows in value.items()}
    return change(value)
