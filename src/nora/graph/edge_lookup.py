"""The edges of a graph by their ends and by edge id, edge type after edge type.

Users name an edge by its two nodes; the engine uses its *edge id*: its position among all columns of
the graph's `edge_index`, the edge types one after the other. One name stands for several ids where an edge
is there twice, and where the graph is undirected: such an edge is removed and added in both directions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.graph.edge_sets import graph_edges, node_counts
from nora.graph.removal import node_ids
from nora.registry import nearest

# ("author", "writes", "paper"); None in a graph without types.
EdgeType = tuple[str, str, str] | None


@dataclass(eq=False)
class TypedEdges:
    """The edges of one type.

    Attributes:
        edge_type: Which, or None.
        edges: `[2, E]`, ids within the types of their ends.
        sizes: Number of nodes of both types.
        start: The edge id of its first edge.
    """

    edge_type: EdgeType
    edges: Tensor
    sizes: tuple[int, int]
    start: int

    def keys(self, edges: Tensor) -> Tensor:
        """One number for the two ends of each edge `[k]`."""
        return edges[0] * max(self.sizes[1], 1) + edges[1]

    def distinct(self, edges: Tensor) -> Tensor:
        """Each of the edges `[2, k]` once, sorted: by single numbers, which is quicker than by columns."""
        keys = self.keys(edges).unique()
        size = max(self.sizes[1], 1)
        return torch.stack([keys // size, keys % size])

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        keys, order = self.keys(self.edges.cpu()).sort(stable=True)
        return keys, order

    def columns(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """The positions of edges `[2, k]` in `edge_index`: `which [M]`, sorted, and `column [M]`."""
        keys, order = self._sorted
        wanted = self.keys(edges)
        low = torch.searchsorted(keys, wanted)
        counts = torch.searchsorted(keys, wanted, right=True) - low
        which = torch.arange(len(wanted)).repeat_interleave(counts)
        passed = counts.cumsum(0) - counts
        return which, order[low[which] + torch.arange(len(which)) - passed[which]]

    def holds(self, edges: Tensor) -> Tensor:
        """Which of the edges `[2, k]` are there."""
        keys = self._sorted[0]
        wanted = self.keys(edges)
        if not len(keys):
            return torch.zeros_like(wanted, dtype=torch.bool)
        return keys[torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)] == wanted

    @cached_property
    def undirected(self) -> bool:
        """Whether every edge has its reverse, among nodes of one type."""
        same = self.edge_type is None or self.edge_type[0] == self.edge_type[2]
        return same and bool(self.holds(self.edges.cpu().flip(0)).all())

    def is_reverse_of(self, other: TypedEdges) -> bool:
        """Whether these are the other's edges in the other direction."""
        return (
            self.edges.size(1) == other.edges.size(1)
            and bool(self.holds(other.edges.cpu().flip(0)).all())
            and bool(other.holds(self.edges.cpu().flip(0)).all())
        )


@dataclass(frozen=True)
class Directions:
    """Which edges of a graph are one undirected edge with their reverse.

    Attributes:
        paired: Edge types whose edges all have their reverse among them.
        mirrors: Edge types that hold the reverse of another's edges.
    """

    paired: frozenset[EdgeType]
    mirrors: Mapping[EdgeType, EdgeType]


class EdgeLookup:
    """All edges of a graph.

    Args:
        data: The graph.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> EdgeLookup(path).named([(2, 1)])
        {None: tensor([[1],
                [2]])}
        >>> EdgeLookup(path).edge_ids({None: torch.tensor([[1], [2]])})
        tensor([2, 3])
    """

    def __init__(self, data: Data | HeteroData) -> None:
        counts = node_counts(data)
        self.types: dict[EdgeType, TypedEdges] = {}
        start = 0
        for edge_type in data.edge_types if isinstance(data, HeteroData) else (None,):
            edges = graph_edges(data if edge_type is None else data[edge_type])
            if edges is None:
                raise ValueError(
                    "data has no edge_index; a graph needs one of shape [2, num_edges]"
                )
            ends = (None, None) if edge_type is None else (edge_type[0], edge_type[2])
            sizes = (counts[ends[0]], counts[ends[1]])
            self.types[edge_type] = TypedEdges(edge_type, edges, sizes, start)
            start += edges.size(1)
        self.total = start

    @cached_property
    def directions(self) -> Directions:
        """Which edges are undirected. May be set: a graph that an edit makes symmetric stays directed."""
        paired = frozenset(key for key, own in self.types.items() if own.undirected)
        mirrors: dict[EdgeType, EdgeType] = {}
        for own in self.types:
            if own is not None:  # as PyG's `ToUndirected` makes them
                other = (own[2], f"rev_{own[1]}", own[0])
                if other in self.types and self.types[own].is_reverse_of(self.types[other]):
                    mirrors[own], mirrors[other] = other, own
        return Directions(paired, mirrors)

    def with_undirected(self, undirected: bool | None) -> EdgeLookup:
        """The same edges, taken as undirected (or directed) whatever the graph is; None: as it is."""
        if undirected is None:
            return self
        new = copy.copy(self)
        same = frozenset(key for key in self.types if key is None or key[0] == key[2])
        new.directions = (
            Directions(same, self.directions.mirrors) if undirected else Directions(frozenset(), {})
        )
        return new

    def edge_type(self, given: Any) -> EdgeType:
        """The edge type that is meant: the whole triple, or the name of its relation."""
        if given in self.types:
            return given
        known = [one for one in self.types if one is not None]
        fits = [one for one in known if one[1] == given]
        if len(fits) == 1:
            return fits[0]
        if not known:
            raise ValueError(f"the graph has no edge types: give edges as pairs, not by {given!r}")
        hint = nearest(str(given), [one[1] for one in known])
        raise ValueError(f"the graph has no edge type {given!r}.{hint} It has: {known}")

    def by_type(self, edges: Any, what: str = "edges") -> dict[EdgeType, Any]:
        """The given edges of each edge type: a mapping, or a list in a graph with one type only."""
        if isinstance(edges, Mapping):
            found: dict[EdgeType, Any] = {}
            for key, value in edges.items():
                kind = self.edge_type(key)
                if kind in found:  # a type by its triple, and again by its relation's name
                    value = [*one_by_one(found[kind]), *one_by_one(value)]
                found[kind] = value
            return found
        if not isinstance(edges, Iterable):
            raise TypeError(
                f"{what} must be edges as pairs of node ids, e.g. [(3, 17)], got {edges!r}"
            )
        given = edges if isinstance(edges, Tensor) else list(edges)
        if not len(given):
            return {}
        if len(self.types) != 1:
            known = [one for one in self.types if one is not None]
            raise ValueError(
                f"the graph has several edge types: give {what}={{{known[0]!r}: [(3, 17)]}}"
            )
        return {next(iter(self.types)): given}

    def check_ids(
        self, edge_type: EdgeType, edges: Tensor, more: Mapping[Any, int] | None = None
    ) -> None:
        """Raise unless the ends of edges `[2, k]` are nodes; `more` counts the added nodes."""
        sizes = self.types[edge_type].sizes
        for end, (ids, size) in enumerate(zip(edges, sizes, strict=True)):
            kind = None if edge_type is None else edge_type[2 * end]
            owner = "graph" if kind is None else f"type {kind!r}"
            node_ids(ids, size + (more or {}).get(kind, 0), "node", owner)

    def paired(self, edge_type: EdgeType) -> bool:
        """Whether an edge of this type is one edge with its reverse."""
        return edge_type in self.directions.paired

    def named(self, edges: Any) -> dict[EdgeType, Tensor]:
        """Edges of the graph as given, by type: sorted, distinct, `[2, k]`; undirected ones once.

        Raises:
            ValueError: When the graph has no such edge.
        """
        found: dict[EdgeType, Tensor] = {}
        for edge_type, given in self.by_type(edges, "remove_edges").items():
            pairs = as_pairs(given)
            if not pairs.numel():
                continue
            own = self.types[edge_type]
            self.check_ids(edge_type, pairs)
            there = own.holds(pairs)
            if not bool(there.all()):
                source, target = pairs[:, ~there][:, 0].tolist()
                dash = "–" if self.paired(edge_type) else "→"
                reverse = (
                    own.sizes[0] == own.sizes[1]
                    and max(source, target) < own.sizes[0]
                    and bool(own.holds(torch.tensor([[target], [source]])))
                )
                hint = f" ({target}→{source} is): give source and target in this order" * reverse
                where = "the graph" if edge_type is None else f"the edges {edge_type}"
                raise ValueError(f"edge {source}{dash}{target} is not in {where}{hint}")
            if self.paired(edge_type):
                pairs = torch.stack([pairs.amin(dim=0), pairs.amax(dim=0)])
            found[edge_type] = own.distinct(pairs)
        return found

    def edge_ids(self, edges: Mapping[EdgeType, Tensor]) -> Tensor:
        """The ids of edges as `named` gives them, all copies in all directions, `[M]` sorted."""
        return self.units(edges)[1].unique()

    def columns(self, ids: Tensor) -> dict[EdgeType, Tensor]:
        """Edge ids as columns of each type's `edge_index`."""
        found = {}
        for key, own in self.types.items():
            here = (ids >= own.start) & (ids < own.start + own.edges.size(1))
            found[key] = ids[here] - own.start
        return found

    def every(self) -> dict[EdgeType, Tensor]:
        """All edges as users name them: each once, undirected ones as (smaller id, larger id)."""
        found = {}
        for edge_type, own in self.types.items():
            mirror = self.directions.mirrors.get(edge_type)
            if mirror is not None and edge_type is not None and edge_type[1] == f"rev_{mirror[1]}":
                continue
            edges = own.edges.cpu()
            if self.paired(edge_type):
                edges = torch.stack([edges.amin(dim=0), edges.amax(dim=0)])
            found[edge_type] = own.distinct(edges)
        return found

    def units(self, edges: Mapping[EdgeType, Tensor]) -> tuple[Tensor, Tensor]:
        """The edge ids of each named edge by itself: `ptr [k+1]`, `ids`, in the order of `edges`."""
        which, ids = [], []
        start = 0
        for edge_type, pairs in edges.items():
            own = self.types[edge_type]
            both = [(own, pairs)]
            mirror = self.directions.mirrors.get(edge_type)
            if self.paired(edge_type):
                both.append((own, pairs.flip(0)))
            elif mirror is not None:
                both.append((self.types[mirror], pairs.flip(0)))
            for kind, directed in both:
                at, column = kind.columns(directed)
                which.append(at + start)
                ids.append(column + kind.start)
            start += pairs.size(1)
        ptr = torch.zeros(start + 1, dtype=torch.long)
        if not which:
            return ptr, ptr[:0]
        # A self-loop is its own reverse.
        key = (torch.cat(which) * max(self.total, 1) + torch.cat(ids)).unique()
        ptr[1:] = torch.bincount(key // max(self.total, 1), minlength=start).cumsum(0)
        return ptr, key % max(self.total, 1)


def one_by_one(edges: Any, what: str = "edges") -> list[tuple[Any, ...]]:
    """Edges as `(source, target)` or `(source, target, attributes)`; a tensor `[2, k]` by its columns."""
    if isinstance(edges, Tensor):
        return [tuple(pair) for pair in as_pairs(edges).t().tolist()]
    found = [tuple(one) if isinstance(one, Iterable) else (one,) for one in edges]
    for one in found:
        if len(one) not in (2, 3) or (len(one) == 3 and not isinstance(one[2], Mapping)):
            raise TypeError(
                f"{what} must be pairs of node ids, e.g. [(3, 17)], or with their attributes "
                f"[(3, 17, {{'edge_weight': 0.5}})]; got {one!r}"
            )
    return found


def as_pairs(edges: Any) -> Tensor:
    """Pairs of ids, or a tensor `[2, k]`, as a tensor `[2, k]`."""
    if isinstance(edges, Tensor):
        if edges.dim() != 2 or edges.size(0) != 2:
            raise ValueError(f"edges in a tensor need shape [2, k], got {list(edges.shape)}")
        if edges.is_floating_point():
            raise TypeError(f"edges are pairs of node ids, which are integers, got {edges.dtype}")
        return edges.long().cpu()
    try:
        pairs = [(index(source), index(target)) for source, target in edges]
    except (TypeError, ValueError):
        raise TypeError(
            "edges must be pairs of node ids, e.g. [(3, 17), (5, 6)], or a tensor [2, k]"
        ) from None
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
