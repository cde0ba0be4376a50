"""Every edge set that a graph's data holds, and how all of them follow when nodes change.

Besides `edge_index` a graph may hold further edge sets: `edge_index2`, `edge_index_follow`,
`edge_label_index`, each with companions (`edge_attr2`, `edge_weight_follow`, `edge_label`), and
adjacency matrices (`adj_t`). Removing nodes, removing their edges, renumbering them and copying pieces
are all the same: some rows of the node tensors, and new ids for the ends of edges.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import N_KEYS
from torch_geometric.utils import select

# The only type of a `Data`, whose storages have no name.
Kind = str | None


@dataclass(frozen=True)
class Rewriting:
    """The change of the nodes of each type.

    Attributes:
        rows: The nodes afterwards `[n']`, old ids in their new order.
        ids: The new id of every old node `[n]` as an end of edges, -1 where its edges are removed. With
            several such maps every edge is copied by each of them.
    """

    rows: dict[Kind, Tensor]
    ids: Sequence[dict[Kind, Tensor]]


def node_counts(data: Data | HeteroData) -> dict[Kind, int]:
    """The number of nodes of each type."""
    if isinstance(data, HeteroData):
        return {kind: int(data[kind].num_nodes or 0) for kind in data.node_types}
    return {None: int(data.num_nodes or 0)}


def by_kind(data: Data | HeteroData, values: Tensor) -> dict[Kind, Tensor]:
    """Values of all nodes `[N, …]`, apart by type."""
    counts = node_counts(data)
    return dict(zip(counts, values.split(list(counts.values())), strict=True))


def rewrite(data: Data | HeteroData, change: Rewriting) -> Data | HeteroData:
    """The graph after `change`: node and edge tensors carried along, `data` left as it is."""
    new = copy.copy(data)
    for old, store in zip(data.stores, new.stores, strict=True):
        ends = _ends(data, old)
        done = set() if ends is None else _rewrite_edge_sets(data, old, store, ends, change)
        if old._key not in change.rows:
            continue
        for key, value in old.items():
            if key not in done and key != "num_nodes" and old.is_node_attr(key):
                dim = _dim(data, key, value, old)
                store[key] = _taken(value, change.rows[old._key], dim)
    for kind, rows in change.rows.items():
        # PyG counts the nodes of a graph without features by its edges.
        if isinstance(new, HeteroData):
            new[kind].num_nodes = len(rows)
        elif "num_nodes" in data or not _has_size(data):
            new.num_nodes = len(rows)
    return new


def edge_companions(store: Any) -> dict[str, Tensor]:
    """The edge attributes of `edge_index`: `edge_attr`, `edge_weight`, …, `[E, …]`.

    The entries of an adjacency matrix that stands alone are weights, unless they are all 1.
    """
    plain = store._store if isinstance(store, Data) else store
    key = "edge_index" if plain.get("edge_index") is not None else "adj_t"
    found: dict[str, Tensor] = {}
    if key not in plain:  # nodes of a type
        return found
    for other in _companions(plain, key, {"adj_t", "edge_index"}):
        if not isinstance(plain[other], Tensor):
            raise ValueError(
                f"{other} is a {type(plain[other]).__name__}, which edits do not support; use a tensor"
            )
        found[other] = plain[other]
    if key == "adj_t":
        weight = matrix_entries(plain[key])[1]
        if weight is not None and not bool((weight == 1).all()):
            found["edge_weight"] = weight
    return found


def exchange_edges(
    data: Data | HeteroData,
    new: Data | HeteroData,
    edge_type: Any,
    removed: Tensor,
    added: Tensor | None,
    attributes: Mapping[str, Tensor],
) -> None:
    """Remove columns of `edge_index` and `adj_t` of `new`, and append others.

    Args:
        data: The graph as it was.
        new: Its copy, which is changed.
        edge_type: Whose edges; None without types.
        removed: Columns of `edge_index`, or else of the entries of `adj_t`.
        added: Edges `[2, m]`.
        attributes: Their edge attributes, by key.
    """
    old, store = (one._store if edge_type is None else one[edge_type] for one in (data, new))
    edges = graph_edges(old)
    assert edges is not None
    keep = torch.ones(edges.size(1), dtype=torch.bool)
    keep[removed] = False
    more = torch.empty(2, 0, dtype=torch.long) if added is None else added
    ends = (None, None) if edge_type is None else (edge_type[0], edge_type[2])
    counts = node_counts(new)
    sizes = (counts[ends[0]], counts[ends[1]])
    companions = edge_companions(old)
    for key, value in companions.items():
        if key in old:
            rows = attributes.get(key, value[:0].cpu()).to(value.device)
            store[key] = torch.cat([value[keep.to(value.device)], rows])
    if old.get("edge_index") is not None:
        plain = edges.as_tensor() if isinstance(edges, EdgeIndex) else edges
        left = torch.cat([plain[:, keep.to(plain.device)], more.to(plain.device)], dim=1)
        store["edge_index"] = _like(edges, left, sizes)
    adj = old.get("adj_t")
    if adj is not None:
        store["adj_t"] = _exchanged(adj, edges[:, ~keep.to(edges.device)], more, attributes, sizes)


def _exchanged(
    adj: Any,
    removed: Tensor,
    added: Tensor,
    attributes: Mapping[str, Tensor],
    sizes: tuple[int, int],
) -> Any:
    """A matrix of targets by sources without some edges, and with others."""
    entries, values = matrix_entries(adj)
    width = max(*sizes, 1)
    keys, out = (one[0] * width + one[1] for one in (entries.flip(0), removed.to(entries.device)))
    at = (~torch.isin(keys, out)).nonzero().flatten()
    edges = torch.cat([entries[:, at].flip(0), added.to(entries.device)], dim=1)
    if values is not None:
        weight = attributes.get("edge_weight", torch.ones(added.size(1))).to(values)
        values = torch.cat([values[at], weight])
    return _matrix_of_edges(adj, edges, values, sizes)[0]


def edge_set_keys(store: Any) -> list[str]:
    """Keys of a storage that hold edges: `edge_index` and its kin, and adjacency matrices."""
    return [
        key for key, value in store.items() if _is_edge_index(key, value) or _is_adj(key, value)
    ]


def with_plain_edges(data: Data | HeteroData) -> Data | HeteroData:
    """The graph with its `EdgeIndex` tensors as plain ones, whose operations can be watched."""
    new = data
    for place, store in enumerate(data.stores):
        for key, value in store.items():
            if isinstance(value, EdgeIndex):
                new = copy.copy(data) if new is data else new
                new.stores[place][key] = value.as_tensor()
    return new


def graph_edges(store: Any) -> Tensor | None:
    """The edges `[2, E]` of a `Data` or of an edge type, from `edge_index` or else from `adj_t`.

    `adj_t` is transposed: its rows are the targets.

    Example:
        >>> adj_t = torch.tensor([[0.0, 0.0], [1.0, 0.0]]).to_sparse_csr()
        >>> graph_edges(Data(adj_t=adj_t))
        tensor([[0],
                [1]])
    """
    edge_index = store.get("edge_index")
    if edge_index is not None:
        return edge_index
    adj = store.get("adj_t")
    return None if adj is None else matrix_entries(adj)[0].flip(0)


def _ends(data: Data | HeteroData, store: Any) -> tuple[Kind, Kind] | None:
    """The types of the sources and targets of a storage's edges; None where it holds no edges."""
    if isinstance(data, Data):
        return (None, None)
    return (store._key[0], store._key[2]) if isinstance(store._key, tuple) else None


def _has_size(data: Data) -> bool:
    """Whether PyG knows the number of nodes from a tensor of theirs."""
    return any(key in N_KEYS or "node" in key or key == "adj_t" for key in data.keys())  # noqa: SIM118


def _is_edge_index(key: str, value: Any) -> bool:
    return (
        "edge" in key
        and "index" in key
        and isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.dim() == 2
        and value.size(0) == 2
        and value.dtype == torch.long
    )


def _is_adj(key: str, value: Any) -> bool:
    if "adj" not in key:
        return False
    return hasattr(value, "sparse_sizes") or (isinstance(value, Tensor) and value.dim() == 2)


def _rewrite_edge_sets(
    data: Data | HeteroData, old: Any, new: Any, ends: tuple[Kind, Kind], change: Rewriting
) -> set[str]:
    """Rewrite every edge set and its companions in `new`; the keys that are done."""
    done: set[str] = set()
    counts = node_counts(data)
    sizes = (len(change.rows[ends[0]]), len(change.rows[ends[1]]))
    # The usual one last: it would take `edge_attr2` for its own.
    for key in sorted(edge_set_keys(old), key=lambda key: (key == "edge_index", -len(key))):
        value = old[key]
        if not _is_adj(key, value):
            edges, at = _mapped(value, ends, change, only_sources="hyperedge" in key)
            new[key] = _like(value, edges, sizes)
        elif tuple(value.shape if isinstance(value, Tensor) else value.sparse_sizes()) == (
            counts[ends[1]],
            counts[ends[0]],
        ):
            new[key], at = _rewritten_adjacency(value, ends, sizes, change)
        else:
            continue
        done.add(key)
        for other in _companions(old, key, done):
            done.add(other)
            new[other] = _taken(old[other], at, _dim(data, other, old[other], old))
    return done


def _companions(store: Any, key: str, done: set[str]) -> list[str]:
    """Keys of what belongs to the edges of one set: `edge_attr2` to `edge_index2`."""
    if key == "edge_index" or (key == "adj_t" and "edge_index" not in store):
        return [k for k, _ in store.items() if k not in done and store.is_edge_attr(k)]
    if "index" not in key:
        return []
    count = store[key].size(1)
    start, _, end = key.partition("index")
    named = re.compile(rf"{re.escape(start)}[a-z]+{re.escape(end)}")
    bare = start.removesuffix("_") + end
    return [
        other
        for other, value in store.items()
        if other not in done
        and (named.fullmatch(other) or other == bare)
        and _size(value) == count
        and not _is_edge_index(other, value)
    ]


def _size(value: Any) -> int | None:
    if isinstance(value, Tensor | np.ndarray):
        return int(value.shape[0]) if value.ndim else None
    return len(value) if isinstance(value, list | tuple) else None


def _mapped(
    edges: Tensor, ends: tuple[Kind, Kind], change: Rewriting, only_sources: bool = False
) -> tuple[Tensor, Tensor]:
    """The edges with new ids `[2, E']`, and the old position of each `[E']`."""
    plain = edges.as_tensor() if isinstance(edges, EdgeIndex) else edges
    found, positions = [], []
    for ids in change.ids:
        source = ids[ends[0]].to(plain.device).index_select(0, plain[0])
        # The second row of hyperedges names no nodes.
        target = (
            plain[1] if only_sources else ids[ends[1]].to(plain.device).index_select(0, plain[1])
        )
        at = ((source >= 0) & (target >= 0)).nonzero().flatten()
        found.append(torch.stack([source.index_select(0, at), target.index_select(0, at)]))
        positions.append(at)
    return torch.cat(found, dim=1), torch.cat(positions)


def _like(old: Tensor, edges: Tensor, sizes: tuple[int, int]) -> Tensor:
    """The edges in the class that they came in."""
    if not isinstance(old, EdgeIndex):
        return edges
    row = {"row": 0, "col": 1}.get(old.sort_order or "")
    still = row is not None and bool((edges[row].diff() >= 0).all())
    return EdgeIndex(edges, sparse_size=sizes, sort_order=old.sort_order if still else None)


def matrix_entries(adj: Any) -> tuple[Tensor, Tensor | None]:
    """Indices `[2, E]` (row, column) and values `[E]` of a matrix, sparse or dense."""
    if not isinstance(adj, Tensor):  # torch_sparse
        row, column, value = adj.coo()
        return torch.stack([row, column]), value
    entries = adj if adj.layout == torch.sparse_coo else adj.to_sparse_coo()
    return entries._indices(), entries._values()


def _rewritten_adjacency(
    adj: Any, ends: tuple[Kind, Kind], sizes: tuple[int, int], change: Rewriting
) -> tuple[Any, Tensor]:
    """A matrix of targets by sources, rewritten, and the old position of each of its entries."""
    entries, value = matrix_entries(adj)
    mapped, at = _mapped(entries.flip(0), ends, change)
    matrix, order = _matrix_of_edges(adj, mapped, None if value is None else value[at], sizes)
    return matrix, at[order]


def _matrix_of_edges(
    adj: Any, edges: Tensor, values: Tensor | None, sizes: tuple[int, int]
) -> tuple[Any, Tensor]:
    """A matrix like `adj` of these edges `[2, E]`, and their order in it: that of compressed rows."""
    order = (edges[1] * max(sizes[0], 1) + edges[0]).argsort(stable=True)
    values = None if values is None else values[order]
    return _matrix_like(adj, edges[:, order].flip(0), values, (sizes[1], sizes[0])), order


def _matrix_like(
    adj: Any, entries: Tensor, values: Tensor | None, shape: tuple[int, int] | None = None
) -> Any:
    """A matrix in the class and layout of `adj` with these entries `[2, E]` (row, column)."""
    if not isinstance(adj, Tensor):
        sizes = shape or adj.sparse_sizes()
        return type(adj)(row=entries[0], col=entries[1], value=values, sparse_sizes=sizes)
    assert values is not None
    new = torch.sparse_coo_tensor(entries, values, shape or adj.shape[:2])
    if adj.layout == torch.strided:
        return new.to_dense()
    if adj.layout == torch.sparse_csr:
        return new.to_sparse_csr()
    if adj.layout == torch.sparse_csc:
        return new.to_sparse_csc()
    return new.coalesce() if adj.is_coalesced() else new


def _dim(data: Data | HeteroData, key: str, value: Any, store: Any) -> int:
    """Along which axis a tensor's rows lie."""
    found = data.__cat_dim__(key, value, store)
    return found if isinstance(found, int) else 0


def _taken(value: Any, rows: Tensor, dim: int) -> Any:
    """The given rows of a tensor, an array or a list."""
    if isinstance(value, Tensor):
        return value.index_select(dim, rows.to(value.device))
    if isinstance(value, np.ndarray):
        return value.take(rows.cpu().numpy(), axis=dim)
    if isinstance(value, list | tuple):
        return type(value)([value[row] for row in rows.tolist()])
    return select(value, rows, dim)
