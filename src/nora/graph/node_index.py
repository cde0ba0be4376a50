"""Global ids: all nodes of a graph numbered together, whatever their types.

A graph with several node types numbers the nodes of each from 0. Methods, scores and checkpoints know
one number per node instead: first the nodes of the first type, then those of the second, and so
on. Types appear only where users name nodes and read results: `("author", 17)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.graph.edge_sets import graph_edges
from nora.graph.removal import node_ids
from nora.registry import nearest
from nora.wording import listed

Graph: TypeAlias = Data | HeteroData
# An id, ids, a mask; with types ("author", 17), [("author", 17), …], {"author": [17]}, "author".
Nodes = Any


@dataclass(frozen=True)
class NodeIndex:
    """Node types in their order, with the number of nodes of each; no types for a plain `Data`.

    Example:
        >>> index = NodeIndex(("author", "paper"), (3, 5))
        >>> index.ids(("paper", [0, 4]))
        tensor([3, 7])
        >>> index.located(torch.tensor([7]))
        [('paper', 4)]
    """

    types: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of nodes of all types."""
        return sum(self.counts)

    @cached_property
    def starts(self) -> dict[str, int]:
        """The global id at which each type begins."""
        passed = [sum(self.counts[:at]) for at in range(len(self.counts))]
        return dict(zip(self.types, passed, strict=True))

    def sizes(self) -> dict[str, int] | None:
        """The number of nodes of each type, as results store it; None if there is only one type."""
        return dict(zip(self.types, self.counts, strict=True)) if len(self.types) > 1 else None

    def span(self, node_type: str) -> slice:
        """The global ids of a type's nodes."""
        self.check_type(node_type)
        start = self.starts[node_type]
        return slice(start, start + self.counts[self.types.index(node_type)])

    def check_type(self, node_type: Any) -> None:
        """Raise unless the graph has this node type."""
        if node_type not in self.types:
            hint = nearest(str(node_type), list(self.types))
            raise ValueError(
                f"the graph has no node type {node_type!r}.{hint} It has: {listed(self.types)}"
            )

    def mask(self, node_type: str) -> Tensor:
        """Mask `[total]` of a type's nodes."""
        found = torch.zeros(self.total, dtype=torch.bool)
        found[self.span(node_type)] = True
        return found

    def ids(self, nodes: Nodes, what: str = "node", node_type: str | None = None) -> Tensor:
        """Sorted distinct global ids.

        Args:
            nodes: Ids or a mask; in a graph with node types `("author", 17)`, a list of such
                pairs, `{"author": ids}`, a type's name for all of its nodes, or a mask over all
                nodes.
            what: What they are, for messages.
            node_type: The type that bare ids belong to, where it is clear from elsewhere.
        """
        if not self.types:
            return node_ids(nodes, self.counts[0], what)
        if isinstance(nodes, str):
            return torch.arange(self.total)[self.span(nodes)]
        if isinstance(nodes, np.ndarray) and nodes.dtype.kind in "iub":
            nodes = torch.as_tensor(nodes)
        if isinstance(nodes, Mapping):
            pairs = list(nodes.items())
        elif _is_pair(nodes):
            pairs = [nodes]
        elif isinstance(nodes, Iterable) and not isinstance(nodes, Tensor):
            given = list(nodes)
            if not given:
                return torch.empty(0, dtype=torch.long)
            if all(isinstance(one, str) for one in given):
                return torch.cat([self.ids(one, what) for one in given]).unique()
            pairs = given if all(_is_pair(one) for one in given) else []
            nodes = torch.tensor(given) if all(isinstance(one, bool) for one in given) else given
        else:
            pairs = []
        if pairs:
            return torch.cat([self._of(*pair, what) for pair in pairs]).unique()
        if isinstance(nodes, Tensor) and nodes.dtype == torch.bool and len(nodes) == self.total:
            return node_ids(nodes, self.total, what)
        if node_type is None and len(self.types) == 1:
            node_type = self.types[0]
        if node_type is not None:
            return self._of(node_type, nodes, what)
        raise ValueError(
            f"the graph has nodes of the types {listed(self.types)}: name the type of each {what}, "
            f"e.g. ({self.types[0]!r}, 17)"
        )

    def _of(self, node_type: str, ids: Any, what: str) -> Tensor:
        span = self.span(node_type)
        owner = f"type {node_type!r}"
        return node_ids(ids, span.stop - span.start, what, owner) + span.start

    def named(self, ids: Iterable[int]) -> tuple[Any, ...]:
        """Global ids as users name nodes: with their type if there are several types."""
        given = list(ids)
        return tuple(self.located(torch.tensor(given)) if self.sizes() else given)

    def by_type(self, ids: Tensor) -> dict[str | None, Tensor]:
        """Global ids apart by type, as ids within it; under None without types."""
        if not self.types:
            return {None: ids}
        spans = ((kind, self.span(kind)) for kind in self.types)
        return {
            kind: ids[(ids >= span.start) & (ids < span.stop)] - span.start for kind, span in spans
        }

    def located(self, ids: Tensor) -> list[tuple[str, int]]:
        """The type of each global id, and its number there."""
        ends = torch.tensor(self.counts).cumsum(0)
        at = torch.searchsorted(ends, ids.cpu(), right=True).tolist()
        return [
            (self.types[k], int(one) - self.starts[self.types[k]])
            for k, one in zip(at, ids, strict=True)
        ]


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def node_columns(nodes: Iterable[Any]) -> dict[str, list[Any]]:
    """Columns of a table of nodes, given as `NodeIndex.named` names them.

    >>> node_columns([("author", 3)])
    {'type': ['author'], 'node': [3]}
    """
    given = list(nodes)
    if given and isinstance(given[0], tuple):
        return {"type": [node[0] for node in given], "node": [node[1] for node in given]}
    return {"node": given}


def node_index_of(data: Graph) -> NodeIndex:
    """How the nodes of a graph are numbered.

    Example:
        >>> data = HeteroData()
        >>> data["author"].num_nodes, data["paper"].num_nodes = 3, 5
        >>> node_index_of(data).total
        8
    """
    if isinstance(data, HeteroData):
        types = tuple(data.node_types)
        return NodeIndex(types, tuple(int(data[t].num_nodes or 0) for t in types))
    return NodeIndex((), (int(data.num_nodes or 0),))


def global_edges(data: Graph, node_index: NodeIndex | None = None) -> Tensor:
    """All edges `[2, E]` between global ids, edge type after edge type."""
    if isinstance(data, Data):
        edges = graph_edges(data)
        return torch.empty(2, 0, dtype=torch.long) if edges is None else edges
    index = node_index_of(data) if node_index is None else node_index
    found = []
    for edge_type in data.edge_types:
        edges = graph_edges(data[edge_type])
        assert edges is not None
        shift = torch.tensor([[index.starts[edge_type[0]]], [index.starts[edge_type[2]]]])
        found.append(edges + shift.to(edges.device))
    return torch.cat(found, dim=1) if found else torch.empty(2, 0, dtype=torch.long)
