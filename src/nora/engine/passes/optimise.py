"""Passes: rewrites of a program, in the order that is declared here; the longer ones have a file each.

`PASSES` are functions from operations and the output to operations. After each, `check` verifies the
program: every input is made before it is read, or given, and the output is made. Two more passes annotate
operations instead of replacing them, and run when a program is first executed (`exec/executor.py`):
`fuse_epilogue` finds row-wise operations that are done block by block with the one before them, `low_rank`
finds values whose rows all move by a few numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nora.engine.ir.op import Op, Value
from nora.engine.passes.fuse_aggregation import fuse_aggregation
from nora.engine.passes.fuse_softmax import fuse_softmax
from nora.engine.program import Program


def eliminate_dead(ops: list[Op], output: Value) -> list[Op]:
    """Pass: eliminate operations whose results nothing reads."""
    read = {output}
    kept = []
    for op in reversed(ops):
        if op.output in read:
            kept.append(op)
            read.update(op.inputs)
    return kept[::-1]


def fuse_rows(ops: list[Op], output: Value) -> list[Op]:
    """Pass: fuse successive row-wise operations, if nothing else reads the values in between."""
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


def keep_base_rows(ops: list[Op], output: Value) -> None:
    """Pass: compute the original rows that the operations read, and free the others."""
    output.base_rows()
    needed = dict.fromkeys(value for op in ops for value in op.needs())
    needed[output] = None
    for value in needed:
        if value.stored:
            value.base_rows()
    # What is not stored is made of what it comes from, whenever it is asked for.
    waiting = [value for value in needed if not value.stored]
    while waiting:
        value = waiting.pop()
        for source in value.op.inputs if value.op is not None else ():
            if source not in needed:
                needed[source] = None
                if source.stored:
                    source.base_rows()
                else:
                    waiting.append(source)
    for op in ops:
        if op.output not in needed and op.output.op is not None:
            op.output.base = None


PASSES = (eliminate_dead, fuse_softmax, fuse_aggregation, fuse_rows)


def optimise(program: Program, noted: Callable[[str, int], None] | None = None) -> None:
    """Run all passes, and compute the base rows that execution will read.

    Args:
        program: The program, which is changed.
        noted: Called with the name of each pass and the number of operations after it.
    """
    for each in PASSES:
        program.ops = each(program.ops, program.output)
        check(program.ops, program.output, each.__name__)
        if noted is not None:
            noted(each.__name__, len(program.ops))
    for op in program.ops:
        if not op.output.static:
            op.set_depth()
    keep_base_rows(program.ops, program.output)


def check(ops: Sequence[Op], output: Value, after: str) -> None:
    """Raise an `AssertionError` that names the pass where a program is not well-formed."""
    later = {op.output for op in ops}
    for op in ops:
        early = [value for value in op.inputs if value in later]
        assert not early, f"after {after}, {type(op).__name__} reads a value before it is made"
        assert op.output in later, f"after {after}, a value is made twice"
        later.discard(op.output)
        assert op.output.op is op, f"after {after}, a value names another operation as its maker"
    made = {op.output for op in ops}
    assert output in made or output.op is None, f"after {after}, nothing makes the output"
