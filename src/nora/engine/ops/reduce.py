"""Operations that reduce rows of one space to those of another, e.g. from edges to their target nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import CANCELLATION_RATIO, ChangedRows, scales
from nora.engine.ir.op import EVERYWHERE, Chunk, Move, Op, Value
from nora.engine.ir.pointers import find, ptr_of
from nora.engine.ir.space import Space
from nora.engine.ops.gather import rows_at_pairs, sorted_by_removal

# So few rows cost no more to sum again than to correct.
FEW = 6

Reduction = Literal["sum", "prod", "amax", "amin", "mean", "last"]


class Reduce(Op):
    """`out_k = reduce(start_k, {source_i : index_i = k})`, e.g. of messages at their targets.

    Sums in float32 and float64 are corrected for changed and removed rows, and computed again if that would
    lose digits. Other reductions are computed again wherever a row changes.

    Args:
        source: The value that is reduced.
        index: The output row each of its rows goes to.
        start: Initial values of the reduction, in the output's space.
        reduce: The reduction; `last` keeps the last row.
        keep_start: Whether the start counts if there are other rows (torch's `include_self`).
        output: The value it makes.
        function: What reduces instead; see `GroupBy`.
    """

    def __init__(
        self,
        source: Value,
        index: Tensor,
        start: Value,
        reduce: Reduction,
        keep_start: bool,
        output: Value,
        function: Callable[[Tensor, Tensor, int], Tensor] | None = None,
    ) -> None:
        super().__init__([source, start], output)
        self.index, self.reduce, self.keep_start = index, reduce, keep_start
        self.function = function

    @property
    def _source(self) -> Value:
        return self.inputs[0]

    @cached_property
    def _corrects(self) -> bool:
        """Whether sums are corrected; in half precision they are not, as rounding would differ from a new
        sum."""
        return self.reduce == "sum" and self._source.none.dtype in (torch.float, torch.double)

    @cached_property
    def senders(self) -> tuple[Tensor, Tensor]:
        """The rows that go to each output row, in order, in CSR form: `indptr`, `row`."""
        return self.output.space.sorted_by(self.index)

    def set_depth(self) -> None:
        """See `Op.set_depth`."""
        source, start = self.inputs
        self.output.depth = depth_after(source, start, self.output.space)

    def hops(self) -> Sequence[tuple[Tensor, Tensor]]:
        """From every end of a row to every end of the row it goes to."""
        ends, reached = self._source.space.ends, self.output.space.ends[:, self.index]
        return [(a, b) for a in ends for b in reached]

    @property
    def _move(self) -> Move:
        return Move(self._source.space, self.output.space, self.index, reduces=True)

    def move(self) -> Move | None:
        """See `Op.move`."""
        return self._move

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        return self.reduced(inputs[0], self.index, inputs[1])

    def within(self, owner: Tensor, *inputs: Tensor) -> Tensor:
        """See `Op.within`."""
        return self.reduced(inputs[0], owner, inputs[1])

    def reduced(self, rows: Tensor, index: Tensor, start: Tensor) -> Tensor:
        """`rows` reduced into `start`."""
        if not len(rows):
            return start
        if self.function is not None:
            there, group = index.unique(return_inverse=True)
            out = start.clone()
            out[there] = self.function(rows, group, len(there))
            return out
        if self.reduce == "sum":
            if rows.dtype == torch.bool:
                return start.long().index_add(0, index, rows.long()).bool()
            return start.index_add(0, index, rows)
        if self.reduce == "last":
            last = torch.full((len(start),), -1, device=index.device)
            place = torch.arange(len(index), device=index.device)
            last = last.scatter_reduce(0, index, place, "amax")
            there = (last >= 0).view(-1, *[1] * (rows.dim() - 1))
            return torch.where(there, rows[last.clamp(min=0)], start)
        spread = index.view(-1, *[1] * (rows.dim() - 1)).expand_as(rows)
        return start.scatter_reduce(0, spread, rows, self.reduce, include_self=self.keep_start)

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """New rows wherever an input row changes."""
        if chunk.num_added(self.output.space):
            return self._beside_added(chunk, *inputs)
        source, start = inputs
        count, space = len(chunk.edits), self.output.space
        lost_removal, lost = chunk.lost(self._source.space)
        edit = torch.cat([source.edit, lost_removal])
        row = torch.cat([source.node, lost])
        keys = edit * space.size + self._move.node_of(chunk, row)
        also = start.keys(space.size)
        distinct = torch.cat([keys, also]).unique()
        reached, node = distinct // space.size, distinct % space.size
        left = space.survive(chunk.edits, reached, node)
        if not bool(left.all()):
            distinct, reached, node = distinct[left], reached[left], node[left]
        if not len(distinct):
            return chunk.nothing()
        if self._corrects:
            rows = self._corrected(chunk, distinct, source, (keys, row), start)
        else:
            rows = self._recomputed(chunk, reached, node, source, start)
        chunk.tally.bytes += 3 * rows.nbytes + 6 * keys.nbytes
        return ChangedRows(ptr_of(reached, count), node, rows)

    def _beside_added(self, chunk: Chunk, source: ChangedRows, start: ChangedRows) -> ChangedRows:
        """Added output rows without input rows are the initial values."""
        count, old = len(chunk.edits), start.node < self.output.space.size
        before = ChangedRows(ptr_of(start.edit[old], count), start.node[old], start.rows[old])
        found = self.changed(replace(chunk, added_rows=None), [source, before])
        parts = [
            (c.edit[which], c.node[which], c.rows[which])
            for c, which in ((found, slice(None)), (start, ~old))
            if len(c)
        ]
        edit, node, rows = (torch.cat(one) for one in zip(*parts, strict=True))
        return sorted_by_removal(edit, node, rows, count)

    def _corrected(
        self,
        chunk: Chunk,
        distinct: Tensor,
        source: ChangedRows,
        touched: tuple[Tensor, Tensor],
        start: ChangedRows,
    ) -> Tensor:
        """Corrected sums; computed again where cancellation would lose digits."""
        keys, row = touched
        node = distinct % self.output.space.size
        at, there = find(distinct, keys)
        slot, row = at[there], row[there]
        delta = -chunk.original(self._source, row)
        delta[row >= self._source.space.size] = 0
        mine = there[: len(source)]
        if len(source):
            delta[: int(mine.sum())] += source.rows[mine]
        rows = self.output.at(node)
        size = self._sizes(delta)
        mass = size.new_zeros(len(rows), size.size(1)).index_add(0, slot, size)
        rows = rows.index_add(0, slot, delta)
        if len(start):
            at, there = find(distinct, start.keys(self.output.space.size))
            shift = start.rows[there] - self.inputs[1].at(start.node[there])
            rows = rows.index_add(0, at[there], shift)
        left = self._sizes(rows)
        # Few are summed again at once, in the order in which the model sums them.
        indptr = self.senders[0]
        few = indptr[node + 1] - indptr[node] <= FEW
        doubtful = few | ~(left >= CANCELLATION_RATIO * mass).all(dim=1)
        if bool(doubtful.any()):
            which = doubtful.nonzero().flatten()
            edit = distinct[which] // self.output.space.size
            rows[which] = self._recomputed(chunk, edit, node[which], source, start)
        return rows

    def _sizes(self, rows: Tensor) -> Tensor:
        """Sizes of rows: by column if there are few columns, else in total; see `scales`."""
        flat = _flat(rows).abs()
        return flat.double() if flat.size(1) <= 4 else (flat @ self._unit.t()).double()

    @cached_property
    def _unit(self) -> Tensor:
        size = self._source.space.size
        return scales(_flat(self._source.at(torch.arange(0, size, max(1, size // 1000)))))

    def _recomputed(
        self, chunk: Chunk, edit: Tensor, node: Tensor, source: ChangedRows, start: ChangedRows
    ) -> Tensor:
        """Some pairs (edit, output row), reduced from all of their input rows."""
        begin = rows_at_pairs(self.inputs[1], start, edit, node)
        owner, row, edit = self._move.edges_of(chunk, edit, node)
        rows = rows_at_pairs(self._source, source, edit, row)
        chunk.tally.bytes += rows.nbytes + 4 * owner.nbytes
        return self.reduced(rows, owner, begin)

    def needs(self) -> Sequence[Value]:
        """Rows that are subtracted or reduced again, and the sums that are corrected."""
        return [*self.inputs, self.output] if self.reduce == "sum" else self.inputs


class GroupBy(Reduce):
    """`out_k = function({source_i : index_i = k})`, computed again wherever a row changes.

    Args:
        source: The value that is reduced.
        index: The output row each of its rows goes to.
        function: From rows, their groups and the number of groups to a row for every group.
        fill: The result of a group without rows.
        shape: The shape of an output row.
        space: The space of the output.
    """

    def __init__(
        self,
        source: Value,
        index: Tensor,
        function: Callable[[Tensor, Tensor, int], Tensor],
        fill: float,
        shape: tuple[int, ...],
        space: Space,
    ) -> None:
        none = source.none
        empty = none.new_full((1, *shape), fill)
        start = Value(space, -1, empty.expand(space.size, *shape))
        output = Value(space, depth_after(source, start, space))
        super().__init__(source, index, start, "amax", False, output, function)

    def move(self) -> None:
        """See `Op.move`: None, because the function can be anything."""


def _flat(rows: Tensor) -> Tensor:
    """Rows `[M, …]` as a matrix `[M, F]`."""
    return rows.unsqueeze(1) if rows.dim() == 1 else rows.flatten(1)


def depth_after(source: Value, start: Value, output: Space) -> int:
    """The depth of a reduction's output."""
    if output.global_:
        return EVERYWHERE
    return max(max(source.depth, 0) + 1, start.depth)
