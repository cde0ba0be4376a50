"""Operations that move rows between spaces: from nodes to edges, or several spaces into one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import Chunk, Move, Op, Value
from nora.engine.ir.pointers import find_unsorted, ptr_of
from nora.sparse import expanded


def sorted_by_removal(edit: Tensor, row: Tensor, rows: Tensor, count: int) -> ChangedRows:
    """Changed rows in the order of their edits."""
    order = edit.argsort(stable=True)
    return ChangedRows(ptr_of(edit, count), row[order], rows[order])


class Gather(Op):
    """`out_i = source_{index_i}`: edges read rows of their nodes.

    Args:
        source: The value read from.
        index: Which of its rows each output row reads, `[size]`.
        output: The value it makes.
    """

    def __init__(self, source: Value, index: Tensor, output: Value) -> None:
        super().__init__([source], output)
        self.index = index

    @cached_property
    def readers(self) -> tuple[Tensor, Tensor]:
        """The rows that read each row of the source, in CSR form: `indptr`, `row`."""
        return self.inputs[0].space.sorted_by(self.index)

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """The remaining rows that read a changed row."""
        changed, space = inputs[0], self.output.space
        if chunk.num_added(space) or chunk.num_added(self.inputs[0].space):
            return self._with_added(chunk, changed)
        if not len(changed):
            return chunk.nothing()
        edit, row, rows = self._read(chunk, changed.edit, changed.node, changed.rows)
        return ChangedRows(ptr_of(edit, len(chunk.edits)), row, rows)

    def _read(
        self, chunk: Chunk, edit: Tensor, node: Tensor, rows: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The rows that read changed rows: `edit`, `row` and their new values."""
        indptr, reader = self.readers
        owner, position, _ = expanded(indptr, node)
        edit, row = edit[owner], reader[position]
        left = self.output.space.survive(chunk.edits, edit, row)
        if not bool(left.all()):
            owner, edit, row = owner[left], edit[left], row[left]
        chunk.tally.bytes += rows[:1].nbytes * len(owner) + 4 * owner.nbytes
        return edit, row, rows[owner]

    def _with_added(self, chunk: Chunk, changed: ChangedRows) -> ChangedRows:
        """The same, and the values of added rows."""
        added_rows, source, space = chunk.added_rows, self.inputs[0], self.output.space
        assert added_rows is not None
        parts = []
        old = changed.node < source.space.size
        if bool(old.any()):
            parts.append(self._read(chunk, changed.edit[old], changed.node[old], changed.rows[old]))
        if added_rows.count(space):
            edit, index = (
                added_rows.edit(space),
                added_rows.index(space, self.index, source.space),
            )
            rows = rows_at_pairs(source, changed, edit, index)
            parts.append((edit, torch.arange(len(index)) + space.size, rows))
        if not parts:
            return chunk.nothing()
        edit, row, rows = (torch.cat(column) for column in zip(*parts, strict=True))
        return sorted_by_removal(edit, row, rows, len(chunk.edits))

    def move(self) -> Move:
        """See `Op.move`."""
        return Move(self.output.space, self.inputs[0].space, self.index, reduces=False)

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        return inputs[0][self.index]

    def within(self, owner: Tensor, *inputs: Tensor) -> Tensor:
        """See `Op.within`."""
        return inputs[0][owner]

    def at(self, rows: Tensor) -> Tensor:
        """See `Op.at`."""
        return self.inputs[0].at(self.index[rows])

    def needs(self) -> Sequence[Value]:
        """Nothing but the changed rows."""
        return ()


class Concat(Op):
    """The rows of several values, one after the other."""

    def __init__(self, parts: Sequence[Value], output: Value) -> None:
        super().__init__(parts, output)
        starts = [0]
        for part in parts:
            starts.append(starts[-1] + part.space.size)
        self.starts = starts

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """All changed rows, shifted by the start of their part."""
        added_rows = chunk.added_rows
        new = [None] * len(self.inputs) if added_rows is None else added_rows.concat(self)
        there = [
            (c, self._moved(c.node, part.space.size, start, come))
            for c, part, start, come in zip(inputs, self.inputs, self.starts, new, strict=False)
            if len(c)
        ]
        if not there:
            return chunk.nothing()
        return sorted_by_removal(
            torch.cat([c.edit for c, _ in there]),
            torch.cat([node for _, node in there]),
            torch.cat([c.rows for c, _ in there]),
            len(chunk.edits),
        )

    @staticmethod
    def _moved(node: Tensor, size: int, start: int, come: Tensor | None) -> Tensor:
        """Rows of a part as rows of the whole; `come`: added rows."""
        moved = node + start
        if come is not None and len(come):
            new = node >= size
            moved[new] = come[node[new] - size]
        return moved

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        return torch.cat(inputs)

    def at(self, rows: Tensor) -> Tensor:
        """See `Op.at`."""
        ends = torch.tensor(self.starts[1:], device=rows.device)
        part = torch.searchsorted(ends, rows, right=True)
        found = []
        places = []
        for k, value in enumerate(self.inputs):
            here = (part == k).nonzero().flatten()
            found.append(value.at(rows[here] - self.starts[k]))
            places.append(here)
        return torch.cat(found)[torch.cat(places).argsort()]

    def needs(self) -> Sequence[Value]:
        """Nothing but the changed rows."""
        return ()


def rows_at_pairs(value: Value, changed: ChangedRows, edit: Tensor, row: Tensor) -> Tensor:
    """A value's rows at some pairs (edit, row), changed or original."""
    size = value.space.size
    rows = value.at(row if not size else row.clamp(max=size - 1))
    if len(changed):
        if len(row):
            size = max(size, int(row.max()) + 1, int(changed.node.max()) + 1)
        at, there = find_unsorted(changed.keys(size), edit * size + row)
        rows = rows.clone() if any(stride == 0 for stride in rows.stride()) else rows
        rows[there] = changed.rows[at[there]]
    return rows


def really_changed(value: Value, changed: ChangedRows) -> ChangedRows:
    """Drop changed rows that equal the original ones, such as a maximum that remains."""
    base = value.at(changed.node)
    same = (changed.rows == base) | ((changed.rows != changed.rows) & (base != base))
    keep = ~(same.flatten(1).all(dim=1) if same.dim() > 1 else same)
    if bool(keep.all()):
        return changed
    count = len(changed.ptr) - 1
    return ChangedRows(ptr_of(changed.edit[keep], count), changed.node[keep], changed.rows[keep])
