"""Edits one after the other, and inverse edits: `first + second` and `edits.undo(data)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.graph.edge_lookup import EdgeLookup, one_by_one
from nora.graph.edge_sets import edge_companions, node_counts
from nora.graph.edit_batch import EditBatch, store_of
from nora.graph.edit_resolution import node_tensors
from nora.graph.edits import Edits, is_given
from nora.graph.node_index import Graph, node_index_of


def combined(first: Edits, second: Edits) -> Edits:
    """Both together; an edge that one adds and the other removes is left out."""
    if first.undirected is not second.undirected and None not in (
        first.undirected,
        second.undirected,
    ):
        raise ValueError(
            "cannot join edits with undirected=True and undirected=False: give both the same"
        )
    undirected = first.undirected if first.undirected is not None else second.undirected
    nodes = _typed_ids(second.remove)
    added, removed = _listed(first.add_edges), _listed(first.remove_edges)
    # What the first does to a node that the second removes has no effect.
    added = [edge for edge in added if not nodes & _ends(edge)]
    rows = {
        node: row for node, row in (first.features or {}).items() if not nodes & _typed_ids(node)
    }
    for edge_type, ends, _ in _listed(second.remove_edges):
        at = _position(added, edge_type, ends, undirected)
        if at is None and undirected is None:
            _check_direction(added, ends)
        if at is not None:
            del added[at]
        elif _position(removed, edge_type, ends, undirected) is None:
            removed.append((edge_type, ends, None))
        else:
            raise ValueError(f"edge {ends[0]}–{ends[1]} is removed by both edits")
    for edge_type, ends, values in _listed(second.add_edges):
        if _position(added, edge_type, ends, undirected) is not None:
            raise ValueError(f"edge {ends[0]}–{ends[1]} is added by both edits")
        added.append((edge_type, ends, values))
    return Edits(
        remove=_both(first.remove, second.remove),
        remove_edges=_by_type(removed),
        add_edges=_by_type(added),
        add_nodes=_stacked(first.add_nodes, second.add_nodes),
        features={**rows, **(second.features or {})} or None,
        undirected=undirected,
    )


_Edge = tuple[Any, tuple[int, int], Any]


def _listed(edges: Any) -> list[_Edge]:
    """Each edge with its type (None without types) and its attributes."""
    if isinstance(edges, Mapping):
        return [(key, ends, more) for key, part in edges.items() for _, ends, more in _listed(part)]
    return [(None, (int(one[0]), int(one[1])), (*one, None)[2]) for one in one_by_one(edges)]


def _position(
    edges: list[_Edge], edge_type: Any, ends: tuple[int, int], undirected: bool | None
) -> int | None:
    """The position of an edge; in either direction where the edits are undirected."""
    same = edge_type is None or edge_type[0] == edge_type[2]
    for at, (kind, other, _) in enumerate(edges):
        if kind == edge_type and (other == ends or (undirected and same and other == ends[::-1])):
            return at
    return None


def _check_direction(added: list[_Edge], ends: tuple[int, int]) -> None:
    """Raise if only the graph could decide whether a removed edge is one of the added ones."""
    reverse = ends[::-1]
    if ends != reverse and any(kind is None and other == reverse for kind, other, _ in added):
        raise ValueError(
            f"one edit adds the edge {ends[1]}–{ends[0]} and the other removes {ends[0]}–{ends[1]}: whether "
            "that is the same edge depends on the graph. Name it in the same direction, or give one of the "
            "edits undirected=True or undirected=False"
        )


def _typed_ids(nodes: Any) -> set[tuple[Any, int]]:
    """Nodes by type and id, as far as they are named by ids."""
    found = set()
    for one in _nodes(nodes):
        kind, ids = one if isinstance(one, tuple) and len(one) == 2 else (None, one)
        found |= {(kind, int(node)) for node in _nodes(ids) if not isinstance(node, str | tuple)}
    return found


def _ends(edge: _Edge) -> set[tuple[Any, int]]:
    """The nodes of an edge; none where only the relation is named, so that their types are unknown."""
    edge_type, ends, _ = edge
    if edge_type is None:
        return {(None, node) for node in ends}
    if not isinstance(edge_type, tuple):
        return set()
    return {(edge_type[0], ends[0]), (edge_type[2], ends[1])}


def _by_type(edges: list[_Edge]) -> Any:
    found: dict[Any, list[Any]] = {}
    for kind, ends, attributes in edges:
        found.setdefault(kind, []).append((*ends, attributes) if attributes else ends)
    return found.get(None, []) if None in found or not found else found


def _both(first: Any, second: Any) -> Any:
    """Nodes of both, by type where they are given so."""
    if not is_given(first) or not is_given(second):
        return first if is_given(first) else second
    return _merged(first, second, "nodes", lambda one, other: _nodes(one) + _nodes(other))


def _merged(
    first: Any, second: Any, what: str, merge: Callable[[Any, Any], Any], none: Any = ()
) -> Any:
    """Two values merged, type by type where both are given by type."""
    typed = isinstance(first, Mapping), isinstance(second, Mapping)
    if not any(typed):
        return merge(first, second)
    if not all(typed):
        raise TypeError(f"give the {what} of both edits by type: one of the edits has no types")
    kinds = dict.fromkeys([*first, *second])
    return {kind: merge(first.get(kind, none), second.get(kind, none)) for kind in kinds}


def _nodes(nodes: Any) -> list[Any]:
    if isinstance(nodes, Mapping):
        return list(nodes.items())
    if isinstance(nodes, Tensor | np.ndarray):
        mask = torch.as_tensor(nodes)
        ids = mask.nonzero().flatten() if mask.dtype == torch.bool else mask
        return ids.reshape(-1).tolist()
    single = isinstance(nodes, int | str | np.integer) or (
        isinstance(nodes, tuple) and len(nodes) == 2 and isinstance(nodes[0], str)
    )
    return [nodes] if single else list(nodes)


def _stacked(first: Any, second: Any) -> Any:
    """New nodes of both, one after the other."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, Mapping) or isinstance(second, Mapping):
        return _merged(first, second, "new nodes", _stacked, None)
    rows = [torch.as_tensor(part) for part in (first, second)]
    if all(part.dim() == 1 for part in rows) and len(rows[0]) != len(rows[1]):
        return torch.cat(rows)  # one number per node, not rows of features
    return torch.cat([part.unsqueeze(0) if part.dim() == 1 else part for part in rows])


def inverse(done: EditBatch, data: Graph) -> Edits:
    """The edits that undo the one edit of `done`, with the ids of the edited graph."""
    index, lookup = node_index_of(data), EdgeLookup(data)
    counts, more = node_counts(data), done.added_counts
    removed = index.by_type(done.node.cpu())
    ids = {kind: _ids_after(counts[kind], more.get(kind, 0), removed[kind]) for kind in counts}
    back = {kind: _ids_once_back(ids[kind], removed[kind]) for kind in counts}

    remove_edges, add_edges = {}, {}
    for edge_type, columns in lookup.columns(done.edge.cpu()).items():
        ends = (None, None) if edge_type is None else (edge_type[0], edge_type[2])
        added = done.added_edges.get(edge_type)
        if added is not None:
            remove_edges[edge_type] = torch.stack(
                [ids[ends[0]][added.source], ids[ends[1]][added.target]]
            )
        edges = lookup.types[edge_type].edges.cpu()
        missing = torch.isin(edges[0], removed[ends[0]]) | torch.isin(edges[1], removed[ends[1]])
        missing[columns] = True
        column = missing.nonzero().flatten()
        if len(column):
            source, target = edges[:, column]
            pairs = torch.stack([back[ends[0]][source], back[ends[1]][target]])
            attributes = edge_companions(store_of(data, edge_type))
            add_edges[edge_type] = _with_attributes(pairs, attributes, column)
    rows = {
        kind: {key: rows[nodes].cpu() for key, rows in node_tensors(data, kind).items()}
        for kind, nodes in removed.items()
        if len(nodes)
    }
    features = {
        node if kind is None else (kind, node): store_of(data, kind).x[old]
        for kind, changed in done.features.items()
        for old, node in zip(changed.node.tolist(), ids[kind][changed.node].tolist(), strict=True)
    }
    new = {kind: ids[kind][counts[kind] :].tolist() for kind in more}
    plain = not index.types
    return Edits(
        remove=new.get(None, ()) if plain else new or (),
        remove_edges=remove_edges.get(None, ()) if plain else remove_edges or (),
        add_edges=add_edges.get(None, ()) if plain else add_edges or (),
        add_nodes=(rows.get(None) if plain else rows) or None,
        features=features or None,
        undirected=False,
    )


def _ids_after(count: int, more: int, removed: Tensor) -> Tensor:
    """The id of every node after the edit `[count + more]`, −1 for removed ones."""
    keep = torch.ones(count + more, dtype=torch.bool)
    keep[removed] = False
    return torch.where(keep, keep.long().cumsum(0) - 1, -1)


def _ids_once_back(ids: Tensor, removed: Tensor) -> Tensor:
    """The id of every node in the inverse edit, which adds the removed nodes after the last one."""
    found = ids.clone()
    found[removed] = torch.arange(len(removed)) + len(ids) - len(removed)
    return found


def _with_attributes(pairs: Tensor, attributes: dict[str, Tensor], column: Tensor) -> list[Any]:
    ends = pairs.t().tolist()
    if not attributes:
        return [tuple(pair) for pair in ends]
    return [
        (*pair, {key: value[at].cpu() for key, value in attributes.items()})
        for pair, at in zip(ends, column.tolist(), strict=True)
    ]
