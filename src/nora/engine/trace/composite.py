"""Functions of PyG that are one operation on the trace.

`coalesce` takes another way where no edge is there twice, and a sparse matrix is taken apart and put together
by pointers, which no removal leaves as they are: what these functions do with edges is plain, how they do it
is not. While a pass is recorded they are operations of their own, which give what PyG's code gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, scatter, sparse

NAMESPACE = "nora"


def _kept(function: Any) -> Callable[..., Any]:
    """The function as it is now, whatever becomes of its code later."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


PLAIN = {
    function.__name__: _kept(function)
    for function in (
        coalesce, sparse.to_edge_index, sparse.set_sparse_value, sparse.to_torch_csr_tensor,
        sparse.to_torch_coo_tensor,
    )
}  # fmt: skip


def _distinct_edges(edge_index: Tensor, sort_by_row: bool) -> tuple[Tensor, Tensor]:
    """Every edge once, in order `[2, P]`, and which of them each one is `[E]`."""
    first, second = edge_index if sort_by_row else edge_index.flip(0)
    count = int(edge_index.max()) + 1 if edge_index.numel() else 1
    keys, group = (first * count + second).unique(return_inverse=True)
    found = torch.stack([keys // count, keys % count])
    return (found if sort_by_row else found.flip(0)).contiguous(), group


def _entries(adjacency: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of a matrix's entries `[2, E]`, and the entries."""
    where, values = PLAIN["to_edge_index"](adjacency)
    return where.clone(), values.clone()


def _with_entries(adjacency: Tensor, values: Tensor) -> Tensor:
    """The matrix with other entries in the same places."""
    return PLAIN["set_sparse_value"](adjacency, values)


def _sparse_of_edges(edges: Tensor, values: Tensor, rows: int, columns: int, csr: bool) -> Tensor:
    """The matrix with these entries, which are in order and there once."""
    make = PLAIN["to_torch_csr_tensor" if csr else "to_torch_coo_tensor"]
    return make(edges.clone(), values.clone(), (rows, columns), True)


OPERATIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "distinct_edges": (_distinct_edges, "(Tensor edges, bool sort_by_row) -> (Tensor, Tensor)"),
    "entries": (_entries, "(Tensor matrix) -> (Tensor, Tensor)"),
    "with_entries": (_with_entries, "(Tensor matrix, Tensor values) -> Tensor"),
    "sparse_of_edges": (
        _sparse_of_edges,
        "(Tensor edges, Tensor values, SymInt rows, SymInt columns, bool csr) -> Tensor",
    ),
}
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
for _name, (_function, _schema) in OPERATIONS.items():
    if not hasattr(getattr(torch.ops, NAMESPACE), _name):  # a module may be imported twice
        _LIBRARY.define(_name + _schema)
        _LIBRARY.impl(_name, _function, "CompositeExplicitAutograd")
own = getattr(torch.ops, NAMESPACE)


def coalesced(
    edge_index: Any, edge_attr: Any, num_nodes: Any, reduce: str, is_sorted: bool, by_row: bool
) -> Any:
    """`coalesce`, with the edges in one operation and what is said of them reduced by another."""
    several = list(edge_attr) if isinstance(edge_attr, list | tuple) else [edge_attr]
    known = all(part is None or isinstance(part, Tensor | str) for part in several)
    if type(edge_index) is not Tensor or is_sorted or not known or not _fits(edge_index, num_nodes):
        return PLAIN["coalesce"](edge_index, edge_attr, num_nodes, reduce, is_sorted, by_row)
    edges, group = own.distinct_edges(edge_index, by_row)
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


def matrix_of(function: str, edge_index: Any, edge_attr: Any, size: Any, is_coalesced: bool) -> Any:
    """A sparse matrix of edges."""
    pair = size if isinstance(size, tuple | list) else (size, size)
    known = type(edge_index) is Tensor and (edge_attr is None or isinstance(edge_attr, Tensor))
    if not known or len(pair) != 2 or not all(isinstance(n, int) for n in pair):
        return PLAIN[function](edge_index, edge_attr, size, is_coalesced)
    if not is_coalesced:
        edge_index, edge_attr = coalesced(edge_index, edge_attr, max(pair), "sum", False, True)
    if edge_attr is None:
        edge_attr = torch.ones(edge_index.size(1), device=edge_index.device)
    return own.sparse_of_edges(edge_index, edge_attr, *pair, function == "to_torch_csr_tensor")


# The code that these functions have while a pass is recorded; names are looked up where PyG's are.
def _coalesce(edge_index, edge_attr, num_nodes, reduce, is_sorted, sort_by_row):
    from nora.engine.trace.composite import coalesced

    return coalesced(edge_index, edge_attr, num_nodes, reduce, is_sorted, sort_by_row)


def _to_edge_index(adj):
    from nora.engine.trace.composite import PLAIN, own

    return (own.entries if hasattr(adj, "layout") else PLAIN["to_edge_index"])(adj)


def _set_sparse_value(adj, value):
    from nora.engine.trace.composite import own

    return own.with_entries(adj, value)


def _to_torch_csr_tensor(edge_index, edge_attr, size, is_coalesced):
    from nora.engine.trace.composite import matrix_of

    return matrix_of("to_torch_csr_tensor", edge_index, edge_attr, size, is_coalesced)


def _to_torch_coo_tensor(edge_index, edge_attr, size, is_coalesced):
    from nora.engine.trace.composite import matrix_of

    return matrix_of("to_torch_coo_tensor", edge_index, edge_attr, size, is_coalesced)


STAND_INS = (
    (coalesce, _coalesce),
    (sparse.to_edge_index, _to_edge_index),
    (sparse.set_sparse_value, _set_sparse_value),
    (sparse.to_torch_csr_tensor, _to_torch_csr_tensor),
    (sparse.to_torch_coo_tensor, _to_torch_coo_tensor),
)


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


@contextmanager
def one_operation_each() -> Iterator[None]:
    """PyG's functions are one operation each, under whatever name a model knows them.

    A version of PyG that takes other arguments keeps its own code: it is then followed as it runs. One thread
    at a time may be in here; see `record`.
    """
    before: list[tuple[Any, CodeType]] = []
    try:
        for function, stand_in in STAND_INS:
            if _arguments(function.__code__) == _arguments(stand_in.__code__):
                before.append((function, function.__code__))
                function.__code__ = stand_in.__code__
        yield
    finally:
        for function, code in before:
            function.__code__ = code
