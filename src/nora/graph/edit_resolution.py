"""What edits mean for one graph: ids looked up, contradictions refused, and the graph they lead to."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.graph.edge_lookup import EdgeLookup, EdgeType, as_pairs
from nora.graph.edge_sets import Kind, edge_companions, exchange_edges, node_counts
from nora.graph.node_index import Graph, NodeIndex, node_index_of
from nora.graph.removal import isolate_nodes, remove_nodes

if TYPE_CHECKING:
    from nora.graph.edits import Edits


@dataclass(frozen=True, eq=False)
class Gained:
    """Edges of one type that come, in all directions they have.

    Attributes:
        edges: `[2, m]`, ids within the types of their ends.
        attributes: What is said of them, by key, `[m, …]`.
    """

    edges: Tensor
    attributes: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Resolved:
    """Edits of one graph, in its own ids.

    Attributes:
        removed: Nodes that go, sorted global ids.
        lost: Edges that go, as people name them, by type `[2, k]`.
        numbers: The numbers of all columns that go (see `EdgeLookup`), sorted.
        come: Edges that come, as people name them, by type `[2, k]`.
        gained: The same in all directions, with what is said of them.
        features: Rows of `x` that change: ids within the type `[k]` and rows `[k, F]`, by type.
        added: Node-level rows of nodes that come, by type and key.
    """

    removed: Tensor
    lost: dict[EdgeType, Tensor]
    numbers: Tensor
    come: dict[EdgeType, Tensor]
    gained: dict[EdgeType, Gained]
    features: dict[Kind, tuple[Tensor, Tensor]] = field(default_factory=dict)
    added: dict[Kind, dict[str, Tensor]] = field(default_factory=dict)

    @property
    def only_removes(self) -> bool:
        """Whether nothing comes and no feature changes."""
        return not (self.come or self.features or self.added)

    def __bool__(self) -> bool:
        return bool(len(self.removed) or self.lost or not self.only_removes)

    def added_counts(self) -> dict[Kind, int]:
        """How many nodes come, by type."""
        return {kind: len(next(iter(rows.values()))) for kind, rows in self.added.items()}

    def apply(self, data: Graph, isolate: bool = False) -> Graph:
        """The graph after the edits.

        Args:
            data: The graph they were resolved for; left as it is.
            isolate: Keep the removed nodes, without edges, so that all ids stay.
        """
        new = copy.copy(data)
        counts, more = node_counts(data), self.added_counts()
        for kind, rows in self.added.items():
            store = _store(new, kind)
            for key, value in rows.items():
                store[key] = torch.cat([store[key], value.to(store[key].device)])
        for kind, count in counts.items():
            if more.get(kind) or isinstance(data, HeteroData) or len(self.numbers) or self.gained:
                _store(new, kind).num_nodes = count + more.get(kind, 0)
        for kind, (ids, changed) in self.features.items():
            store = _store(new, kind)
            store.x = store.x.clone()
            store.x[ids.to(store.x.device)] = changed.to(store.x.device)
        for edge_type, columns in self._columns(data).items():
            gained = self.gained.get(edge_type)
            if len(columns) or gained is not None:
                edges = None if gained is None else gained.edges
                said = {} if gained is None else gained.attributes
                exchange_edges(data, new, edge_type, columns, edges, said)
        gone = self._removed_from(data, new)
        if not len(gone):
            return new
        return (isolate_nodes if isolate else remove_nodes)(new, gone)

    def _columns(self, data: Graph) -> dict[EdgeType, Tensor]:
        if not len(self.numbers) and not self.gained:
            return {}
        return EdgeLookup(data).columns(self.numbers)

    def _removed_from(self, data: Graph, new: Graph) -> Tensor:
        """The removed nodes' ids where nodes have come."""
        index = node_index_of(data)
        if not self.added or not index.types or not len(self.removed):
            return self.removed
        moved = node_index_of(new)
        return torch.tensor(
            sorted(moved.starts[kind] + at for kind, at in index.located(self.removed))
        )


def _store(data: Graph, kind: Kind) -> Any:
    return data if kind is None else data[kind]


def resolve(edits: Edits, data: Graph, lookup: EdgeLookup) -> Resolved:
    """The edits in the ids of the graph; raises when they contradict it or each other."""
    index = node_index_of(data)
    removed = index.ids(edits.remove)
    said = edits.undirected
    added = _added(edits.add_nodes, data)
    more = {kind: len(next(iter(rows.values()))) for kind, rows in added.items()}
    lost = lookup.named(edits.remove_edges, said)
    numbers = lookup.numbers(lost, said)
    come, gained = _gained(edits, data, lookup, lost, more)
    features = _features(edits.features, data, index)
    _check_ends(come, features, removed, index)
    return Resolved(removed, lost, numbers, come, gained, features, added)


def _gained(
    edits: Edits,
    data: Graph,
    lookup: EdgeLookup,
    lost: Mapping[EdgeType, Tensor],
    more: Mapping[Kind, int],
) -> tuple[dict[EdgeType, Tensor], dict[EdgeType, Gained]]:
    """Edges that come: as they are named, and in all directions with what is said of them."""
    said = edits.undirected
    come: dict[EdgeType, Tensor] = {}
    parts: dict[EdgeType, list[tuple[Tensor, dict[str, Tensor]]]] = {}
    for edge_type, given in lookup.by_type(edits.add_edges, "add_edges").items():
        pairs, told = _pairs_and_values(given)
        if not pairs.numel():
            continue
        lookup.check_ids(edge_type, pairs, more)
        paired = lookup.paired(edge_type, said)
        if paired:
            pairs = torch.stack([pairs.amin(dim=0), pairs.amax(dim=0)])
        _check_new(lookup, edge_type, pairs, lost, said is False, "–" if paired else "→")
        come[edge_type] = pairs
        store = data if edge_type is None else data[edge_type]
        values = _edge_values(store, pairs, told)
        parts.setdefault(edge_type, []).append((pairs, values))
        mirror = lookup.mirror(edge_type, said)
        if paired:
            # A self-loop is its own reverse.
            other = pairs[0] != pairs[1]
            reverse = {key: rows[other] for key, rows in values.items()}
            parts[edge_type].append((pairs[:, other].flip(0), reverse))
        elif mirror is not None:
            there = _edge_values(data[mirror], pairs, told)
            parts.setdefault(mirror, []).append((pairs.flip(0), there))
    gained = {
        edge_type: Gained(
            torch.cat([edges for edges, _ in each], dim=1),
            {key: torch.cat([values[key] for _, values in each]) for key in each[0][1]},
        )
        for edge_type, each in parts.items()
    }
    return come, gained


def _pairs_and_values(given: Any) -> tuple[Tensor, list[Mapping[str, Any]]]:
    """Pairs `[2, k]`, and what is said of each edge."""
    if isinstance(given, Tensor):
        pairs = as_pairs(given)
        return pairs, [{}] * pairs.size(1)
    ends, told = [], []
    for one in given:
        one = tuple(one) if isinstance(one, Iterable) else (one,)
        values = one[2] if len(one) == 3 else {}
        if len(one) not in (2, 3) or not isinstance(values, Mapping):
            raise TypeError(
                "edges to add must be pairs of node ids, e.g. [(3, 17)], or with what is said of them "
                f"[(3, 17, {{'edge_weight': 0.5}})]; got {one!r}"
            )
        ends.append(one[:2])
        told.append(values)
    return as_pairs(ends), told


def _check_new(
    lookup: EdgeLookup,
    edge_type: EdgeType,
    pairs: Tensor,
    lost: Mapping[EdgeType, Tensor],
    copies: bool,
    dash: str,
) -> None:
    """Raise when an edge is there already, or comes twice without being meant to."""
    own = lookup.types[edge_type]
    known = (pairs[0] < own.sizes[0]) & (pairs[1] < own.sizes[1])
    there = torch.zeros_like(known)
    there[known] = own.holds(pairs[:, known])
    if edge_type in lost:
        there &= ~torch.isin(own.keys(pairs), own.keys(lost[edge_type]))
    if bool(there.any()):
        source, target = pairs[:, there][:, 0].tolist()
        raise ValueError(
            f"edge {source}{dash}{target} is in the graph already; name it in remove_edges too to give it "
            "other values"
        )
    if not copies and pairs.unique(dim=1).size(1) < pairs.size(1):
        values, counts = pairs.unique(dim=1, return_counts=True)
        source, target = values[:, counts > 1][:, 0].tolist()
        raise ValueError(f"edge {source}{dash}{target} is added twice")


def _edge_values(store: Any, pairs: Tensor, told: list[Mapping[str, Any]]) -> dict[str, Tensor]:
    """What is said of new edges, for everything that the graph says of its own."""
    known = edge_companions(store)
    found = {}
    for values, (source, target) in zip(told, pairs.t().tolist(), strict=True):
        strange = set(values) - set(known)
        if strange:
            has = f"it has {', '.join(known)}" if known else "it says nothing of its edges"
            raise ValueError(f"the graph has no {sorted(strange)[0]!r} of edges; {has}")
        missing = [key for key in known if key not in values]
        if missing:
            raise ValueError(
                f"the graph has {missing[0]} of every edge, and the new edge {source}–{target} has none: "
                f"give ({source}, {target}, {{{missing[0]!r}: …}})"
            )
    for key, like in known.items():
        rows = [_row(values[key], like, f"{key} of a new edge") for values in told]
        found[key] = torch.stack(rows) if rows else like[:0].cpu()
    return found


def _row(value: Any, like: Tensor, what: str) -> Tensor:
    """One row in the shape and precision of those that are there."""
    row = torch.as_tensor(value, device="cpu")
    if row.is_floating_point() and not like.is_floating_point():
        raise TypeError(f"{what} must be of {like.dtype}, got {row.dtype}")
    row = row.to(like.dtype)
    if row.shape != like.shape[1:]:
        wanted, got = list(like.shape[1:]), list(row.shape)
        raise ValueError(f"{what} must have the shape {wanted}, got {got}")
    if row.is_floating_point() and not bool(row.isfinite().all()):
        raise ValueError(f"{what} has values that are not finite")
    return row


def _features(given: Any, data: Graph, index: NodeIndex) -> dict[Kind, tuple[Tensor, Tensor]]:
    """Changed rows of `x`, by node type."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"features must be a mapping from nodes to rows, e.g. {{17: row}}, got {type(given).__name__}"
        )
    found: dict[Kind, dict[int, Tensor]] = {}
    for node, row in given.items():
        at = index.ids(node)
        if len(at) != 1:
            raise ValueError(f"features names one node at a time, got {node!r}")
        kind, local = index.located(at)[0] if index.types else (None, int(at[0]))
        x = _store(data, kind).get("x")
        if not isinstance(x, Tensor):
            raise ValueError(f"node {node!r} has no features: the graph has no x there")
        found.setdefault(kind, {})[local] = _row(row, x, f"the new features of node {node!r}")
    return {
        kind: (torch.tensor(list(rows)), torch.stack(list(rows.values())))
        for kind, rows in found.items()
    }


def _added(given: Any, data: Graph) -> dict[Kind, dict[str, Tensor]]:
    """Rows of new nodes for everything the graph says of its nodes, by type."""
    if given is None or (hasattr(given, "__len__") and len(given) == 0):
        return {}
    if not isinstance(data, HeteroData):
        by_type: dict[Kind, Any] = {None: given}
    elif isinstance(given, Mapping):
        node_index_of(data).ids({kind: [] for kind in given})  # names an unknown type
        by_type = dict(given)
    else:
        raise ValueError(
            f"the graph has node types: give add_nodes={{{data.node_types[0]!r}: rows}}"
        )
    return {kind: _node_rows(_store(data, kind), rows, kind) for kind, rows in by_type.items()}


def _node_rows(store: Any, given: Any, kind: Kind) -> dict[str, Tensor]:
    said = dict(given) if isinstance(given, Mapping) else {"x": given}
    plain = store._store if kind is None else store
    known = {
        key: value
        for key, value in plain.items()
        if isinstance(value, Tensor) and value.dim() and plain.is_node_attr(key)
        and key not in edge_companions(store)
    }  # fmt: skip
    strange = set(said) - set(known)
    if strange:
        raise ValueError(
            f"the graph has no {sorted(strange)[0]!r} of nodes; it has {', '.join(known) or 'nothing'}"
        )
    count = None
    found = {}
    for key, rows in said.items():
        rows = torch.as_tensor(rows).cpu()
        like = known[key]
        rows = rows.unsqueeze(0) if rows.dim() == like.dim() - 1 else rows
        if rows.shape[1:] != like.shape[1:]:
            raise ValueError(
                f"new nodes need rows of {key} of the shape {list(like.shape[1:])}, got "
                f"{list(rows.shape[1:])}"
            )
        if rows.is_floating_point() and not bool(rows.isfinite().all()):
            raise ValueError(f"{key} of new nodes has values that are not finite")
        if count is not None and len(rows) != count:
            raise ValueError(f"{len(rows)} rows of {key} for {count} new nodes")
        count, found[key] = len(rows), rows.to(like.dtype)
    if not count:
        raise ValueError("add_nodes names no node: give their rows of x, [k, F]")
    for key, like in known.items():
        if key in found:
            continue
        if like.dtype == torch.bool:
            fill: Any = False
        elif key == "y":  # what they are is not known
            fill = float("nan") if like.is_floating_point() else -1
        else:
            raise ValueError(f"new nodes need {key}: give add_nodes={{{key!r}: rows, …}}")
        found[key] = torch.full((count, *like.shape[1:]), fill, dtype=like.dtype)
    return found


def _check_ends(
    come: Mapping[EdgeType, Tensor],
    features: Mapping[Kind, tuple[Tensor, Tensor]],
    removed: Tensor,
    index: NodeIndex,
) -> None:
    """Raise when something is to happen to a node that goes."""
    gone = set(index.located(removed)) if index.types else {(None, one) for one in removed.tolist()}
    for edge_type, pairs in come.items():
        kinds = (None, None) if edge_type is None else (edge_type[0], edge_type[2])
        for pair in pairs.t().tolist():
            for kind, node in zip(kinds, pair, strict=True):
                if (kind, node) in gone:
                    raise ValueError(
                        f"edge {pair[0]}–{pair[1]} is added, but its node {node} is removed"
                    )
    for kind, (ids, _) in features.items():
        for node in ids.tolist():
            if (kind, node) in gone:
                raise ValueError(f"node {node} gets new features, but is removed")
