"""Sparse matrices: an adjacency in a product is an edge set with weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nora.engine.steps.reduce import Reduce
from nora.engine.steps.step import Value
from nora.engine.tape.follow import MAKE_MATRICES, MATRICES, Walk
from nora.engine.tape.kinds.gathers import numbers
from nora.engine.tape.program import Step
from nora.engine.tape.tracked import Layout, Matrix, Tracked, Uniform


def _of_matrix(
    *names: str,
) -> Callable[[Callable[[Walk, Step], None]], Callable[[Walk, Step], None]]:
    def enter(function: Callable[[Walk, Step], None]) -> Callable[[Walk, Step], None]:
        for name in names:
            MATRICES[name] = function
        return function

    return enter


@_of_matrix("t", "transpose")
def transposed(walk: Walk, step: Step) -> None:
    """Rows for columns."""
    found = walk[step.args["self"]]
    assert isinstance(found, Matrix)
    walk.set(
        Matrix(found.column, found.row, found.values, found.columns, found.rows, found.in_order)
    )


@_of_matrix("_coalesce", "coalesce", "to_sparse_csr", "_to_sparse_csr", "_to_sparse", "to_sparse")
def alike(walk: Walk, step: Step) -> None:
    """The same entries, stored row by row, those of one place as one."""
    found = walk[step.args["self"]]
    assert isinstance(found, Matrix)
    place = found.row * found.columns.size + found.column
    in_order = found.in_order and bool((place[1:] > place[:-1]).all())
    walk.set(replace(found, in_order=in_order))


@_of_matrix("is_coalesced")
def told(walk: Walk, step: Step) -> None:
    """How entries are stored changes nothing."""


@_of_matrix("values", "_values")
def values(walk: Walk, step: Step) -> None:
    """The entries' numbers."""
    walk.set(Tracked(_apart(walk, step, step.shapes[0][0]).values, Layout(0)))


def _apart(walk: Walk, step: Step, sizes: tuple[int, ...]) -> Matrix:
    """A matrix whose entries are taken one by one."""
    found = walk[step.args["matrix" if step.name == "entries" else "self"]]
    assert isinstance(found, Matrix)
    if not found.in_order or found.space.sizes != sizes:
        walk.refuse(
            "takes the entries of a sparse matrix after they were put in order (use "
            "torch_geometric.utils.coalesce)"
        )
    return found


@_of_matrix("entries", "indices", "_indices")
def entries(walk: Walk, step: Step) -> None:
    """Where the entries stand, and their numbers."""
    found = _apart(walk, step, step.shapes[0][1])
    key = ("entries", id(found))
    if key not in walk.named:
        where = torch.stack([found.row, found.column], dim=1)
        walk.named[key] = (walk.fixed(where, found.space), found)
    walk.set(Tracked(walk.named[key][0], Layout(1), "id"))
    if step.name == "entries":
        walk.set(Tracked(found.values, Layout(0)), 1)


@_of_matrix("crow_indices", "ccol_indices", "col_indices", "row_indices")
def pointers(walk: Walk, step: Step) -> None:
    """Where each row's entries begin: every removal moves them all."""
    walk.refuse(
        "reads the pointers of a compressed sparse matrix, which is not followed (give the layer edge_index, "
        "or the matrix as adj_t.to_sparse_coo())"
    )


@_of_matrix("with_entries")
def with_entries(walk: Walk, step: Step) -> None:
    """Other numbers in the same places."""
    found, weight = walk[step.args["matrix"]], walk[step.args["values"]]
    assert isinstance(found, Matrix)
    if isinstance(weight, Uniform):
        weight = Tracked(walk.repeated(weight, found.space), weight.layout)
    if isinstance(weight, Tracked):
        weight = walk.as_rows_of(weight, found.space)
    if not isinstance(weight, Tracked) or weight.layout != Layout(0) or walk.ndim_of(weight) != 1:
        walk.refuse("makes a sparse matrix of other values than its entries")
    assert isinstance(weight, Tracked)
    if not found.in_order:
        walk.refuse(
            "gives the entries of a sparse matrix other values after they were put in order"
        )
    walk.set(Matrix(found.row, found.column, weight.value, found.rows, found.columns))


@_of_matrix("mm", "addmm", "_sparse_addmm", "_sparse_mm_reduce_impl")
def product(walk: Walk, step: Step) -> None:
    """What every entry reads from its column, times the entry, reduced at its row."""
    args = step.args
    names = {"mm": ("self", "mat2"), "_sparse_mm_reduce_impl": ("self", "other")}
    left, right = names.get(step.name, ("mat1", "mat2"))
    matrix, dense = walk[args[left]], walk[args[right]]
    if not isinstance(matrix, Matrix) or isinstance(dense, Matrix):
        walk.refuse("multiplies with a sparse matrix on the right")
    assert isinstance(matrix, Matrix)
    if isinstance(dense, Uniform):
        dense = Tracked(walk.repeated(dense, matrix.columns), dense.layout)
    if isinstance(dense, Tensor):
        dense = walk.own_rows(dense, 0, matrix.columns)
    if not isinstance(dense, Tracked) or dense.layout != Layout(0):
        walk.refuse("multiplies a sparse matrix with what has no row for every column")
    assert isinstance(dense, Tracked)
    same = walk.as_rows_of(dense, matrix.columns)
    if same is None:
        walk.refuse("multiplies a sparse matrix with other rows than its columns")
    assert same is not None
    beta, alpha = args.get("beta", 1), args.get("alpha", 1)
    if alpha != 1 or (step.name != "mm" and "beta" in args and beta not in (0, 1)):
        walk.refuse("scales a product with a sparse matrix")
    reduce = args.get("reduce", "sum")
    read = walk.gathered(same.value, matrix.column, matrix.space)
    scaled = walk.rows(_scaled, read, matrix.values, numel=8)
    made = _reduced(walk, matrix, scaled, reduce)
    if step.name in ("addmm", "_sparse_addmm") and beta:
        added = walk[args["self"]]
        if isinstance(added, Uniform):
            added = Tracked(walk.repeated(added, matrix.rows), added.layout)
        if not isinstance(added, Tracked) or added.space is not matrix.rows:
            walk.refuse("adds to a product with a sparse matrix")
        assert isinstance(added, Tracked)
        made = walk.rows(torch.add, made, added.value)
    walk.set(Tracked(made, Layout(0)))


def _scaled(rows: Tensor, weight: Tensor) -> Tensor:
    return rows * weight.view(-1, *[1] * (rows.dim() - 1)).to(rows.dtype)


def _reduced(walk: Walk, matrix: Matrix, rows: Value, reduce: str) -> Value:
    none = rows.at(torch.zeros(0, dtype=torch.long))
    start = walk.fixed(
        none.new_zeros(1, *none.shape[1:]).expand(matrix.rows.size, *none.shape[1:]), matrix.rows
    )
    if reduce in ("sum", "mean"):
        total = walk.scattered(rows, matrix.row, start, "sum", True)
        if reduce == "sum":
            return total
        ones = walk.fixed(none.new_ones(1).expand(matrix.space.size), matrix.space)
        zeros = walk.fixed(none.new_zeros(1).expand(matrix.rows.size), matrix.rows)
        count = walk.scattered(ones, matrix.row, zeros, "sum", True)
        return walk.rows(lambda t, n: t / n.clamp(min=1).unsqueeze(-1), total, count)
    extremum: Reduce = "amax" if reduce in ("max", "amax") else "amin"
    return walk.scattered(rows, matrix.row, start, extremum, False)


@_of_matrix(*MAKE_MATRICES)
def made(walk: Walk, step: Step) -> None:
    """A matrix from its entries."""
    args = step.args
    index = walk[args["edges" if step.name == "sparse_of_edges" else "indices"]]
    if not isinstance(index, Tracked) or index.layout != Layout(1) or index.ids != "id":
        walk.refuse("makes a sparse matrix of what are no edges")
    assert isinstance(index, Tracked)
    index = walk.static_index(index)
    both = numbers(walk, index)
    spaces = [walk.space_of_size(sizes) for sizes in step.shapes[0]]
    if both.dim() != 2 or both.size(1) != 2 or any(space not in walk.nodes for space in spaces):
        walk.refuse("makes a sparse matrix of what are no edges")
    weight = walk[args["values"]]
    if isinstance(weight, Uniform):
        weight = Tracked(walk.repeated(weight, index.space), weight.layout)
    if isinstance(weight, Tracked):
        weight = walk.as_rows_of(weight, index.space)
    if not isinstance(weight, Tracked) or weight.layout != Layout(0) or walk.ndim_of(weight) != 1:
        walk.refuse("makes a sparse matrix of other values than its entries")
    assert isinstance(weight, Tracked) and spaces[0] is not None and spaces[1] is not None
    walk.set(
        Matrix(both[:, 0].contiguous(), both[:, 1].contiguous(), weight.value, spaces[0], spaces[1])
    )
