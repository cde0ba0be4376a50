"""Samples of operations between nodes and edges: each as models write it, and the same by loops or matrices.

torch's own samples (`op_samples.py`) have no edges. A sample is a function of rows `[N, …]` and edges; its
oracle says the same without the operations that are tried. Both also serve the fuzzer (`fuzz/samples.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import coalesce, degree, to_torch_coo_tensor, to_torch_csr_tensor

import sparse_stand_in

sparse_stand_in.install()

import torch_scatter  # noqa: E402
import torch_sparse  # noqa: E402
from torch_sparse import SparseTensor, matmul  # noqa: E402

Function = Callable[[Tensor, Tensor], Tensor]
SINGLE, DOUBLE, HALF, WHOLE = torch.float, torch.double, torch.bfloat16, torch.long
# Products with matrices are of two axes, and compressed ones not of half precision.
_PLAIN: dict[str, Any] = {"dims": (2,), "dtypes": (DOUBLE, SINGLE)}


@dataclass(frozen=True)
class EdgeSample:
    """An operation between nodes and edges.

    Attributes:
        function: The operation, from rows `[N, …]` and edges `[2, E]` to rows.
        oracle: The same by loops or dense matrices.
        dims: How many axes rows may have.
        dtypes: Their types; oracles compute in double precision, or in whole numbers.
    """

    function: Function
    oracle: Function
    dims: tuple[int, ...] = (1, 2, 3)
    dtypes: tuple[torch.dtype, ...] = (DOUBLE, SINGLE, HALF)


SAMPLES: dict[str, EdgeSample] = {}


def add(name: str, function: Function, oracle: Function, **more: Any) -> None:
    """Register a sample."""
    SAMPLES[name] = EdgeSample(function, oracle, **more)


def flat(rows: Tensor) -> Tensor:
    """Rows `[N, F]`."""
    return rows.reshape(len(rows), -1)


def by_loop(x: Tensor, edges: Tensor, reduce: str) -> Tensor:
    """Every node's sources, reduced one after the other; 0 for none, 1 for none of a product."""
    out = []
    for node in range(len(x)):
        sources = [x[s] for s, t in edges.t().tolist() if t == node]
        nothing = torch.full_like(x[0], int(reduce in ("mul", "prod"))) if len(x) else x
        kind = {"max": "amax", "min": "amin", "mul": "prod"}.get(reduce, reduce)
        out.append(getattr(torch.stack(sources), kind)(0) if sources else nothing)
    return torch.stack(out)


def dense(edges: Tensor, x: Tensor, weight: Tensor | None = None) -> Tensor:
    """The matrix `[target, source]` of numbers of edges, or of sums of their weights."""
    matrix = x.new_zeros(len(x), len(x))
    for at, (s, t) in enumerate(edges.t().tolist()):
        matrix[t, s] += 1 if weight is None else weight[at]
    return matrix


def times(matrix: Tensor, x: Tensor) -> Tensor:
    """A matrix with rows of any shape."""
    return (matrix @ flat(x)).view(x.shape)


def adjacency(x: Tensor, edges: Tensor, value: Tensor | None = None) -> SparseTensor:
    """A `SparseTensor` of the graph, targets in rows."""
    return SparseTensor(row=edges[1], col=edges[0], value=value, sparse_sizes=(len(x), len(x)))


def per_row(numbers: Tensor, x: Tensor) -> Tensor:
    """A number of every node beside its row."""
    return numbers.to(x.dtype).view(-1, *[1] * (x.dim() - 1))


def around(x: Tensor, edges: Tensor) -> Tensor:
    """A node's own row and its neighbours' sum, half each: what a removal changes nearby."""
    return 0.5 * (x + torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]))


def around_dense(x: Tensor, edges: Tensor) -> Tensor:
    """The same by a matrix."""
    return 0.5 * (x + times(dense(edges, x), x))


def of_ends(x: Tensor, edges: Tensor) -> Tensor:
    """A weight of every edge by what its ends hold."""
    first = flat(x)[:, 0]
    return (first[edges[0]] * first[edges[1]]).tanh() + 1.5


# ---------------------------------------------------------------- SparseTensor

for _reduce in ("sum", "mean", "min", "max"):
    add(
        f"SparseTensor matmul {_reduce}",
        lambda x, e, r=_reduce: matmul(adjacency(x, e), x, reduce=r),
        lambda x, e, r=_reduce: by_loop(x, e, r),
        **_PLAIN,
    )
add(
    "SparseTensor of weights",
    lambda x, e: adjacency(x, e, of_ends(x, e)) @ x,
    lambda x, e: times(dense(e, x, of_ends(x, e)), x),
    **_PLAIN,
)
add(
    "SparseTensor transposed",
    lambda x, e: matmul(adjacency(x, e, of_ends(x, e)).t(), x),
    lambda x, e: times(dense(e, x, of_ends(x, e)).t(), x),
    **_PLAIN,
)
add(
    "SparseTensor from_edge_index",
    lambda x, e: matmul(SparseTensor.from_edge_index(e, sparse_sizes=(len(x), len(x))), x),
    lambda x, e: times(dense(e, x).t(), x),
    **_PLAIN,
)
add(
    "SparseTensor set_diag",
    lambda x, e: adjacency(x, e, of_ends(x, e)).set_diag() @ x,
    lambda x, e: times(dense(e, x, of_ends(x, e)).fill_diagonal_(1), x),
    **_PLAIN,
)
add(
    "SparseTensor sums of rows",
    lambda x, e: x / (1 + adjacency(x, e, of_ends(x, e)).sum(dim=1)).view(-1, 1),
    lambda x, e: x / (1 + dense(e, x, of_ends(x, e)).sum(1)).view(-1, 1),
    **_PLAIN,
)
add(
    "SparseTensor counts of columns",
    lambda x, e: x / per_row(1 + torch_sparse.reduction(adjacency(x, e), dim=0), x),
    lambda x, e: x / per_row(1 + dense(e, x).sum(0), x),
)
add(
    "SparseTensor times rows",
    lambda x, e: torch_sparse.mul(adjacency(x, e).fill_value(1.0, dtype=x.dtype), x[:, :1]) @ x,
    lambda x, e: times(dense(e, x) * x[:, :1], x),
    **_PLAIN,
)

# ---------------------------------------------------------------- torch_scatter

for _reduce in ("sum", "mean", "min", "max", "mul"):
    add(
        f"torch_scatter {_reduce}",
        lambda x, e, r=_reduce: torch_scatter.scatter(x[e[0]], e[1], 0, dim_size=len(x), reduce=r),
        lambda x, e, r=_reduce: by_loop(x, e, r),
        dtypes=(DOUBLE, SINGLE) if _reduce == "mul" else (DOUBLE, SINGLE, HALF),
    )
for _reduce in ("sum", "max"):
    add(
        f"torch_scatter {_reduce} along the last axis",
        lambda x, e, r=_reduce: torch_scatter.scatter(
            x.t()[:, e[0]], e[1], -1, dim_size=len(x), reduce=r
        ).t(),
        lambda x, e, r=_reduce: by_loop(x, e, r),
        dims=(2,),
    )


def _softmax_oracle(x: Tensor, edges: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for node in range(len(x)):
        sources = [s for s, t in edges.t().tolist() if t == node]
        if sources:
            out[node] = (x[sources].softmax(0) * x[sources]).sum(0)
    return out


add(
    "torch_scatter softmax",
    lambda x, e: torch_scatter.scatter_add(
        torch_scatter.scatter_softmax(x[e[0]], e[1], 0, dim_size=len(x)) * x[e[0]],
        e[1],
        0,
        dim_size=len(x),
    ),
    _softmax_oracle,
    dtypes=(DOUBLE, SINGLE),
)


def _segments(x: Tensor, edges: Tensor, reduce: str) -> Tensor:
    pointers, column, _ = adjacency(x, edges).csr()
    return torch_scatter.segment_csr(x[column], pointers, reduce=reduce)


for _reduce in ("sum", "mean"):
    add(
        f"torch_scatter segments {_reduce}",
        lambda x, e, r=_reduce: _segments(x, e, r),
        lambda x, e, r=_reduce: by_loop(x, e, r),
    )


def _read_by_pointers(x: Tensor, edges: Tensor) -> Tensor:
    pointers, column, _ = adjacency(x, edges).csr()
    near = torch_scatter.gather_csr(x, pointers)
    return torch_scatter.scatter_add(near * x[column], column, 0, dim_size=len(x))


add("torch_scatter gather_csr", _read_by_pointers, lambda x, e: x * times(dense(e, x).t(), x))

# ---------------------------------------------------------------- linear attention

add(
    "linear attention",
    lambda x, e: (y := around(x, e)) @ (y.t() @ y) / 9,
    lambda x, e: ((y := around_dense(x, e)) @ y.t()) @ y / 9,
    dims=(2,),
    dtypes=(DOUBLE, SINGLE),
)


def _heads(x: Tensor, edges: Tensor) -> Tensor:
    q = k = around(x, edges).sigmoid()
    top = torch.einsum("nhd,hde->nhe", q, torch.einsum("nhd,nhe->hde", k, x))
    return top / torch.einsum("nhd,hd->nh", q, k.sum(0)).unsqueeze(-1)


def _heads_oracle(x: Tensor, edges: Tensor) -> Tensor:
    y = around_dense(x, edges).sigmoid()
    out = torch.zeros_like(x)
    for head in range(x.size(1)):
        score = y[:, head] @ y[:, head].t()
        out[:, head] = score @ x[:, head] / score.sum(1, keepdim=True)
    return out


add("linear attention of heads", _heads, _heads_oracle, dims=(3,), dtypes=(DOUBLE, SINGLE))
add(
    "linear attention by the largest",
    lambda x, e: (y := (around(x, e) - x.amax(0)).exp()) @ (y.t() @ x),
    lambda x, e: (
        (y := (around_dense(x, e) - torch.stack([c.max() for c in x.t()])).exp()) @ y.t() @ x
    ),
    dims=(2,),
    dtypes=(DOUBLE, SINGLE),
)
add(
    "squares of all rows",
    lambda x, e: (y := around(x, e)) / (1 + torch.norm(y, p=2)),
    lambda x, e: (y := around_dense(x, e)) / (1 + (y * y).sum().sqrt()),
    dtypes=(DOUBLE, SINGLE),
)

# ---------------------------------------------------------------- masks by value


def written(write: Callable[[Tensor, Tensor], Any], which: Callable[[Tensor], Tensor]) -> Function:
    """What nodes and neighbours hold, with `write(rows, mask)` done to it in place."""

    def function(x: Tensor, edges: Tensor) -> Tensor:
        y = around(x, edges)
        write(y, which(y))
        return y

    return function


def one_by_one(change: Callable[[Tensor], Tensor], which: Callable[[Tensor], Tensor]) -> Function:
    """The same row by row."""

    def oracle(x: Tensor, edges: Tensor) -> Tensor:
        y = around_dense(x, edges)
        rows = [change(y[at]) if bool(which(y[at : at + 1])[0]) else y[at] for at in range(len(y))]
        return torch.stack(rows)

    return oracle


def first_positive(y: Tensor) -> Tensor:
    """Rows whose first entry is positive."""
    return flat(y)[:, 0] > 0


def every(y: Tensor) -> Tensor:
    """All rows, whatever they hold."""
    return flat(y)[:, 0] > -1e9


def none(y: Tensor) -> Tensor:
    """No row."""
    return flat(y)[:, 0] > 1e9


def _add(y: Tensor, mask: Tensor) -> None:
    y[mask] += 1


def _fill(y: Tensor, mask: Tensor) -> None:
    y[mask] = 0.5


def _double(y: Tensor, mask: Tensor) -> None:
    y[mask] = y[mask] * 2 + 1


def _by_numbers(y: Tensor, mask: Tensor) -> None:
    at = mask.nonzero().squeeze(1)
    y[at] = y[at].tanh()


def _by_tuple(y: Tensor, mask: Tensor) -> None:
    at = torch.where(mask)
    y[at] = y[at] / 2


def _index_fill(y: Tensor, mask: Tensor) -> None:
    y.index_fill_(0, mask.nonzero().view(-1), 0.25)


def _index_copy(y: Tensor, mask: Tensor) -> None:
    at = mask.nonzero().view(-1)
    y.index_copy_(0, at, y.index_select(0, at) - 1)


def _mapped(y: Tensor, mask: Tensor) -> None:
    y[mask] = y[mask] @ torch.eye(3, dtype=y.dtype).flip(0)


for _name, _write, _change, _dims in (
    ("+=", _add, lambda row: row + 1, (1, 2, 3)),
    ("fill", _fill, lambda row: torch.full_like(row, 0.5), (1, 2, 3)),
    ("double", _double, lambda row: row * 2 + 1, (1, 2, 3)),
    ("nonzero", _by_numbers, torch.tanh, (1, 2, 3)),
    ("where", _by_tuple, lambda row: row / 2, (1, 2, 3)),
    ("index_fill", _index_fill, lambda row: torch.full_like(row, 0.25), (1, 2, 3)),
    ("index_copy", _index_copy, lambda row: row - 1, (1, 2, 3)),
    ("mapped", _mapped, lambda row: row.flip(-1), (2,)),
):
    for _which in (first_positive, every, none):
        add(
            f"mask by value {_name}, {_which.__name__}",
            written(_write, _which),
            one_by_one(_change, _which),
            dims=_dims,
            dtypes=(DOUBLE, SINGLE),
        )
add(
    "mask of entries",
    lambda x, e: (y := around(x, e)).masked_fill(y > 0.3, 0.3),
    lambda x, e: around_dense(x, e).clamp(max=0.3),
    dtypes=(DOUBLE, SINGLE),
)

# ---------------------------------------------------------------- buckets and counts of degrees


def counts(edges: Tensor, x: Tensor) -> list[int]:
    """How many edges lead to every node, by a loop."""
    targets = edges[1].tolist()
    return [targets.count(node) for node in range(len(x))]


def by_count(function: Callable[[int], float]) -> Function:
    """Every row times a function of its node's number of edges."""

    def oracle(x: Tensor, edges: Tensor) -> Tensor:
        return x * per_row(torch.tensor([function(n) for n in counts(edges, x)]), x)

    return oracle


BOUNDS = (0.5, 1.0, 2.0, 3.0)


def _degree(x: Tensor, edges: Tensor) -> Tensor:
    return degree(edges[1], len(x), dtype=torch.double)


def _looked_up(x: Tensor, edges: Tensor) -> Tensor:
    table = torch.tensor([1.0, 2.0, -1.0, 0.5])
    return x * per_row(F.embedding(_degree(x, edges).long().clamp(max=3), table.view(-1, 1)), x)


add(
    "bincount",
    lambda x, e: x * per_row(torch.bincount(e[1], minlength=len(x)), x),
    by_count(float),
    dtypes=(DOUBLE, SINGLE, HALF, WHOLE),
)
for _right in (False, True):
    add(
        f"bucketize, right={_right}",
        lambda x, e, r=_right: (
            x * per_row(torch.bucketize(_degree(x, e), torch.tensor(BOUNDS).double(), right=r), x)
        ),
        by_count(lambda n, r=_right: sum(b <= n if r else b < n for b in BOUNDS)),
        dtypes=(DOUBLE, SINGLE, HALF, WHOLE),
    )
add(
    "searchsorted",
    lambda x, e: x * per_row(torch.searchsorted(torch.tensor(BOUNDS).double(), _degree(x, e)), x),
    by_count(lambda n: sum(b < n for b in BOUNDS)),
)
add(
    "one_hot",
    lambda x, e: (
        x * per_row(F.one_hot(_degree(x, e).long().clamp(max=3), 4) @ torch.tensor([1, 5, 2, 3]), x)
    ),
    by_count(lambda n: [1, 5, 2, 3][min(n, 3)]),
)
add("a table by degree", _looked_up, by_count(lambda n: [1.0, 2.0, -1.0, 0.5][min(n, 3)]))

# ---------------------------------------------------------------- random numbers that are not read


def _unread(x: Tensor, edges: Tensor) -> Tensor:
    noise = torch.randn_like(x)
    mask = torch.bernoulli(torch.full((len(x),), 0.5))
    y = around(x, edges)
    return y * per_row(mask, y) + noise if torch.is_grad_enabled() else y


add("random numbers that are not read", _unread, around_dense, dtypes=(DOUBLE, SINGLE))
add(
    "dropout that is off",
    lambda x, e: around(F.dropout(x, 0.5, training=False), e),
    around_dense,
    dtypes=(DOUBLE, SINGLE),
)

# ---------------------------------------------------------------- matrices of torch


def coo(x: Tensor, edges: Tensor) -> Tensor:
    """The graph's matrix with a weight of every edge by its ends."""
    return torch.sparse_coo_tensor(edges.flip(0), of_ends(x, edges), (len(x), len(x)))


def weighted(x: Tensor, edges: Tensor) -> Tensor:
    """The oracle of a product with it."""
    return times(dense(edges, x, of_ends(x, edges)), x)


for _name, _function in (
    ("coo @", lambda x, e: coo(x, e) @ x),
    ("torch.sparse.mm", lambda x, e: torch.sparse.mm(coo(x, e), x)),
    ("torch.spmm, coalesced", lambda x, e: torch.spmm(coo(x, e).coalesce(), x)),
    ("to_sparse_csr", lambda x, e: coo(x, e).to_sparse_csr() @ x),
    ("addmm", lambda x, e: torch.sparse.addmm(x, coo(x, e), x) - x),
    ("one column", lambda x, e: torch.cat([coo(x, e) @ x[:, k : k + 1] for k in range(3)], 1)),
):
    add(f"matrix, {_name}", _function, weighted, **_PLAIN)
add(
    "matrix, transposed",
    lambda x, e: coo(x, e).t() @ x,
    lambda x, e: times(dense(e, x, of_ends(x, e)).t(), x),
    **_PLAIN,
)
for _make in (to_torch_coo_tensor, to_torch_csr_tensor):
    add(
        f"matrix, {_make.__name__}",
        lambda x, e, m=_make: m(e.flip(0), of_ends(x, e), size=len(x)) @ x,
        weighted,
        **_PLAIN,
    )


def _coalesced(x: Tensor, edges: Tensor) -> Tensor:
    edges, weight = coalesce(edges, of_ends(x, edges), num_nodes=len(x), reduce="mean")
    return torch.zeros_like(x).index_add(0, edges[1], weight.unsqueeze(1) * x[edges[0]])


add(
    "coalesce",
    _coalesced,
    lambda x, e: times(dense(e, x, of_ends(x, e)) / dense(e, x).clamp(min=1), x),
    **_PLAIN,
)

# ---------------------------------------------------------------- slices of the node axis


def joined(take: Callable[[Tensor, int], Tensor]) -> Function:
    """Rows and their tanh, joined and taken apart again."""
    return lambda x, e: take(torch.cat([around(x, e), around(x, e).tanh()]), len(x))


add("the first of joined rows", joined(lambda both, n: both[:n]), around_dense)
add(
    "the last of joined rows",
    joined(lambda both, n: both[n:]),
    lambda x, e: around_dense(x, e).tanh(),
)
add(
    "joined rows, split",
    joined(lambda both, n: (p := torch.split(both, [n, n]))[0] + p[1]),
    lambda x, e: (y := around_dense(x, e)) + y.tanh(),
)
add(
    "joined rows, narrowed",
    joined(lambda both, n: both.narrow(0, n, n)),
    lambda x, e: around_dense(x, e).tanh(),
)


def graphs() -> dict[str, tuple[int, Tensor]]:
    """Numbers of nodes, and edges: hubs and a node alone; loops and pairs of edges; hardly any."""
    mixed = [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (1, 0),
        (2, 0),
        (3, 5),
        (5, 6),
        (6, 7),
        (7, 1),
        (4, 6),
        (2, 7),
    ]
    twice = [*mixed, (3, 3), (5, 5), (0, 2), (6, 7), (6, 7), (8, 0)]
    few = [(1, 2), (4, 0)]
    return {
        name: (9, torch.tensor(pairs).t().contiguous())
        for name, pairs in {"mixed": mixed, "loops and duplicates": twice, "few": few}.items()
    }  # fmt: skip


def rows_of(n: int, dim: int, dtype: torch.dtype) -> Tensor:
    """Rows to try a sample on."""
    dice = torch.Generator().manual_seed(0)
    shape = [n, *([2, 3][-(dim - 1) :] if dim > 1 else [])]
    if dtype == WHOLE:
        return torch.randint(-3, 4, shape, generator=dice)
    return torch.randn(shape, generator=dice, dtype=torch.double).to(dtype)


def variants(sample: EdgeSample) -> Sequence[tuple[str, int, torch.dtype]]:
    """Graphs, numbers of axes and types: everything once, beside the plainest of the others."""
    dim = 2 if 2 in sample.dims else sample.dims[0]
    found = [(name, dim, DOUBLE) for name in graphs()]
    found += [("mixed", other, DOUBLE) for other in sample.dims if other != dim]
    return found + [("mixed", dim, dtype) for dtype in sample.dtypes if dtype != DOUBLE]
