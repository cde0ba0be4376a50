"""An operation that mixes all rows: executed on all remaining rows, for every edit.

An edit changes statistics over all nodes, a softmax over nodes or a sort of nodes everywhere. This op passes
to the operation exactly the rows of the edited graph, one edit after the other. That costs as much as the
operation in a full pass, and every later row changes too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import Chunk, Op, Value


class WholeGraphOp(Op):
    """`out = function(all rows of every input)`, for every edit by itself.

    Args:
        function: From all remaining rows of every input to all rows of the output.
        inputs: Values of any spaces.
        output: A value of a node or edge space, or of the whole graph.
        extremum: Whether it is the largest or smallest of one input, which only few edits change.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        inputs: Sequence[Value],
        output: Value,
        extremum: Literal["", "max", "min"] = "",
    ) -> None:
        super().__init__(inputs, output)
        self.function = function
        self.extremum = extremum

    def set_depth(self) -> None:
        """All rows change."""

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        return self.function(*inputs)

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """Execute the operation on the remaining rows, edit by edit."""
        bases = [value.base_rows() for value in self.inputs]
        space = self.output.space
        ptr, nodes, parts = [0], [], []
        concerned = self._concerned(chunk, inputs[0]) if self.extremum else None
        for at in range(len(chunk.edits)):
            given = []
            touched = False
            if concerned is not None and not concerned[at]:
                ptr.append(ptr[-1])
                continue
            for value, base, changed in zip(self.inputs, bases, inputs, strict=True):
                rows = base
                span = slice(int(changed.ptr[at]), int(changed.ptr[at + 1]))
                old: Tensor | slice = span
                if chunk.num_added(value.space):  # new rows have the last numbers
                    come = int((changed.node[span] >= value.space.size).sum())
                    order = changed.node[span].argsort() + span.start
                    old, new = order[: len(order) - come], order[len(order) - come :]
                if span.stop > span.start:
                    rows = rows.clone()
                    rows[changed.node[old]] = changed.rows[old]
                    touched = True
                keep = self._left(chunk, value, at)
                if keep is not None:
                    rows = rows[keep]
                    touched = True
                if chunk.num_added(value.space):
                    rows = torch.cat([rows, changed.rows[new]])
                given.append(rows)
            if touched:
                parts.append(self.function(*given))
                left = self._left(chunk, self.output, at)
                every = torch.arange(space.size, device=parts[-1].device)
                nodes.append(every if left is None else every[left])
            ptr.append(ptr[-1] + (len(nodes[-1]) if touched else 0))
        device = chunk.edits.node.device
        if not parts:
            return chunk.nothing()
        rows = torch.cat(parts)
        chunk.tally.bytes += 3 * rows.nbytes
        return ChangedRows(torch.tensor(ptr, device=device), torch.cat(nodes), rows)

    def _concerned(self, chunk: Chunk, changed: ChangedRows) -> list[bool]:
        """Which edits may change the extremum: its row is removed or changed, or another row exceeds it."""
        value, sign = self.inputs[0], 1 if self.extremum == "max" else -1
        edit, row = chunk.lost(value.space)
        old = torch.cat([value.at(row), chunk.original(value, changed.node)]) * sign
        found = torch.zeros(len(chunk.edits), dtype=torch.bool, device=row.device)
        best = self.output.base_rows()[0] * sign
        best = best.reshape(old.shape[1:]) if best.numel() == old[:1].numel() else best.min()
        whose = torch.cat([edit, changed.edit])
        # NaN compares to nothing: such edits are examined.
        found[whose[_any(~(old < best))]] = True
        if len(changed):
            found[changed.edit[_any(~(changed.rows * sign < best))]] = True
        return found.tolist()

    def _left(self, chunk: Chunk, value: Value, at: int) -> Tensor | None:
        """Mask of the rows that edit `at` leaves; None for all."""
        edit, row = chunk.lost(value.space)
        removed = row[edit == at]
        if not len(removed):
            return None
        keep = torch.ones(value.space.size, dtype=torch.bool, device=row.device)
        keep[removed] = False
        return keep


def _any(rows: Tensor) -> Tensor:
    """Which rows have any true entry `[M]`."""
    return rows if rows.dim() == 1 else rows.flatten(1).any(dim=1)
