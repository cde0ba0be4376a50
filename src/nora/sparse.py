"""Sparse matrices of torch, without its warnings that they are in beta."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch_geometric.utils import to_torch_csr_tensor

SPARSE_BELOW = 0.1

# torch says once per process that sparse matrices are in beta and unchecked. Here it is said to nobody;
# catching it around every use would not be safe in threads.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    to_torch_csr_tensor(torch.zeros(2, 1, dtype=torch.long), torch.ones(1), size=(1, 1))


def sparse_where_sparse(x: Tensor) -> Tensor:
    """Features `[N, F]` in CSR layout when few of them are not zero, else `x` itself."""
    if x.layout != torch.strided or (x != 0).float().mean() >= SPARSE_BELOW:
        return x
    return x.to_sparse_csr()


def sparse_matrix(rows_and_columns: Tensor, values: Tensor, size: int) -> Tensor:
    """A CSR matrix `[size, size]` from indices `[2, E]` and values `[E]`; duplicates add up."""
    return to_torch_csr_tensor(rows_and_columns, values, size=(size, size))


def csr_matrix(ptr: Tensor, column: Tensor, values: Tensor, width: int) -> Tensor:
    """A CSR matrix `[rows, width]` from row ends `[rows + 1]`, columns and values, unchecked."""
    return torch.sparse_csr_tensor(
        ptr, column, values, size=(len(ptr) - 1, width), check_invariants=False
    )
