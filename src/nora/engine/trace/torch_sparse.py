"""`torch_sparse` and `torch_scatter` while a pass is recorded: their functions in torch's own operations.

Neither package is required. Where a user has them, their kernels are opaque, and their Python looks at values
to check them (`row.max()`). The storage of a `SparseTensor` sorts its entries: that is one operation
(`sorted_entries`). Pointers to rows are an operation without a lowering: what would read them is given the
rows themselves. Products, segments and scatters become gathers and scatters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from nora.engine.trace.stand_ins import operation, original_function, own, stands_in

STORAGE, MATMUL = "torch_sparse.storage", "torch_sparse.matmul"
SCATTER, SEGMENTS = "torch_scatter.scatter", "torch_scatter.segment_csr"
# torch's names for what these packages call `min` and `max`.
EXTREMA = {"min": "amin", "max": "amax"}
Function = Callable[..., Any]
# The rows that tensors of pointers lead to, and how many there are, as long as the tensors are alive.
_ROWS: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


@operation("sorted_entries(Tensor row, Tensor col) -> (Tensor, Tensor, Tensor)")
def _sorted_entries(row: Tensor, col: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and columns sorted by row and column, and the order."""
    width = int(col.max()) + 1 if col.numel() else 1
    order = (row * width + col).argsort(stable=True)
    return row[order], col[order], order


@operation("row_pointers(Tensor row, SymInt size) -> Tensor")
def _row_pointers(row: Tensor, size: int) -> Tensor:
    """The starts and ends of the entries of each row `[size + 1]`."""
    return torch.searchsorted(row, torch.arange(size + 1, device=row.device))


@operation("arg_of(Tensor reduced, Tensor src, Tensor index, int dim) -> Tensor")
def _arg_of(reduced: Tensor, src: Tensor, index: Tensor, dim: int) -> Tensor:
    """Which entry of its group each extremum is; the size of the axis where a group has none."""
    length = src.size(dim)
    shape = [-1 if k == dim else 1 for k in range(src.dim())]
    place = torch.arange(length, device=src.device).view(shape).expand_as(src)
    place = torch.where(src == reduced.gather(dim, index), place, length)
    start = torch.full_like(reduced, length, dtype=torch.long)
    return start.scatter_reduce_(dim, index, place, "amin")


@stands_in(STORAGE, "SparseStorage.__init__")
def _storage(
    self, row, rowptr, col, value, sparse_sizes, rowcount, colptr, colcount, csr2csc, csc2csr, is_sorted,
    trust_data,
):  # fmt: skip
    sizes = (None, None) if sparse_sizes is None else tuple(sparse_sizes)
    if row is None or None in sizes:
        original_function("SparseStorage.__init__")(
            self, row, rowptr, col, value, sparse_sizes, rowcount, colptr, colcount, csr2csc, csc2csr,
            is_sorted, trust_data,
        )  # fmt: skip
        return
    self._row, self._rowptr, self._col, self._value = row, rowptr, col, value
    self._sparse_sizes, self._rowcount, self._colcount = sizes, rowcount, colcount
    self._colptr, self._csr2csc, self._csc2csr = colptr, csr2csc, csc2csr
    if not is_sorted:
        self._row, self._col, order = own.sorted_entries(row, col)
        self._value = None if value is None else value[order]
        self._csr2csc = self._csc2csr = None


@stands_in(STORAGE, "SparseStorage.rowptr")
def _rowptr(self):
    if self._rowptr is None:
        self._rowptr = own.row_pointers(self._row, self._sparse_sizes[0])
        _ROWS[self._rowptr] = self._row, self._sparse_sizes[0]
    return self._rowptr


@stands_in(STORAGE, "SparseStorage.rowcount")
def _rowcount(self):
    if self._rowcount is None:
        self._rowcount = _counted(self.row(), self._sparse_sizes[0])
    return self._rowcount


@stands_in(STORAGE, "SparseStorage.colcount")
def _colcount(self):
    if self._colcount is None:
        self._colcount = _counted(self._col, self._sparse_sizes[1])
    return self._colcount


@stands_in(STORAGE, "SparseStorage.csr2csc")
def _csr2csc(self):
    if self._csr2csc is None:
        self._csr2csc = own.sorted_entries(self._col, self.row())[2]
    return self._csr2csc


def _product_by(reduce: str, alone: bool) -> Function:
    def stand_in(src, other):
        made = _product(src, other, reduce)
        return made if alone else (made, None)

    return stand_in


for _name, _reduce in EXTREMA.items():
    stands_in(MATMUL, f"spmm_{_name}")(_product_by(_reduce, alone=False))
for _name in ("sum", "mean"):
    stands_in(MATMUL, f"spmm_{_name}")(_product_by(_name, alone=True))


@stands_in("torch_sparse.diag", "set_diag")
def _set_diag(src, values, k):
    row, col, value = src.coo()
    sizes = src.sparse_sizes()
    if k != 0 or sizes[0] != sizes[1]:
        return original_function("set_diag")(src, values, k)
    keep, every = row != col, torch.arange(sizes[0], device=row.device)
    if value is not None:
        value = torch.cat([value[keep], value.new_ones(sizes[0]) if values is None else values])
    return type(src)(
        row=torch.cat([row[keep], every]), col=torch.cat([col[keep], every]), value=value,
        sparse_sizes=sizes,
    )  # fmt: skip


@stands_in(SCATTER, "scatter_mul")
def _scatter_mul(src, index, dim, out, dim_size):
    if out is not None:
        return original_function("scatter_mul")(src, index, dim, out, dim_size)
    start, dim, index = _prepared(src, index, dim, dim_size)
    return (start + 1).scatter_reduce_(dim, index, src, "prod")


def _extremum(name: str) -> Function:
    def stand_in(src, index, dim, out, dim_size):
        if out is not None:
            return original_function(f"scatter_{name}")(src, index, dim, out, dim_size)
        start, dim, index = _prepared(src, index, dim, dim_size)
        made = start.scatter_reduce_(dim, index, src, EXTREMA[name], include_self=False)
        return made, own.arg_of(made, src, index, dim)

    return stand_in


def _by_pointers(name: str, function: Callable[[Tensor, Tensor, int], Tensor]) -> Function:
    def stand_in(src, indptr, out):
        if out is not None or indptr not in _ROWS:
            return original_function(name)(src, indptr, out)
        return function(src, *_ROWS[indptr])

    return stand_in


for _name in EXTREMA:
    stands_in(SCATTER, f"scatter_{_name}")(_extremum(_name))
for _name, _function in {
    "segment_sum_csr": lambda src, row, size: _reduced(src, row, size, "sum"),
    "segment_mean_csr": lambda src, row, size: _reduced(src, row, size, "mean"),
    "gather_csr": lambda src, row, size: src[row],
}.items():
    stands_in(SEGMENTS, _name)(_by_pointers(_name, _function))


def _counted(index: Tensor, size: int) -> Tensor:
    """How many entries each row or column has."""
    return index.new_zeros(size).scatter_add_(0, index, torch.ones_like(index))


def _product(matrix: Any, dense: Tensor, reduce: str) -> Tensor:
    """The product of every entry with the row of its column, reduced at the entry's row."""
    storage = matrix.storage
    rows, value = dense[storage.col()], storage.value()
    if value is not None:
        rows = rows * value.to(dense.dtype).view(-1, *[1] * (dense.dim() - 1))
    return _reduced(rows, storage.row(), storage.sparse_sizes()[0], reduce)


def _reduced(rows: Tensor, index: Tensor, size: int, reduce: str) -> Tensor:
    """Rows reduced by an index; 0 for a group without rows."""
    thin = [1] * (rows.dim() - 1)
    wide = index.view(-1, *thin).expand_as(rows)
    start = rows.new_zeros(size, *rows.shape[1:])
    if reduce not in ("sum", "mean"):
        return start.scatter_reduce_(0, wide, rows, reduce, include_self=False)
    total = start.scatter_add_(0, wide, rows)
    if reduce == "sum":
        return total
    return total / _counted(index, size).clamp(min=1).to(rows.dtype).view(-1, *thin)


def _prepared(src: Tensor, index: Tensor, dim: int, size: int | None) -> tuple[Tensor, int, Tensor]:
    """Zeros to start from, the axis, and an index of the shape of `src`."""
    dim %= src.dim()
    if index.dim() == 1:
        index = index.view([-1 if k == dim else 1 for k in range(src.dim())])
    shape = list(src.shape)
    shape[dim] = int(index.max()) + 1 if size is None else size
    return src.new_zeros(shape), dim, index.expand_as(src)
