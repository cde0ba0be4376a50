"""Functions of PyG that are one operation on the trace.

`coalesce` takes another way where no edge is there twice, and a sparse matrix is taken apart and put together
by pointers, which no removal leaves as they are: what these functions do with edges is plain, how they do it
is not. While a pass is recorded they are operations of their own, which give what PyG's code gives.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import HypergraphConv
from torch_geometric.utils import coalesce, scatter, sparse

from nora.engine.trace.stand_ins import operation, original_function, own, stands_in


@operation("distinct_edges(Tensor edges, bool sort_by_row) -> (Tensor, Tensor)")
def _distinct_edges(edge_index: Tensor, sort_by_row: bool) -> tuple[Tensor, Tensor]:
    """Every edge once, in order `[2, P]`, and which of them each one is `[E]`."""
    first, second = edge_index if sort_by_row else edge_index.flip(0)
    count = int(edge_index.max()) + 1 if edge_index.numel() else 1
    keys, group = (first * count + second).unique(return_inverse=True)
    found = torch.stack([keys // count, keys % count])
    return (found if sort_by_row else found.flip(0)).contiguous(), group


@operation("entries(Tensor matrix) -> (Tensor, Tensor)")
def _entries(adjacency: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of a matrix's entries `[2, E]`, and the entries."""
    where, values = original_function("to_edge_index")(adjacency)
    return where.clone(), values.clone()


@operation("with_entries(Tensor matrix, Tensor values) -> Tensor")
def _with_entries(adjacency: Tensor, values: Tensor) -> Tensor:
    """The matrix with other entries in the same places."""
    return original_function("set_sparse_value")(adjacency, values)


@operation(
    "sparse_of_edges(Tensor edges, Tensor values, SymInt rows, SymInt columns, bool csr) -> Tensor"
)
def _sparse_of_edges(edges: Tensor, values: Tensor, rows: int, columns: int, csr: bool) -> Tensor:
    """The matrix with these entries, which are in order and there once."""
    make = original_function("to_torch_csr_tensor" if csr else "to_torch_coo_tensor")
    return make(edges.clone(), values.clone(), (rows, columns), True)


@stands_in(coalesce.__module__, "coalesce")
def _coalesce(edge_index, edge_attr, num_nodes, reduce, is_sorted, sort_by_row):
    """`coalesce`, with the edges in one operation and their attributes reduced by another."""
    several = list(edge_attr) if isinstance(edge_attr, list | tuple) else [edge_attr]
    known = all(part is None or isinstance(part, Tensor | str) for part in several)
    if type(edge_index) is not Tensor or is_sorted or not known or not _fits(edge_index, num_nodes):
        return original_function("coalesce")(
            edge_index, edge_attr, num_nodes, reduce, is_sorted, sort_by_row
        )
    edges, group = own.distinct_edges(edge_index, sort_by_row)
    if isinstance(edge_attr, str):  # PyG's word for nothing given
        return edges
    made = [
        None if part is None else scatter(part, group, 0, edges.size(1), reduce) for part in several
    ]
    return edges, made if isinstance(edge_attr, list | tuple) else made[0]


def _fits(edge_index: Tensor, num_nodes: Any) -> bool:
    """Whether the number of nodes is none or large enough, so that it changes nothing."""
    with torch.utils._python_dispatch._disable_current_modes():
        if edge_index.dim() != 2 or edge_index.dtype != torch.long:
            return False
        return num_nodes is None or not edge_index.numel() or int(edge_index.max()) < num_nodes


@stands_in(HypergraphConv.__module__, "HypergraphConv.forward")
def _hypergraph(self, x, hyperedge_index, hyperedge_weight, hyperedge_attr, num_edges):
    """Where hyperedges are numbered as nodes are, there are as many; PyG reads the largest number.

    Rows that no edge leads to are not read, so that their number changes nothing.
    """
    if num_edges is None and _fits(hyperedge_index, x.size(0)):
        num_edges = x.size(0)
    return original_function("HypergraphConv.forward")(
        self, x, hyperedge_index, hyperedge_weight, hyperedge_attr, num_edges
    )


def _matrix_of(
    function: str, edge_index: Any, edge_attr: Any, size: Any, is_coalesced: bool
) -> Any:
    """A sparse matrix of edges."""
    pair = size if isinstance(size, tuple | list) else (size, size)
    known = type(edge_index) is Tensor and (edge_attr is None or isinstance(edge_attr, Tensor))
    if not known or len(pair) != 2 or not all(isinstance(n, int) for n in pair):
        return original_function(function)(edge_index, edge_attr, size, is_coalesced)
    if not is_coalesced:
        edge_index, edge_attr = _coalesce(edge_index, edge_attr, max(pair), "sum", False, True)
    if edge_attr is None:
        edge_attr = torch.ones(edge_index.size(1), device=edge_index.device)
    return own.sparse_of_edges(edge_index, edge_attr, *pair, function == "to_torch_csr_tensor")


@stands_in(sparse.__name__, "to_edge_index")
def _to_edge_index(adj):
    return (own.entries if hasattr(adj, "layout") else original_function("to_edge_index"))(adj)


@stands_in(sparse.__name__, "set_sparse_value")
def _set_sparse_value(adj, value):
    return own.with_entries(adj, value)


@stands_in(sparse.__name__, "to_torch_csr_tensor")
def _to_torch_csr_tensor(edge_index, edge_attr, size, is_coalesced):
    return _matrix_of("to_torch_csr_tensor", edge_index, edge_attr, size, is_coalesced)


@stands_in(sparse.__name__, "to_torch_coo_tensor")
def _to_torch_coo_tensor(edge_index, edge_attr, size, is_coalesced):
    return _matrix_of("to_torch_coo_tensor", edge_index, edge_attr, size, is_coalesced)
