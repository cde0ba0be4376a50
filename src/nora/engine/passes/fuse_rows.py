"""Pass: fuse successive row-wise operations, if nothing else reads the values in between."""

from __future__ import annotations

from nora.engine.ir.op import Op, Value


def fuse_rows(ops: list[Op], output: Value) -> list[Op]:
    """The operations, each with those that it can absorb."""
    readers = {output: 2}
    for op in ops:
        for value in set(op.inputs):
            readers[value] = readers.get(value, 0) + 1
    made: dict[Value, Op] = {}
    for op in ops:
        while pair := _joined(op, made, readers):
            inner, both = pair
            del made[inner.output]
            for value in set(inner.inputs) & set(op.inputs):
                readers[value] -= 1
            op = both
        made[op.output] = op
    return list(made.values())


def _joined(op: Op, made: dict[Value, Op], readers: dict[Value, int]) -> tuple[Op, Op] | None:
    """The first op that this one can take into itself, and what both become."""
    for value in op.inputs:
        inner = made.get(value)
        if inner is not None and readers[value] == 1:
            both = op.absorbed(inner)
            if both is not None:
                return inner, both
    return None
