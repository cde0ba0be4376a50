"""The edits that lead back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nora.graph.edge_lookup import EdgeLookup
from nora.graph.edge_sets import edge_companions, node_counts
from nora.graph.edit_batch import EditBatch, store_of
from nora.graph.edit_resolution import node_tensors
from nora.graph.edits import Edits
from nora.graph.node_index import Graph, node_index_of


def inverse(done: EditBatch, data: Graph) -> Edits:
    """From the graph after the one edit of `done` back to `data`, in the ids of the graph after it."""
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
        lost = torch.isin(edges[0], removed[ends[0]]) | torch.isin(edges[1], removed[ends[1]])
        lost[columns] = True
        column = lost.nonzero().flatten()
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
    """The id of every node in the edit back, which adds the removed nodes after the last one."""
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
