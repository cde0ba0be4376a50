"""Pass: eliminate dead code, which is operations whose results nothing reads."""

from __future__ import annotations

from nora.engine.ir.op import Op, Value


def eliminate_dead(ops: list[Op], output: Value) -> list[Op]:
    """The operations from which the output is computed."""
    read = {output}
    kept = []
    for op in reversed(ops):
        if op.output in read:
            kept.append(op)
            read.update(op.inputs)
    return kept[::-1]
