"""Sparse matrices of torch, without its warnings that they are in beta."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch_geometric.utils import to_torch_csr_tensor

SPARSE_BELOW = 0.1


def sparse_where_sparse(x: Tensor) -> Tensor:
    """Features `[N, F]` in CSR layout when few of them are not zero, else `x` itself."""
    if x.layout != torch.strided or (x != 0).float().mean() >= SPARSE_BELOW:
        return x
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")
        return x.to_sparse_csr()


def sparse_matrix(rows_and_columns: Tensor, values: Tensor, size: int) -> Tensor:
    """A CSR matrix `[size, size]` from indices `[2, E]` and values `[E]`; duplicates add up."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")
        return to_torch_csr_tensor(rows_and_columns, values, size=(size, size))


def csr_matrix(ptr: Tensor, column: Tensor, values: Tensor, width: int) -> Tensor:
    """A CSR matrix `[rows, width]` from row ends `[rows + 1]`, columns and values, unchecked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")
        return torch.sparse_csr_tensor(
            ptr, column, values, size=(len(ptr) - 1, width), check_invariants=False
        )
