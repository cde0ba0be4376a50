"""Pass: run the row-wise functions after an operation block by block, while its rows are in cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import BLOCK_BYTES, Op, RowOp, Then, Value


@dataclass(frozen=True, eq=False)
class Epilogue:
    """The row-wise ops that alone read what an operation makes.

    Its rows are often the widest of a model. Written to memory and read again, they would cost more than the
    sums they come from.

    Attributes:
        start: The output of the first op.
        ops: The ops that follow it, in order; each reads one value, `start` or one of these.
        made: Their values that other ops read.
    """

    start: Value
    ops: tuple[RowOp, ...]
    made: tuple[Value, ...]

    def __call__(self, rows: Tensor) -> tuple[Tensor, ...]:
        """The rows of `made`, none of which shares memory with `rows`."""
        found = {self.start: rows}
        for op in self.ops:
            found[op.output] = op.function(found[op.inputs[0]])
        mine = rows.untyped_storage().data_ptr()
        values = (found[value] for value in self.made)
        return tuple(
            rows.clone() if rows.untyped_storage().data_ptr() == mine else rows for rows in values
        )


def fuse_epilogue(ops: Sequence[Op], output: Value) -> dict[Op, Epilogue]:
    """The epilogue of each op that has one."""
    readers: dict[Value, list[Op]] = {}
    for op in ops:
        for value in dict.fromkeys(op.inputs):
            readers.setdefault(value, []).append(op)
    found = {}
    for op in ops:
        if op.leads:
            mine = _behind(op.output, readers, output)
            if mine:
                made = tuple(
                    each.output
                    for each in mine
                    if each.output is output
                    or any(reader not in mine for reader in readers[each.output])
                )
                found[op] = Epilogue(op.output, tuple(mine), made)
    return found


def _behind(start: Value, readers: dict[Value, list[Op]], output: Value) -> list[RowOp]:
    """The row-wise functions of a value that nothing else reads, and those of their results."""
    mine = readers.get(start, [])
    if start is output or not mine or not all(_alone(op, start) for op in mine):
        return []
    rows = [op for op in mine if isinstance(op, RowOp)]
    return rows + [more for op in rows for more in _behind(op.output, readers, output)]


def _alone(op: Op, value: Value) -> bool:
    """Whether an operation is a row-wise function of one value."""
    return (
        isinstance(op, RowOp)
        and len(op.inputs) == 1
        and op.output.space is value.space
        and not op.output.static
    )


def written_first(value: Value, node: Tensor, then: Then) -> Then:
    """Run the epilogue after the operation's rows are written back; blocks come in the order of `node`."""
    done = 0

    def write(rows: Tensor) -> tuple[Tensor, ...]:
        nonlocal done
        value.write(node[done : done + len(rows)], rows)
        done += len(rows)
        return then(rows)

    return write


def passed(changed: ChangedRows, then: Then | None) -> list[ChangedRows]:
    """Changed rows, or those of the epilogue's values."""
    if then is None:
        return [changed]
    if not len(changed):
        return []
    made = through(then, changed.rows)
    return [ChangedRows(changed.ptr, changed.node, rows, changed.weight) for rows in made]


def through(then: Then, rows: Tensor) -> tuple[Tensor, ...]:
    """The epilogue's values for all rows, block by block."""
    wide = max(rows[:1].nbytes, 1)
    return join_blocks([then(block) for block in rows.split(max(64, BLOCK_BYTES // wide))])


def join_blocks(blocks: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Blocks of rows of several values as whole ones."""
    if len(blocks) == 1:
        return blocks[0]
    return tuple(torch.cat(parts) for parts in zip(*blocks, strict=True))
