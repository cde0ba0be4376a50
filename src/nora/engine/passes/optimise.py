"""Passes: rewrites of a program, each in its file, in the order that is declared here.

`PASSES` are functions from operations and the output to operations. After each, `check` verifies the
program: every input is made before it is read, or given, and the output is made. Two more passes annotate
operations instead of replacing them, and run when a program is first executed (`exec/executor.py`):
`fuse_epilogue` finds row-wise operations that are done block by block with the one before them, `low_rank`
finds values whose rows all move by a few numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nora.engine.ir.op import Op, Value
from nora.engine.passes.eliminate_dead import eliminate_dead
from nora.engine.passes.fuse_aggregation import fuse_aggregation
from nora.engine.passes.fuse_rows import fuse_rows
from nora.engine.passes.fuse_softmax import fuse_softmax
from nora.engine.passes.keep_base_rows import keep_base_rows
from nora.engine.program import Program

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
