"""Sparse matrices of torch, without its warnings that they are in beta."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import to_torch_csr_tensor

SPARSE_BELOW = 0.1

# torch says once per process that sparse matrices are in beta and unchecked. Here the warning is dropped;
# catching it around every use would not be safe in threads.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    to_torch_csr_tensor(torch.zeros(2, 1, dtype=torch.long), torch.ones(1), size=(1, 1))


def sparse_where_sparse(x: Tensor) -> Tensor:
    """Features `[N, F]` in CSR layout when few of them are not zero, else `x` itself."""
    if x.layout != torch.strided or not is_sparse(x):
        return x
    return x.to_sparse_csr()


def is_sparse(x: Tensor) -> bool:
    """Whether few entries of a dense matrix are not zero."""
    return x.dim() == 2 and int(x.count_nonzero()) < SPARSE_BELOW * x.numel()


def sparse_matrix(rows_and_columns: Tensor, values: Tensor, size: int) -> Tensor:
    """A CSR matrix `[size, size]` from indices `[2, E]` and values `[E]`; duplicates add up."""
    return to_torch_csr_tensor(rows_and_columns, values, size=(size, size))


def csr_matrix(ptr: Tensor, column: Tensor, values: Tensor, width: int) -> Tensor:
    """A CSR matrix `[rows, width]` from row ends `[rows + 1]`, columns and values, unchecked."""
    return torch.sparse_csr_tensor(
        ptr, column, values, size=(len(ptr) - 1, width), check_invariants=False
    )


@dataclass(frozen=True, eq=False)
class FixedMatrix:
    """A sparse matrix that does not change, with its transpose: products with it can be differentiated.

    Attributes:
        forth: `[rows, columns]`, CSR.
        back: Its transpose, CSR.
    """

    forth: Tensor
    back: Tensor

    def __matmul__(self, dense: Tensor) -> Tensor:
        """`A @ dense`, `[rows, width]`; gradients go to `dense` only."""
        return _Product.apply(dense, self)

    @classmethod
    def of(cls, matrix: Tensor) -> FixedMatrix:
        """Of a CSR matrix."""
        return cls(matrix, matrix.to_sparse_csc().t())

    def rows(self, chosen: Tensor) -> FixedMatrix:
        """Some rows of it, in the order of `chosen` `[n]`."""
        ptr, columns = self.forth.crow_indices(), self.forth.col_indices()
        count = (ptr[1:] - ptr[:-1])[chosen]
        start = torch.cat([count.new_zeros(1), count.cumsum(0)])
        steps = torch.arange(int(start[-1])) - start[:-1].repeat_interleave(count)
        entry = ptr[:-1][chosen].repeat_interleave(count) + steps
        width = self.forth.size(1)
        return FixedMatrix.of(csr_matrix(start, columns[entry], self.forth.values()[entry], width))


def fixed_matrix(place: Tensor, values: Tensor, size: tuple[int, int]) -> FixedMatrix:
    """From rows and columns `[2, n]` and values `[n]`; duplicates add up."""
    return FixedMatrix(
        to_torch_csr_tensor(place, values, size=size),
        to_torch_csr_tensor(place.flip(0), values, size=(size[1], size[0])),
    )


class _Product(torch.autograd.Function):
    """`A @ dense` for a fixed `A`; only `A` is saved for the backward pass."""

    @staticmethod
    def forward(context: Any, dense: Tensor, matrix: FixedMatrix) -> Tensor:
        context.matrix = matrix
        return matrix.forth @ dense

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.matrix.back @ gradient.contiguous(), None


def expanded(
    indptr: Tensor, rows: Tensor, end: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """CSR positions of all entries of `rows`: `owner [K]`, `position [K]`, `ptr [len(rows)+1]`.

    Args:
        indptr: Where every row begins.
        rows: The rows.
        end: Where every row ends; by default, where the next one begins.
    """
    counts = (indptr[rows + 1] if end is None else end[rows]) - indptr[rows]
    ptr = torch.zeros(len(rows) + 1, dtype=torch.long, device=rows.device)
    ptr[1:] = counts.cumsum(0)
    owner = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
    position = torch.arange(len(owner), device=rows.device) - ptr[owner] + indptr[rows[owner]]
    return owner, position, ptr
