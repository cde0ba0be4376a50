"""Pass: base rows are computed where execution reads them, and freed where it does not."""

from __future__ import annotations

from nora.engine.ir.op import Op, Value


def keep_base_rows(ops: list[Op], output: Value) -> None:
    """Compute the original rows that the operations read, and free the others."""
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
