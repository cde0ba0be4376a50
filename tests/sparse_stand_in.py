"""`torch_sparse` and `torch_scatter` as far as models call them: their Python interface, in our words.

The packages need compiled kernels and cannot be installed everywhere. `install()` registers modules of their
names, so that a model imports them as its users do. What the kernels compute is done with operations that
the engine does not follow (pointers, sorting by values), as the kernels themselves are.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch
from torch import Tensor


class SparseStorage:
    """Rows, columns and values, sorted by row and column."""

    def __init__(
        self, row=None, rowptr=None, col=None, value=None, sparse_sizes=None, rowcount=None, colptr=None,
        colcount=None, csr2csc=None, csc2csr=None, is_sorted=False, trust_data=False,
    ):  # fmt: skip
        sizes = (None, None) if sparse_sizes is None else sparse_sizes
        m = sizes[0] if sizes[0] is not None else int(row.max()) + 1
        n = sizes[1] if sizes[1] is not None else int(col.max()) + 1
        if not trust_data and col.numel():
            assert int(col.max()) < n
            assert row is None or int(row.max()) < m
        self._row, self._rowptr, self._col, self._value = row, rowptr, col, value
        self._sparse_sizes = (m, n)
        self._rowcount, self._colptr, self._colcount = rowcount, colptr, colcount
        self._csr2csc, self._csc2csr = csr2csc, csc2csr
        if not is_sorted and col.numel():
            idx = col.new_zeros(col.numel() + 1)
            idx[1:] = self.row()
            idx[1:] *= n
            idx[1:] += col
            if (idx[1:] < idx[:-1]).any():
                perm = idx[1:].argsort()
                self._row, self._col = self.row()[perm], col[perm]
                if value is not None:
                    self._value = value[perm]
                self._csr2csc = self._csc2csr = None

    def row(self):
        if self._row is None:
            counts = self._rowptr[1:] - self._rowptr[:-1]
            self._row = torch.arange(len(counts)).repeat_interleave(counts)
        return self._row

    def rowptr(self):
        if self._rowptr is None:
            counts = torch.bincount(self._row, minlength=self._sparse_sizes[0])
            self._rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return self._rowptr

    def col(self):
        return self._col

    def value(self):
        return self._value

    def rowcount(self):
        if self._rowcount is None:
            pointers = self.rowptr()
            self._rowcount = pointers[1:] - pointers[:-1]
        return self._rowcount

    def colcount(self):
        if self._colcount is None:
            self._colcount = torch.bincount(self._col, minlength=self._sparse_sizes[1])
        return self._colcount

    def csr2csc(self):
        if self._csr2csc is None:
            self._csr2csc = (self._sparse_sizes[0] * self._col + self.row()).argsort()
        return self._csr2csc

    def colptr(self):
        if self._colptr is None:
            counts = self.colcount()
            self._colptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return self._colptr

    def sparse_sizes(self):
        return self._sparse_sizes

    def set_value(self, value, layout=None):
        return SparseStorage(
            row=self._row, rowptr=self._rowptr, col=self._col, value=value, sparse_sizes=self._sparse_sizes,
            rowcount=self._rowcount, colptr=self._colptr, colcount=self._colcount,
            csr2csc=self._csr2csc, csc2csr=self._csc2csr, is_sorted=True, trust_data=True,
        )  # fmt: skip


class SparseTensor:
    """A sparse matrix."""

    def __init__(
        self, row=None, rowptr=None, col=None, value=None, sparse_sizes=None, is_sorted=False,
        trust_data=False,
    ):  # fmt: skip
        self.storage = SparseStorage(
            row=row, rowptr=rowptr, col=col, value=value, sparse_sizes=sparse_sizes, is_sorted=is_sorted,
            trust_data=trust_data,
        )  # fmt: skip

    @classmethod
    def from_storage(cls, storage):
        made = cls(
            row=storage._row, rowptr=storage._rowptr, col=storage._col, value=storage._value,
            sparse_sizes=storage._sparse_sizes, is_sorted=True, trust_data=True,
        )  # fmt: skip
        made.storage = storage
        return made

    @classmethod
    def from_edge_index(
        cls, edge_index, edge_attr=None, sparse_sizes=None, is_sorted=False, trust_data=False
    ):
        return cls(
            row=edge_index[0], col=edge_index[1], value=edge_attr, sparse_sizes=sparse_sizes,
            is_sorted=is_sorted, trust_data=trust_data,
        )  # fmt: skip

    def coo(self):
        return self.storage.row(), self.storage.col(), self.storage.value()

    def csr(self):
        return self.storage.rowptr(), self.storage.col(), self.storage.value()

    def sizes(self):
        return list(self.storage.sparse_sizes())

    def sparse_sizes(self):
        return self.storage.sparse_sizes()

    def size(self, dim):
        return self.sizes()[dim]

    def sparse_size(self, dim):
        return self.sizes()[dim]

    def dim(self):
        return 2

    def nnz(self):
        return self.storage.col().numel()

    def has_value(self):
        return self.storage.value() is not None

    def dtype(self):
        return torch.float if self.storage.value() is None else self.storage.value().dtype

    def set_value(self, value, layout=None):
        return SparseTensor.from_storage(self.storage.set_value(value, layout))

    def fill_value(self, fill_value, dtype=None):
        return self.set_value(torch.full((self.nnz(),), fill_value, dtype=dtype), "coo")

    def t(self):
        perm = self.storage.csr2csc()
        value = self.storage.value()
        return SparseTensor(
            row=self.storage.col()[perm], col=self.storage.row()[perm],
            value=None if value is None else value[perm], sparse_sizes=self.sparse_sizes()[::-1],
            is_sorted=True, trust_data=True,
        )  # fmt: skip

    def __matmul__(self, other):
        return matmul(self, other)

    def matmul(self, other, reduce="sum"):
        return matmul(self, other, reduce)

    def sum(self, dim=None):
        return reduction(self, dim, "sum")

    def mean(self, dim=None):
        return reduction(self, dim, "mean")

    def __mul__(self, other):
        return mul(self, other)

    def set_diag(self, values=None, k=0):
        return set_diag(self, values, k)

    def fill_diag(self, fill_value, k=0):
        return fill_diag(self, fill_value, k)

    def remove_diag(self, k=0):
        return remove_diag(self, k)


def spmm_sum(src: SparseTensor, other: Tensor) -> Tensor:
    rowptr, col, value = src.csr()
    value = torch.ones(len(col), dtype=other.dtype) if value is None else value.to(other.dtype)
    return torch.sparse_csr_tensor(rowptr, col, value, src.sizes()) @ other


def _every(src: SparseTensor, other: Tensor, reduce: str) -> Tensor:
    rowptr, col, value = src.csr()
    rows = other[col] if value is None else other[col] * value.to(other.dtype).unsqueeze(-1)
    parts = [rows[a:b] for a, b in zip(rowptr[:-1].tolist(), rowptr[1:].tolist(), strict=True)]
    zeros = other.new_zeros(other.size(1))
    return torch.stack([getattr(p, f"a{reduce}")(0) if len(p) else zeros for p in parts])


def spmm_mean(src: SparseTensor, other: Tensor) -> Tensor:
    return spmm_sum(src, other) / src.storage.rowcount().clamp(min=1).unsqueeze(-1).to(other.dtype)


def spmm_min(src: SparseTensor, other: Tensor) -> tuple[Tensor, Tensor]:
    return _every(src, other, "min"), other.new_zeros(0)


def spmm_max(src: SparseTensor, other: Tensor) -> tuple[Tensor, Tensor]:
    return _every(src, other, "max"), other.new_zeros(0)


def matmul(src, other, reduce="sum"):
    kernels = {"sum": spmm_sum, "add": spmm_sum, "mean": spmm_mean}
    if reduce in kernels:
        return kernels[reduce](src, other)
    return {"min": spmm_min, "max": spmm_max}[reduce](src, other)[0]


def reduction(src: SparseTensor, dim: Any = None, reduce: str = "sum") -> Tensor:
    value = src.storage.value()
    if dim in (0, -2):
        if value is None:
            return src.storage.colcount().to(src.dtype())
        return scatter(value, src.storage.col(), 0, None, src.size(1), reduce)
    if value is None:
        return src.storage.rowcount().to(src.dtype())
    return segment_csr(value, src.storage.rowptr(), None, reduce)


def mul(src: SparseTensor, other: Tensor) -> SparseTensor:
    rowptr, col, value = src.csr()
    if other.size(0) == src.size(0) and other.size(1) == 1:
        other = gather_csr(other.squeeze(1), rowptr)
    else:
        other = other.squeeze(0)[col]
    return src.set_value(other if value is None else other.to(value.dtype).mul_(value), "coo")


def remove_diag(src: SparseTensor, k: int = 0) -> SparseTensor:
    row, col, value = src.coo()
    keep = row != col
    value = None if value is None else value[keep]
    return SparseTensor(
        row=row[keep], col=col[keep], value=value, sparse_sizes=src.sparse_sizes(), is_sorted=True
    )


def set_diag(src: SparseTensor, values: Tensor | None = None, k: int = 0) -> SparseTensor:
    src = remove_diag(src)
    row, col, value = src.coo()
    n = src.size(0)
    mask = torch.zeros(len(row) + n, dtype=torch.bool)
    mask[torch.arange(len(row)) + row + (row < col).long()] = True
    made = []
    for old in (row, col):
        new = row.new_empty(len(mask))
        new[mask], new[~mask] = old, torch.arange(n)
        made.append(new)
    new_value = None
    if value is not None:
        new_value = value.new_empty(len(mask))
        new_value[mask] = value
        new_value[~mask] = value.new_ones(n) if values is None else values
    return SparseTensor(
        row=made[0], col=made[1], value=new_value, sparse_sizes=src.sparse_sizes(), is_sorted=True
    )


def fill_diag(src: SparseTensor, fill_value: float, k: int = 0) -> SparseTensor:
    value = src.storage.value()
    return set_diag(src, None if value is None else value.new_full((src.size(0),), fill_value), k)


def broadcast(src: Tensor, other: Tensor, dim: int) -> Tensor:
    dim = dim % other.dim()
    if src.dim() == 1:
        src = src.view([-1 if k == dim else 1 for k in range(other.dim())])
    return src.expand(other.size())


def scatter_sum(src, index, dim=-1, out=None, dim_size=None):
    index = broadcast(index, src, dim)
    if out is None:
        size = list(src.size())
        size[dim] = int(index.max()) + 1 if dim_size is None else dim_size
        out = torch.zeros(size, dtype=src.dtype)
    return out.scatter_add_(dim, index, src)


def scatter_add(src, index, dim=-1, out=None, dim_size=None):
    return scatter_sum(src, index, dim, out, dim_size)


def _kernel(src, index, dim, dim_size, reduce):
    """The reduced groups, and where each extremum stands; the size of the axis in a group without rows."""
    size = int(index.max()) + 1 if dim_size is None else dim_size
    src, index = src.movedim(dim, 0), broadcast(index, src, dim).movedim(dim, 0)
    index = index if index.dim() == 1 else index.flatten(1)[:, 0]
    counts = torch.bincount(index, minlength=size)
    rows = src[index.argsort(stable=True)].contiguous()
    made = torch.segment_reduce(rows, reduce, lengths=counts, unsafe=True)
    made[counts == 0] = float(reduce == "prod")
    at = torch.arange(len(src)).view(-1, *[1] * (src.dim() - 1))
    at = torch.where(src == made[index], at, len(src))
    place = torch.full_like(made, len(src), dtype=torch.long)
    place.index_reduce_(0, index, at, "amin")
    return made.movedim(0, dim), place.movedim(0, dim)


def scatter_mul(src, index, dim=-1, out=None, dim_size=None):
    return _kernel(src, index, dim, dim_size, "prod")[0]


def scatter_mean(src, index, dim=-1, out=None, dim_size=None):
    out = scatter_sum(src, index, dim, out, dim_size)
    count = scatter_sum(torch.ones_like(src), index, dim, None, out.size(dim))
    count[count < 1] = 1
    return out.true_divide_(count)


def scatter_min(src, index, dim=-1, out=None, dim_size=None):
    return _kernel(src, index, dim, dim_size, "min")


def scatter_max(src, index, dim=-1, out=None, dim_size=None):
    return _kernel(src, index, dim, dim_size, "max")


def scatter(src, index, dim=-1, out=None, dim_size=None, reduce="sum"):
    if reduce in ("sum", "add"):
        return scatter_sum(src, index, dim, out, dim_size)
    if reduce == "mean":
        return scatter_mean(src, index, dim, out, dim_size)
    if reduce == "mul":
        return scatter_mul(src, index, dim, out, dim_size)
    return {"min": scatter_min, "max": scatter_max}[reduce](src, index, dim, out, dim_size)[0]


def scatter_softmax(src, index, dim=-1, dim_size=None):
    index = broadcast(index, src, dim)
    largest = scatter_max(src, index, dim=dim, dim_size=dim_size)[0]
    scores = (src - largest.gather(dim, index)).exp_()
    total = scatter_sum(scores, index, dim, dim_size=dim_size)
    return scores.div(total.gather(dim, index))


def segment_sum_csr(src, indptr, out=None):
    counts = indptr[1:] - indptr[:-1]
    row = torch.arange(len(counts)).repeat_interleave(counts)
    return src.new_zeros(len(counts), *src.shape[1:]).index_add_(0, row, src)


def segment_mean_csr(src, indptr, out=None):
    counts = (indptr[1:] - indptr[:-1]).clamp(min=1).to(src.dtype)
    return segment_sum_csr(src, indptr) / counts.view(-1, *[1] * (src.dim() - 1))


def segment_csr(src, indptr, out=None, reduce="sum"):
    return (segment_mean_csr if reduce == "mean" else segment_sum_csr)(src, indptr, out)


def gather_csr(src, indptr, out=None):
    counts = indptr[1:] - indptr[:-1]
    return src[torch.arange(len(counts)).repeat_interleave(counts)]


PARTS = {
    "torch_sparse.storage": [SparseStorage],
    "torch_sparse.tensor": [SparseTensor],
    "torch_sparse.matmul": [spmm_sum, spmm_mean, spmm_min, spmm_max, matmul],
    "torch_sparse.reduce": [reduction],
    "torch_sparse.mul": [mul],
    "torch_sparse.diag": [remove_diag, set_diag, fill_diag],
    "torch_scatter.scatter": [
        scatter_sum, scatter_add, scatter_mul, scatter_mean, scatter_min, scatter_max, scatter,
    ],
    "torch_scatter.composite": [scatter_softmax],
    "torch_scatter.segment_csr": [segment_sum_csr, segment_mean_csr, segment_csr, gather_csr],
}  # fmt: skip


def install() -> None:
    """Register the modules, where the real packages are not there."""
    for name, members in PARTS.items():
        package = name.partition(".")[0]
        for each in (package, name):
            if each not in sys.modules:
                sys.modules[each] = ModuleType(each)
        for member in members:
            setattr(sys.modules[name], member.__name__, member)
            setattr(sys.modules[package], member.__name__, member)
