"""Estimates by importance sampling: of the rows that a removal changes, only a random sample is computed.

Every op that passes messages first bounds the importance of the change at each row, `b_k`, which costs one
number per message instead of a row. Row `k` is then computed with inclusion probability

    q_k = min(1, b_k / t)

and from there on its change has the Horvitz–Thompson weight `1 / q_k`: in the messages it sends, and in the
influence. So every sum is unbiased, given the rows before it. A sampled row is computed from all of its
messages, so activations and norms get real rows.

Each removal and op has its own threshold `t`. It is the largest for which the relative standard error of
`Σ b_k` is at most `error`, which is the tolerance after the last messages and a third of it before:

    Σ_{q_k < 1} b_k (t − b_k) ≤ (error · Σ b_k)²

So the relative error is the same for a leaf and a hub, and each op computes about `1 / error²` rows at most.
Sampling is systematic (one random number per removal and op, rows in a fixed order), which spreads the sample
evenly over the rows and has a smaller variance than independent choices.

Three rules limit the weight of single rows. A row whose share of `Σ b` exceeds a third of `error` is always
computed, and so are all rows of an op that reaches at most `1 / error` of them: such a row would rarely be
missed, but then everything it passes on would be missed too, and the sample would not show it. Importance
saturates at the size of a typical row, as predictions do, so that the loose bound of a hub does not hide all
others. And `q_k` is large enough to keep `change_k / q_k` below the size of the row itself, because
activations and predictions are not linear beyond that.

What is left to chance is known before any row is computed: under independent draws, the variance of the sum
of all `b_k` is `Σ b_k² (1 − q_k) / q_k`. All `b_k` are in the same unit, so it is added up over the
operations (`Tally.planned`). It becomes a part of the standard error (`calibration.py`), which without it
would miss the rows that were not sampled.

The sample depends only on the seed, the removal and the op, not on chunks, threads or shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nora.engine.exec.kernels.backend import Backend
from nora.engine.exec.kernels.row_sampling import BITS
from nora.engine.ir.changed_rows import ChangedRows, Frontier, SamplingBounds
from nora.engine.ir.edges import Edges
from nora.engine.ir.op import Op, Value
from nora.engine.ir.pointers import owner_of, ptr_of
from nora.graph.edit_batch import EditBatch

# Errors of inner ops are in rows of which absolute values are taken later, where they do not cancel.
INNER_ERROR = 1 / 3
# By its Horvitz–Thompson weight a row may move by this part of its own size: activations and predictions are
# not linear in more.
FARTHEST = 1.0
# Rows are not taken to be smaller than this part of a typical one.
SMALLEST_ROW = 0.1
# Receivers with more neighbours than this over the tolerance squared, at least FEW, turn to first order.
MANY, FEW = 0.05, 32


def _mixed(values: np.ndarray) -> np.ndarray:
    """Scrambled bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def edit_keys(edits: EditBatch) -> np.ndarray:
    """A number per removal that follows from what it removes, `[c]`."""
    keys = np.zeros(len(edits), dtype=np.uint64)
    np.add.at(
        keys,
        owner_of(edits.ptr.cpu()).numpy(),
        _mixed(edits.node.cpu().numpy().astype(np.uint64)),
    )
    if len(edits.edge):
        edges = edits.edge.cpu().numpy().astype(np.uint64) ^ np.uint64(0x5851F42D4C957F2D)
        np.add.at(keys, owner_of(edits.edge_ptr.cpu()).numpy(), _mixed(edges))
    return keys


@dataclass(frozen=True, eq=False)
class Sampling:
    """How rows are sampled.

    Attributes:
        tolerance: The relative error that is aimed at.
        seed: Seed of the draws.
        importance: How much the rows of every operation matter.
    """

    tolerance: float
    seed: int
    importance: Importance

    def of(self, edits: EditBatch) -> ChunkSampling:
        """The draws of a chunk of removals."""
        keys = edit_keys(edits)
        return ChunkSampling(self, keys, torch.zeros(len(keys), dtype=torch.double))


@dataclass(frozen=True, eq=False)
class ChunkSampling:
    """The sampling of one chunk.

    Attributes:
        sampling: How rows are sampled.
        keys: A number that identifies each removal `[c]`.
        planned: The variance of its sample so far, see `Tally.planned` `[c]`; ops add to it.
    """

    sampling: Sampling
    keys: np.ndarray
    planned: Tensor

    def start(self, op: int) -> Tensor:
        """The random start of each removal's systematic sample in an operation, `BITS` bits `[c]`."""
        salt = _mixed(
            np.array([(self.sampling.seed * 1_000_003 + op + 1) % 2**64], dtype=np.uint64)
        )
        return torch.from_numpy((_mixed(self.keys ^ salt) >> np.uint64(32)).astype(np.int64))

    @property
    def many(self) -> int:
        """Receivers with more neighbours follow small changes of their own scores to first order."""
        return max(int(MANY / max(self.sampling.tolerance, 1e-9) ** 2), FEW)

    def samples(self, op: Op) -> bool:
        """Whether an operation's rows are sampled; else all are computed."""
        return op in self.sampling.importance.rows

    def bounds(
        self, op: Op, share: Tensor | None, size: Tensor, also: Tensor, mass: Tensor
    ) -> SamplingBounds:
        """The bounds by which an operation's rows are sampled; see `SamplingBounds`."""
        importance = self.sampling.importance
        number = list(importance.rows).index(op)
        error = self.sampling.tolerance * (1.0 if op in importance.final else INNER_ERROR)
        rows, (most, least) = importance.rows[op], importance.limits[op]
        return SamplingBounds(share, size, also, mass, rows, most, least, error, self.start(number))

    def sampled(
        self,
        backend: Backend,
        edges: Edges,
        frontier: Frontier,
        more: ChangedRows,
        bounds: SamplingBounds,
    ) -> tuple[Frontier, ChangedRows, Tensor]:
        """A sample of the reached rows, those of `more` that are among them, and its weights `[T]`."""
        frontier, chance, planned = backend.sample(edges, frontier, bounds)
        self.planned.add_(planned.cpu())
        own = frontier.also >= 0
        if len(more) and not bool(own.all()):
            ptr = ptr_of(more.edit[own], len(more.ptr) - 1)
            more = ChangedRows(ptr, more.node[own], more.rows[own])
            frontier = replace(frontier, also=frontier.also[own])
        return frontier, more, 2.0**BITS / chance.double()


@dataclass(frozen=True, eq=False)
class Importance:
    """How much a change of a row matters for the predictions that count: its importance.

    Attributes:
        rows: By the op that makes the row, `[N]`; rows of other ops are not drawn.
        final: The ops that no messages follow.
        limits: `most` and `least` of `SamplingBounds`, by the op.
    """

    rows: dict[Op, Tensor]
    final: frozenset[Op]
    limits: dict[Op, tuple[float, Tensor]]


def importance_of(
    ops: Sequence[Op], output: Value, importance: Tensor, sampled_last: bool
) -> Importance:
    """How much a change of every row matters, for each op whose rows can be drawn.

    From the predictions backwards: a row matters as much as the rows that receive it, each by its share. Of
    ops without a rule for how rows pass through them, all rows matter equally.

    Args:
        ops: The program's.
        output: Its output.
        importance: How much each node's prediction matters `[N]`.
        sampled_last: Whether rows may be drawn that only row-wise maps follow.
    """
    known: dict[Value, Tensor] = {output: importance}
    direct = {output}
    sent = set[Value]()  # values that messages are made of
    final = set[Op]()
    rows, limits = dict[Op, Tensor](), dict[Op, tuple[float, Tensor]]()
    for op in reversed(ops):
        key, inputs = op.output, set(op.inputs)
        mine = known.pop(key, None)
        if mine is None or op.output.static:
            continue
        if key in direct and op.rowwise:
            direct |= inputs
        if key in sent or not op.rowwise:
            sent |= inputs
        nodes = op.output.space.size == len(importance)
        if op.samples and nodes and (sampled_last or key not in direct):
            rows[op] = mine
            limits[op] = _limits(op)
            if key not in sent:
                final.add(op)
        known_rule = nodes and (op.rowwise or op.samples)
        parts = (
            op.importances(mine) if known_rule else [torch.ones_like(importance)] * len(op.inputs)
        )
        for value, part in zip(op.inputs, parts, strict=True):
            known[value] = known[value] + part if value in known else part
    return Importance(rows, frozenset(final), limits)


def _limits(op: Op) -> tuple[float, Tensor]:
    """`most` and `least` of `SamplingBounds` for an operation's rows, from the original ones."""
    size = op.output.base_rows().flatten(1).abs().sum(1, dtype=torch.double)
    typical = float(size.nanmedian()) or float(size.nansum() / len(size))
    if not 0 < typical < torch.inf:
        return torch.inf, size[:0]
    return typical, 1 / (FARTHEST * size.clamp(min=SMALLEST_ROW * typical))


def equally_weighted(
    op: Op, inputs: Sequence[ChangedRows]
) -> tuple[Sequence[ChangedRows], Tensor | None]:
    """Inputs of which the same rows count equally often, and how often; else every change counts once."""
    some = [changed for changed in inputs if len(changed)]
    if some and all(c.weight is some[0].weight and c.node is some[0].node for c in some):
        return inputs, some[0].weight
    return [folded(c, value) for c, value in zip(inputs, op.inputs, strict=True)], None


def unweighted(op: Op, inputs: Sequence[ChangedRows]) -> Sequence[ChangedRows]:
    """Inputs for an operation without weights: a row-wise one keeps them, if all are the same."""
    found, weight = equally_weighted(op, inputs)
    if op.rowwise or weight is None:
        return found
    return [folded(c, value) for c, value in zip(inputs, op.inputs, strict=True)]


def folded(changed: ChangedRows, value: Value) -> ChangedRows:
    """Rows whose change counts once: what counts `w` times is moved `w` times as far."""
    if changed.weight is None or not len(changed):
        return changed
    base = value.at(changed.node)
    weight = changed.weight.to(base.dtype).view(-1, *[1] * (base.dim() - 1))
    # A row that counts once stays as it is, also where the original row is NaN.
    rows = torch.where(weight == 1, changed.rows, torch.lerp(base, changed.rows, weight))
    return ChangedRows(changed.ptr, changed.node, rows)
