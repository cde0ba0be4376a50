"""Pass: which ops preserve a low-rank update, and how: ReLU, linear maps, sums over neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import ChangedRows, Sums, removed_keys
from nora.engine.ir.op import Chunk, Op, RowOp, Value
from nora.engine.ir.pointers import owner_of, ptr_of
from nora.engine.ops.aggregate import Aggregate
from nora.engine.ops.blend import Blend, Blended
from nora.engine.ops.low_rank import LowRankOp, LowRankRows, Still, summed

# Directions of all ops may take so much memory; behind those that would take more, all rows are computed.
MOST_BYTES = 2**31
# Rows of pairs that are looked at at once.
PAIRS = 2**15
# A sign turns only where a row moves by more than its entry: a little less, for rounding.
SURELY = 1.001
# Entries of a matrix are read off at this size, where no bias costs digits.
LARGE = 2.0**20


class Rectified(LowRankOp):
    """ReLU, which preserves a low-rank update where no entry changes its sign."""

    op: RowOp

    def __init__(self, op: RowOp, inputs: Sequence[LowRankOp | Still]) -> None:
        super().__init__(op, inputs, inputs[0].count)

    @cached_property
    def _positive(self) -> Tensor:
        return self.op.inputs[0].base_rows() > 0

    @cached_property
    def _reach(self) -> Tensor:
        """The largest change of each entry per unit of shift `[N, F]`."""
        square = torch.zeros_like(self.op.inputs[0].base_rows())
        for block in self.inputs[0].kept:
            for direction in block:
                square.addcmul_(direction, direction)
        return square.sqrt_()

    @cached_property
    def _nearest(self) -> tuple[Tensor, Tensor]:
        """The smallest shift that may change a sign in each row, ascending, and the rows."""
        before = self.op.inputs[0].base_rows().abs() / self._reach  # 0 / 0: it never moves
        before = torch.where(self._reach > 0, before, torch.inf)
        nearest = before.flatten(1).amin(dim=1).double()
        return nearest.sort()

    def blocks(self) -> Iterator[Tensor]:
        """See `LowRankOp.blocks`."""
        for block in self.inputs[0].blocks():
            yield block * self._positive

    def at(self, update: LowRankRows, edit: Tensor, node: Tensor) -> Tensor:
        """See `LowRankOp.at`."""
        return update.of[0].at(edit, node) * self._positive[node]

    def mixed(self, chunk: Chunk, inputs: Sequence[LowRankRows]) -> LowRankRows:
        """Rows in which a sign changes are `apart`, besides those that were before."""
        (update,) = inputs
        n, apart = chunk.num_nodes, update.apart
        size = update.shift.norm(dim=1) * SURELY
        parts = [(apart.keys(n), self._those_apart(update, size))] if len(apart) else []
        parts += self._turned(chunk, update, size)
        apart = summed(chunk, parts, self.op.inputs[0].base_rows()[:0])
        return LowRankRows(self, update.shift, apart, tuple(inputs))

    def _those_apart(self, update: LowRankRows, size: Tensor) -> Tensor:
        """The rows that were `apart`, after the ReLU."""
        apart = update.apart
        original, positive = self.op.inputs[0].base_rows()[apart.node], self._positive[apart.node]
        new = original + apart.rows
        far = self._reach[apart.node] * size[apart.edit].to(new.dtype).unsqueeze(-1)
        sure = (torch.where(positive, new, -new) >= far).all(dim=1)
        rows = apart.rows * positive
        which = (~sure).nonzero().flatten()
        for some in which.split(PAIRS):
            moved = update.at(apart.edit[some], apart.node[some])
            rows[some] = (moved + apart.rows[some]).relu() - moved * positive[some]
        return rows

    def _turned(
        self, chunk: Chunk, update: LowRankRows, size: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Other rows in which a sign changes: pairs (edit, node), and their difference from the low-rank
        form."""
        n, edits = chunk.num_nodes, chunk.edits
        nearest, order = self._nearest
        counts = torch.searchsorted(nearest, size, right=True)
        counts[size == 0] = 0
        edit = torch.arange(len(counts), device=order.device).repeat_interleave(counts)
        start = counts.cumsum(0) - counts
        node = order[torch.arange(len(edit), device=order.device) - start[edit]]
        known = torch.zeros(len(edits) * n, dtype=torch.bool, device=order.device)
        known[update.apart.keys(n)] = True
        known[removed_keys(edits, n)] = True
        key = edit * n + node
        key = key[~known[key]]
        for some in key.split(PAIRS):
            node = some % n
            moved = update.at(some // n, node)
            positive = self._positive[node]
            turned = ((moved > 0) != positive).any(dim=1)
            moved, positive = moved[turned], positive[turned]
            yield some[turned], moved.relu() - moved * positive


class Mapped(LowRankOp):
    """An affine function of all its inputs together."""

    op: RowOp

    def __init__(self, op: RowOp, inputs: Sequence[LowRankOp | Still]) -> None:
        super().__init__(op, inputs, sum(one.count for one in inputs))

    @cached_property
    def _matrices(self) -> list[Tensor]:
        """The matrix of each input `[F_in, F_out]`."""
        none = [value.at(torch.zeros(0, dtype=torch.long)) for value in self.op.inputs]
        found = []
        for at, one in enumerate(none):
            wide = one.size(1)
            zeros = [other.new_zeros(wide + 1, other.size(1)) for other in none]
            zeros[at][:wide] = LARGE * torch.eye(wide, dtype=one.dtype, device=one.device)
            rows = self.op.function(*zeros)
            found.append((rows[:wide] - rows[wide:]) / LARGE)
        return found

    def blocks(self) -> Iterator[Tensor]:
        """See `LowRankOp.blocks`."""
        for one, matrix in zip(self.inputs, self._matrices, strict=True):
            for block in one.blocks():
                yield block @ matrix

    def at(self, update: LowRankRows, edit: Tensor, node: Tensor) -> Tensor:
        """See `LowRankOp.at`."""
        return self.op.function(*(one.at(edit, node) for one in update.of))

    def mixed(self, chunk: Chunk, inputs: Sequence[LowRankRows]) -> LowRankRows:
        """The rows `apart` are mapped, too."""
        shift = torch.cat([update.shift for update in inputs], dim=1)
        parts = [
            (update.apart.keys(chunk.num_nodes), update.apart.rows @ matrix)
            for update, matrix in zip(inputs, self._matrices, strict=True)
            if len(update.apart)
        ]
        if len(parts) == 1:  # the same pairs
            apart = next(update.apart for update in inputs if len(update.apart))
            apart = ChangedRows(apart.ptr, apart.node, parts[0][1])
        else:
            assert self.value.like is not None
            apart = summed(chunk, parts, self.value.like)
        return LowRankRows(self, shift, apart, tuple(inputs))


class Passed(LowRankOp):
    """Sums and means over neighbours: messages of the rows `apart` are added, those of removed nodes are
    missing."""

    op: Aggregate

    def __init__(self, op: Aggregate, inputs: Sequence[LowRankOp | Still]) -> None:
        super().__init__(op, inputs, inputs[0].count)

    @cached_property
    def _nothing(self) -> Sums:
        """The same sums of zero messages, to which the rows `apart` are added."""
        zeros = torch.zeros_like(self.value.base_rows())
        size = zeros.new_zeros(len(zeros), 2)
        return Sums(zeros, zeros, torch.ones_like(self.op.unit), size, zeros[:0], zeros)

    def can(self, chunk: Chunk) -> bool:
        """Whether edits only remove nodes; single edges are not supported."""
        return not len(chunk.delta(self.op.edges))

    def blocks(self) -> Iterator[Tensor]:
        """See `LowRankOp.blocks`."""
        edges = self.op.edges
        left = edges.norm_dst.to(self.value.base_rows().dtype).unsqueeze(-1)
        for block in self.inputs[0].blocks():
            for direction in block:
                yield (edges.total(direction) * left).unsqueeze(0)

    def mixed(self, chunk: Chunk, inputs: Sequence[LowRankRows]) -> LowRankRows:
        """See `Passed`."""
        (update,) = inputs
        edges, edits, n = self.op.edges, chunk.edits, chunk.num_nodes
        missing, base = self._missing(chunk), self._nothing
        reach_ptr = ptr_of(missing.pairs // n, len(edits))
        frontier = chunk.frontier(edges, update.apart, (reach_ptr, missing.pairs % n))
        none = ChangedRows(torch.zeros_like(reach_ptr), reach_ptr[:0], base.y[:0])
        (rows,) = chunk.backend.propagate(
            edges, frontier, base, update.apart, none, chunk.delta(edges)
        )
        made = LowRankRows(self, update.shift, ChangedRows(frontier.ptr, frontier.node, rows))
        # A target that lost a removed source is divided by less.
        sent = update.at(owner_of(edits.ptr), edits.node)[missing.sender]
        if edges.weight_by_source is not None:
            weight = edges.weight_by_source[missing.edge]
            sent = sent * weight.to(sent.dtype).unsqueeze(-1)
        lost = rows.new_zeros(len(missing.pairs), rows.size(1)).index_add_(0, missing.to, sent)
        left = frontier.norm_dst[frontier.also]
        grown = (left / edges.norm_dst[missing.pairs % n] - 1).to(rows.dtype).unsqueeze(-1)
        change = grown * made.at(missing.pairs // n, missing.pairs % n)
        rows.index_add_(0, frontier.also, change - lost * left.to(rows.dtype).unsqueeze(-1))
        chunk.tally.bytes += 4 * frontier.slot.nbytes + rows.nbytes
        return made

    def _missing(self, chunk: Chunk) -> _Missing:
        """The edges from removed nodes to remaining ones."""
        edits, n = chunk.edits, chunk.num_nodes
        target = self.op.edges.by_source[1]
        edit = owner_of(edits.ptr)
        sender, edge, _ = self.op.edges.out_of(edits.node)
        gone = torch.zeros(len(edits) * n, dtype=torch.bool, device=target.device)
        gone[edit * n + edits.node] = True
        key = edit[sender] * n + target[edge]
        stays = ~gone[key]
        pairs, to = key[stays].unique(return_inverse=True)
        return _Missing(sender[stays], edge[stays], pairs, to)


class _Missing(NamedTuple):
    """Removed edges: the position of each one's removed source node, and of the edge in `by_source`; the
    pairs (edit, target) as `keys`, and the position of each edge's pair among these."""

    sender: Tensor
    edge: Tensor
    pairs: Tensor
    to: Tensor


def low_rank(ops: Sequence[Op]) -> dict[Op, LowRankOp]:
    """The low-rank form of the output of each op that has one."""
    moving: dict[Value, LowRankOp] = {}
    found: dict[Op, LowRankOp] = {}
    taken = 0.0
    for op in ops:
        inputs = [moving.get(value) or Still(value) for value in op.inputs]
        mixer = _mixer(op, inputs)
        if mixer is not None and taken + _bytes(mixer) <= MOST_BYTES:
            taken += _bytes(mixer)
            found[op] = moving[op.output] = mixer
    return found


def _bytes(mixer: LowRankOp) -> float:
    if isinstance(mixer, Blended):  # which keeps what others have
        return 0.0
    value = mixer.value
    size = 4 if value.like is None else value.like.element_size()
    return float(mixer.count) * value.space.size * value.width * size


def _mixer(op: Op, inputs: Sequence[LowRankOp | Still]) -> LowRankOp | None:
    if isinstance(op, Blend):
        return Blended(op, inputs)
    if not any(one.count for one in inputs) or not all(map(_plain, (*op.inputs, op.output))):
        return None
    if isinstance(op, RowOp) and op.form == "relu":
        return Rectified(op, inputs)
    if isinstance(op, RowOp) and op.form == "affine":
        return Mapped(op, inputs)
    if isinstance(op, Aggregate) and len(inputs) == 1:
        added = isinstance(op.added, Tensor) and len(op.added)
        if not added and op.edges.normalise in ("none", "mean"):
            return Passed(op, inputs)
    return None


def _plain(value: Value) -> bool:
    """Rows of numbers `[N, F]`, in a precision that holds `LARGE` and the digits of small shifts."""
    value.width  # noqa: B018  tells `like`
    like = value.like
    return like is not None and like.dim() == 2 and like.dtype in (torch.float, torch.double)
