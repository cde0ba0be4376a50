"""The edits that lead back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.graph.edge_lookup import EdgeLookup, EdgeType
from nora.graph.edge_sets import Kind, edge_companions, node_counts
from nora.graph.edit_resolution import Resolved
from nora.graph.edits import Edits
from nora.graph.node_index import Graph, node_index_of


def inverse(done: Resolved, data: Graph) -> Edits:
    """From the graph after `done` back to `data`, in the ids of the graph after `done`."""
    index, lookup = node_index_of(data), EdgeLookup(data)
    counts, more = node_counts(data), done.added_counts()
    gone: dict[Kind, list[int]] = {kind: [] for kind in counts}
    for kind, node in _located(done.removed, index):
        gone[kind].append(node)
    ids = {kind: _new_ids(counts[kind], more.get(kind, 0), gone[kind]) for kind in counts}
    left = {kind: counts[kind] - len(gone[kind]) for kind in counts}

    lost_edges, come_back = {}, {}
    for edge_type, own in lookup.types.items():
        ends = (None, None) if edge_type is None else (edge_type[0], edge_type[2])
        place = [_back(ids[kind], gone[kind], left[kind]) for kind in ends]
        kept = [ids[kind] for kind in ends]
        came = done.gained.get(edge_type)
        if came is not None:
            pairs = torch.stack([one[at] for one, at in zip(kept, came.edges, strict=True)])
            lost_edges[edge_type] = pairs
        edges = own.edges.cpu()
        column = _gone_columns(done, lookup, edge_type, gone)
        if len(column):
            pairs = torch.stack([one[at] for one, at in zip(place, edges[:, column], strict=True)])
            store = data if edge_type is None else data[edge_type]
            come_back[edge_type] = _with_values(pairs, edge_companions(store), column)
    rows = {kind: _rows(data, kind, nodes) for kind, nodes in gone.items() if nodes}
    features = {
        _named(kind, int(ids[kind][node])): _store(data, kind).x[node]
        for kind, (nodes, _) in done.features.items()
        for node in nodes.tolist()
    }
    new = {kind: ids[kind][counts[kind] :].tolist() for kind in more}
    plain = not index.types
    return Edits(
        remove=new.get(None, ()) if plain else {str(k): v for k, v in new.items()} or (),
        remove_edges=_plain(lost_edges, plain),
        add_edges=_plain(come_back, plain),
        add_nodes=(rows.get(None) if plain else rows) or None,
        features=features or None,
        undirected=False,
    )


def _located(ids: Tensor, index: Any) -> list[tuple[Kind, int]]:
    return index.located(ids) if index.types else [(None, one) for one in ids.tolist()]


def _store(data: Graph, kind: Kind) -> Any:
    return data if kind is None else data[kind]


def _named(kind: Kind, node: int) -> Any:
    return node if kind is None else (kind, node)


def _plain(edges: dict[EdgeType, Any], plain: bool) -> Any:
    return (edges.get(None, ()) if plain else edges) if edges else ()


def _new_ids(count: int, more: int, gone: list[int]) -> Tensor:
    """The id of every node after the edits `[count + more]`, −1 for those that went."""
    keep = torch.ones(count + more, dtype=torch.bool)
    keep[gone] = False
    return torch.where(keep, keep.long().cumsum(0) - 1, -1)


def _back(ids: Tensor, gone: list[int], left: int) -> Tensor:
    """The id of every old node once those that went have come back at the end."""
    found = ids.clone()
    more = int((ids >= 0).sum()) - left
    found[gone] = torch.arange(len(gone)) + left + more
    return found


def _gone_columns(
    done: Resolved, lookup: EdgeLookup, edge_type: EdgeType, gone: dict[Kind, list[int]]
) -> Tensor:
    """The columns that went, by themselves or with a node, in order."""
    edges = lookup.types[edge_type].edges.cpu()
    lost = torch.zeros(edges.size(1), dtype=torch.bool)
    lost[lookup.columns(done.numbers)[edge_type]] = True
    ends = (None, None) if edge_type is None else (edge_type[0], edge_type[2])
    for kind, row in zip(ends, edges, strict=True):
        lost |= torch.isin(row, torch.tensor(gone[kind], dtype=torch.long))
    return lost.nonzero().flatten()


def _with_values(pairs: Tensor, said: dict[str, Tensor], column: Tensor) -> list[Any]:
    ends = pairs.t().tolist()
    if not said:
        return [tuple(pair) for pair in ends]
    return [
        (*pair, {key: value[at].cpu() for key, value in said.items()})
        for pair, at in zip(ends, column.tolist(), strict=True)
    ]


def _rows(data: Graph, kind: Kind, nodes: list[int]) -> dict[str, Tensor]:
    store = _store(data, kind)
    plain = store._store if kind is None else store
    aside = edge_companions(store)
    return {
        key: value[nodes].cpu()
        for key, value in plain.items()
        if isinstance(value, Tensor)
        and value.dim()
        and plain.is_node_attr(key)
        and key not in aside
    }
