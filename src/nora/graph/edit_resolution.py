"""Edits resolved against a graph: ids looked up, contradictions refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.graph.edge_lookup import EdgeLookup, EdgeType, as_pairs, one_by_one
from nora.graph.edge_sets import Kind, edge_companions
from nora.graph.edit_batch import EditBatch, store_of
from nora.graph.node_index import Graph, NodeIndex, node_index_of

if TYPE_CHECKING:
    from nora.graph.edits import Edits


def resolve(edits: Edits, data: Graph, lookup: EdgeLookup) -> EditBatch:
    """The edits in the ids of the graph; raises when they contradict it or each other."""
    index, lookup = node_index_of(data), lookup.with_undirected(edits.undirected)
    removed = index.ids(edits.remove)
    added = _added_nodes(edits.add_nodes, data)
    more = {kind: len(next(iter(rows.values()))) for kind, rows in added.items()}
    removed_edges = lookup.named(edits.remove_edges)
    new = new_edges(edits, lookup, more)
    for edge_type, (pairs, _) in new.items():
        _check_new(lookup, edge_type, pairs, removed_edges, edits.undirected)
    added_edges = _in_all_directions(new, data, lookup)
    features = _features(edits.features, data, index)
    _check_ends({key: pairs for key, (pairs, _) in new.items()}, features, removed, index)
    edges = lookup.edge_ids(removed_edges)
    return EditBatch.of(removed, edges, added_edges, added, features)


def new_edges(
    edits: Edits, lookup: EdgeLookup, more: Mapping[Kind, int] | None = None
) -> dict[EdgeType, tuple[Tensor, list[Mapping[str, Any]]]]:
    """Edges to add by type: pairs `[2, k]`, undirected ones once, and the attributes of each.

    Args:
        edits: The edits.
        lookup: The graph's edges, with the edits' `undirected`.
        more: How many nodes are added, by type.
    """
    found = {}
    for edge_type, given in lookup.by_type(edits.add_edges, "add_edges").items():
        each = one_by_one(given, "edges to add")
        pairs = as_pairs([one[:2] for one in each])
        if pairs.numel():
            lookup.check_ids(edge_type, pairs, more)
            if lookup.paired(edge_type):
                pairs = torch.stack([pairs.amin(dim=0), pairs.amax(dim=0)])
            found[edge_type] = pairs, [one[2] if len(one) == 3 else {} for one in each]
    return found


def _in_all_directions(
    new: Mapping[EdgeType, tuple[Tensor, list[Mapping[str, Any]]]],
    data: Graph,
    lookup: EdgeLookup,
) -> dict[EdgeType, tuple[Tensor, dict[str, Tensor]]]:
    """Edges to add in all directions that they have, with their attributes."""
    parts: dict[EdgeType, list[tuple[Tensor, dict[str, Tensor]]]] = {}
    for edge_type, (pairs, given) in new.items():
        values = _edge_attributes(store_of(data, edge_type), pairs, given)
        parts.setdefault(edge_type, []).append((pairs, values))
        mirror = lookup.directions.mirrors.get(edge_type)
        if lookup.paired(edge_type):
            # A self-loop is its own reverse.
            other = pairs[0] != pairs[1]
            reverse = {key: rows[other] for key, rows in values.items()}
            parts[edge_type].append((pairs[:, other].flip(0), reverse))
        elif mirror is not None:
            there = _edge_attributes(data[mirror], pairs, given)
            parts.setdefault(mirror, []).append((pairs.flip(0), there))
    return {
        edge_type: (
            torch.cat([edges for edges, _ in each], dim=1),
            {key: torch.cat([values[key] for _, values in each]) for key in each[0][1]},
        )
        for edge_type, each in parts.items()
    }


def _check_new(
    lookup: EdgeLookup,
    edge_type: EdgeType,
    pairs: Tensor,
    removed: Mapping[EdgeType, Tensor],
    undirected: bool | None,
) -> None:
    """Raise when an edge is there already, or is added twice without being meant to."""
    own, dash = lookup.types[edge_type], "–" if lookup.paired(edge_type) else "→"
    known = (pairs[0] < own.sizes[0]) & (pairs[1] < own.sizes[1])
    there = torch.zeros_like(known)
    there[known] = own.holds(pairs[:, known])
    if edge_type in removed:
        there &= ~torch.isin(own.keys(pairs), own.keys(removed[edge_type]))
    if bool(there.any()):
        source, target = pairs[:, there][:, 0].tolist()
        raise ValueError(
            f"edge {source}{dash}{target} is in the graph already; name it in remove_edges too to give it "
            "other values"
        )
    if undirected is not False and pairs.unique(dim=1).size(1) < pairs.size(1):
        values, counts = pairs.unique(dim=1, return_counts=True)
        source, target = values[:, counts > 1][:, 0].tolist()
        raise ValueError(f"edge {source}{dash}{target} is added twice")


def _edge_attributes(
    store: Any, pairs: Tensor, given: list[Mapping[str, Any]]
) -> dict[str, Tensor]:
    """The attributes of new edges, for every attribute that the graph's edges have."""
    known = edge_companions(store)
    found = {}
    for values, (source, target) in zip(given, pairs.t().tolist(), strict=True):
        unknown = set(values) - set(known)
        if unknown:
            has = f"it has {', '.join(known)}" if known else "its edges have no attributes"
            raise ValueError(f"the graph has no {sorted(unknown)[0]!r} of edges; {has}")
        missing = [key for key in known if key not in values]
        if missing:
            raise ValueError(
                f"the graph has {missing[0]} of every edge, and the new edge {source}–{target} has none: "
                f"give ({source}, {target}, {{{missing[0]!r}: …}})"
            )
    for key, like in known.items():
        rows = [_row(values[key], like, f"{key} of a new edge") for values in given]
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
            raise ValueError(f"features must name one node at a time, got {node!r}")
        kind, local = index.located(at)[0] if index.types else (None, int(at[0]))
        x = store_of(data, kind).get("x")
        if not isinstance(x, Tensor):
            raise ValueError(f"node {node!r} has no features: the graph has no x there")
        found.setdefault(kind, {})[local] = _row(row, x, f"the new features of node {node!r}")
    return {
        kind: (torch.tensor(list(rows)), torch.stack(list(rows.values())))
        for kind, rows in found.items()
    }


def _added_nodes(given: Any, data: Graph) -> dict[Kind, dict[str, Tensor]]:
    """Rows of new nodes for every node-level tensor of the graph, by type."""
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
    return {kind: _node_rows(node_tensors(data, kind), rows) for kind, rows in by_type.items()}


def node_tensors(data: Graph, kind: Kind) -> dict[str, Tensor]:
    """The node-level tensors of a node type, by key."""
    store = store_of(data, kind)
    plain, aside = store._store if kind is None else store, edge_companions(store)
    return {
        key: value
        for key, value in plain.items()
        if isinstance(value, Tensor)
        and value.dim()
        and plain.is_node_attr(key)
        and key not in aside
    }


def _node_rows(known: Mapping[str, Tensor], given: Any) -> dict[str, Tensor]:
    rows_of = dict(given) if isinstance(given, Mapping) else {"x": given}
    unknown = set(rows_of) - set(known)
    if unknown:
        raise ValueError(
            f"the graph has no {sorted(unknown)[0]!r} of nodes; it has {', '.join(known) or 'nothing'}"
        )
    count = None
    found = {}
    for key, rows in rows_of.items():
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
    added: Mapping[EdgeType, Tensor],
    features: Mapping[Kind, tuple[Tensor, Tensor]],
    removed: Tensor,
    index: NodeIndex,
) -> None:
    """Raise when an edit adds an edge to a removed node, or changes its features."""
    isolated = {(kind, one) for kind, ids in index.by_type(removed).items() for one in ids.tolist()}
    for edge_type, pairs in added.items():
        kinds = (None, None) if edge_type is None else (edge_type[0], edge_type[2])
        for pair in pairs.t().tolist():
            for kind, node in zip(kinds, pair, strict=True):
                if (kind, node) in isolated:
                    raise ValueError(
                        f"edge {pair[0]}–{pair[1]} is added, but its node {node} is removed"
                    )
    for kind, (ids, _) in features.items():
        for node in ids.tolist():
            if (kind, node) in isolated:
                raise ValueError(f"node {node} gets new features, but is removed")
