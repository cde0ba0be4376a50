"""Sparse matrices: an adjacency in a product is an edge set with weights."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from nora.engine.ir.op import Value
from nora.engine.ir.space import Space
from nora.engine.lower.builder import Builder
from nora.engine.lower.gathers import index_rows
from nora.engine.lower.known import Layout, Matrix, Pointers, Tracked
from nora.engine.lower.lowerings import lower
from nora.engine.ops.reduce import Reduction
from nora.engine.trace.align import AlignedOp
from nora.engine.trace.trace import Ref

MAKE_MATRICES = (
    "_sparse_coo_tensor_with_dims_and_tensors", "_sparse_coo_tensor_unsafe", "sparse_of_edges",
)  # fmt: skip


@lower("t", "transpose", sparse=True)
def transposed(builder: Builder, op: AlignedOp) -> None:
    """Rows for columns."""
    found = builder.matrix(op.args["self"])
    builder.set(
        Matrix(found.column, found.row, found.values, found.columns, found.rows, found.in_order)
    )


@lower(
    "_coalesce",
    "coalesce",
    "to_sparse_csr",
    "_to_sparse_csr",
    "_to_sparse",
    "to_sparse",
    sparse=True,
)
def reordered(builder: Builder, op: AlignedOp) -> None:
    """The same entries, stored row by row, those of one place as one."""
    found = builder.matrix(op.args["self"])
    place = found.row * found.columns.size + found.column
    in_order = found.in_order and bool((place[1:] > place[:-1]).all())
    builder.set(replace(found, in_order=in_order))


@lower("is_coalesced", sparse=True)
def is_coalesced(builder: Builder, op: AlignedOp) -> None:
    """How entries are stored changes nothing."""


@lower("values", "_values", sparse=True)
def values(builder: Builder, op: AlignedOp) -> None:
    """The entries' numbers."""
    builder.set(Tracked(_apart(builder, op, op.shapes[0][0]).values, Layout(0)))


def _apart(builder: Builder, op: AlignedOp, sizes: tuple[int, ...]) -> Matrix:
    """A matrix whose entries are taken one by one."""
    found = builder.matrix(op.args["matrix" if op.name == "entries" else "self"])
    if not found.in_order or found.space.sizes != sizes:
        builder.unsupported(
            "reads the entries of a sparse matrix after they were sorted (use "
            "torch_geometric.utils.coalesce)"
        )
    return found


@lower("entries", "indices", "_indices", sparse=True)
def entry_layout(builder: Builder, op: AlignedOp) -> None:
    """The layout of the entries, and their values."""
    found = _apart(builder, op, op.shapes[0][1])
    key = ("entries", found)
    if key not in builder.named:
        where = torch.stack([found.row, found.column], dim=1)
        builder.named[key] = builder.fixed(where, found.space)
    builder.set(Tracked(builder.named[key], Layout(1), "id"))
    if op.name == "entries":
        builder.set(Tracked(found.values, Layout(0)), 1)


@lower("crow_indices", "ccol_indices", "col_indices", "row_indices", sparse=True)
def pointers(builder: Builder, op: AlignedOp) -> None:
    """The starts of each row's entries: every removal moves them all."""
    builder.unsupported(
        "reads the pointers of a compressed sparse matrix, which is not supported (pass edge_index to the "
        "layer, or the matrix as adj_t.to_sparse_coo())"
    )


def _weight(builder: Builder, ref: Ref, space: Space) -> Tracked:
    """The values of a matrix, one number for every entry."""
    weight = builder.rowed_known(builder[ref], space)
    if weight is None or weight.layout != Layout(0) or builder.ndim_of(weight) != 1:
        builder.unsupported("makes a sparse matrix from values other than its entries")
    return weight


@lower("with_entries", sparse=True)
def with_entries(builder: Builder, op: AlignedOp) -> None:
    """Other numbers in the same places."""
    found = builder.matrix(op.args["matrix"])
    weight = _weight(builder, op.args["values"], found.space)
    if not found.in_order:
        builder.unsupported("replaces the values of a sparse matrix after its entries were sorted")
    builder.set(Matrix(found.row, found.column, weight.value, found.rows, found.columns))


@lower("mm", "addmm", "_sparse_addmm", "_sparse_mm_reduce_impl", sparse=True)
def lower_sparse_product(builder: Builder, op: AlignedOp) -> None:
    """The product of every entry with the row of its column, reduced at the entry's row."""
    args = op.args
    names = {"mm": ("self", "mat2"), "_sparse_mm_reduce_impl": ("self", "other")}
    left, right = names.get(op.name, ("mat1", "mat2"))
    matrix, dense = builder.known[args[left].id], builder.known[args[right].id]
    if not isinstance(matrix, Matrix) or isinstance(dense, Matrix):
        builder.unsupported("multiplies by a sparse matrix from the right")
    if isinstance(dense, Tensor):
        dense = builder.own_rows(dense, 0, matrix.columns)
    same = builder.rowed_known(dense, matrix.columns)
    if same is None or same.layout != Layout(0):
        builder.unsupported("multiplies a sparse matrix with other rows than its columns")
    beta, alpha = args.get("beta", 1), args.get("alpha", 1)
    if alpha != 1 or (op.name != "mm" and "beta" in args and beta not in (0, 1)):
        builder.unsupported("scales a product with a sparse matrix")
    reduce = args.get("reduce", "sum")
    read = builder.gathered(same.value, matrix.column, matrix.space)
    scaled = builder.rows(_scaled, read, matrix.values, numel=8)
    made = _reduced(builder, matrix, scaled, reduce)
    if op.name in ("addmm", "_sparse_addmm") and beta:
        added = builder.rowed_known(builder[args["self"]], matrix.rows)
        if added is None or added.layout != Layout(0):
            builder.unsupported("adds to a product with a sparse matrix")
        made = builder.rows(lambda a, b: a + b, made, added.value)
    builder.set(Tracked(made, Layout(0)))


def _scaled(rows: Tensor, weight: Tensor) -> Tensor:
    return rows * weight.view(-1, *[1] * (rows.dim() - 1)).to(rows.dtype)


def _reduced(builder: Builder, matrix: Matrix, rows: Value, reduce: str) -> Value:
    none = rows.none
    start = builder.fixed(
        none.new_zeros(1, *none.shape[1:]).expand(matrix.rows.size, *none.shape[1:]), matrix.rows
    )
    if reduce in ("sum", "mean"):
        total = builder.scattered(rows, matrix.row, start, "sum", True)
        if reduce == "sum":
            return total
        ones = builder.fixed(none.new_ones(1).expand(matrix.space.size), matrix.space)
        zeros = builder.fixed(none.new_zeros(1).expand(matrix.rows.size), matrix.rows)
        count = builder.scattered(ones, matrix.row, zeros, "sum", True)
        return builder.rows(lambda t, n: t / n.clamp(min=1).unsqueeze(-1), total, count)
    extremum: Reduction = "amax" if reduce in ("max", "amax") else "amin"
    return builder.scattered(rows, matrix.row, start, extremum, False)


@lower("row_pointers", "_convert_indices_from_coo_to_csr")
def row_pointers(builder: Builder, op: AlignedOp) -> None:
    """The starts of the entries of each row; the matrix made from them has the rows themselves."""
    found = builder[op.args["row" if op.name == "row_pointers" else "self"]]
    if not isinstance(found, Tracked) or found.layout != Layout(0) or found.ids != "id":
        builder.unsupported("compresses something other than row ids")
    row = builder.static_index(found).value.base_rows()
    if bool((row[1:] < row[:-1]).any()):
        builder.unsupported("compresses rows that are not sorted")
    builder.set(Pointers(found))


@lower(
    "sparse_compressed_tensor", "_sparse_compressed_tensor_unsafe", "sparse_csr_tensor",
    "_sparse_csr_tensor_unsafe", "sparse_csc_tensor", "_sparse_csc_tensor_unsafe",
)  # fmt: skip
def compressed(builder: Builder, op: AlignedOp) -> None:
    """A matrix of pointers to its rows or columns."""
    given = list(op.args.values())
    pointers_, along = builder.known[given[0].id], builder[given[1]]
    if not isinstance(pointers_, Pointers) or not isinstance(along, Tracked) or along.ids != "id":
        builder.unsupported("makes a sparse matrix from something other than edges")
    along = builder.as_rows_of(builder.static_index(along), pointers_.row.space) or along
    spaces = [builder.space_of_size(sizes) for sizes in op.shapes[0]]
    if along.space is not pointers_.row.space or not all(one in builder.nodes for one in spaces):
        builder.unsupported("makes a sparse matrix from something other than edges")
    row, column = index_rows(builder, pointers_.row), index_rows(builder, along)
    by_rows = "csc" not in op.name and op.args.get("layout") is not torch.sparse_csc
    if not by_rows:
        row, column = column, row
    rows, columns = (one for one in spaces if one is not None)
    weight = _weight(builder, given[2], along.space)
    builder.set(Matrix(row, column, weight.value, rows, columns, by_rows))


@lower(*MAKE_MATRICES)
def made(builder: Builder, op: AlignedOp) -> None:
    """A matrix from its entries."""
    args = op.args
    index = builder[args["edges" if op.name == "sparse_of_edges" else "indices"]]
    if not isinstance(index, Tracked) or index.layout != Layout(1) or index.ids != "id":
        builder.unsupported("makes a sparse matrix from something other than edges")
    index = builder.static_index(index)
    both = index_rows(builder, index)
    rows, columns = (builder.space_of_size(sizes) for sizes in op.shapes[0])
    edges = both.dim() == 2 and both.size(1) == 2
    if not edges or rows not in builder.nodes or columns not in builder.nodes:
        builder.unsupported("makes a sparse matrix from something other than edges")
    assert rows is not None and columns is not None  # they are among the nodes
    weight = _weight(builder, args["values"], index.space)
    builder.set(
        Matrix(both[:, 0].contiguous(), both[:, 1].contiguous(), weight.value, rows, columns)
    )
