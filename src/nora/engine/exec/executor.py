"""Run a program's operations in order, and drop each result after its last use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nora.engine.estimate.sampling import folded, unweighted
from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import Chunk, Op, Value
from nora.engine.ops.gather import really_changed
from nora.engine.ops.low_rank import LowRankOp, LowRankRows
from nora.engine.passes.fuse_epilogue import Epilogue, fuse_epilogue
from nora.engine.passes.keep_low_rank import low_rank


@dataclass(frozen=True, eq=False)
class Executor:
    """Runs chunks of edits through the operations.

    Attributes:
        ops: The operations.
        output: What they make.
        epilogues: Row-wise operations that are executed together with the one before them.
        low_rank: Operations whose output is a low-rank update.
        finished: For every operation, the values that are not read after it.
    """

    ops: Sequence[Op]
    output: Value
    epilogues: dict[Op, Epilogue]
    low_rank: dict[Op, LowRankOp]
    finished: list[list[Value]]

    @staticmethod
    def of(ops: Sequence[Op], output: Value) -> Executor:
        """Analyse the ops, once for all chunks."""
        last = {value: at for at, op in enumerate(ops) for value in op.inputs}
        last[output] = len(ops)
        ends: list[list[Value]] = [[] for _ in range(len(ops) + 1)]
        for key, at in last.items():
            ends[at].append(key)
        return Executor(ops, output, fuse_epilogue(ops, output), low_rank(ops), ends[:-1])

    def run(
        self,
        chunk: Chunk,
        given: dict[Value, ChangedRows],
        edited: bool = False,
    ) -> ChangedRows:
        """Changed rows of the output.

        Args:
            chunk: The removals.
            given: Rows that are known to change.
            edited: Whether values that no removal changes may have changed, by an edit.
        """
        nothing = chunk.nothing()
        rows: dict[Value, ChangedRows | LowRankRows] = dict(given)

        def spread(value: Value) -> ChangedRows:
            """A value's changed rows; of a low-rank update all rows, computed once."""
            found = rows.get(value, nothing)
            if isinstance(found, LowRankRows):
                found = all_rows[value] = all_rows.get(value) or found.spread(chunk)
            return found

        all_rows: dict[Value, ChangedRows] = {}
        done: set[Op] = set()
        for op, finished in zip(self.ops, self.finished, strict=True):
            if op not in done and (edited or not op.output.static):
                inputs = [rows.get(value, nothing) for value in op.inputs]
                if lifted := self._low_rank(chunk, op, inputs):
                    rows[op.output] = lifted
                else:
                    then = self.epilogues.get(op)
                    values, made = _made(chunk, op, [spread(v) for v in op.inputs], then)
                    done |= {one for one in (then.ops if then else ())}
                    for value, changed in zip(values, made, strict=True):
                        rows[value] = changed
            for value in finished:
                self._write(chunk, value, rows.pop(value, nothing))
                all_rows.pop(value, None)
        found = spread(self.output)
        self._write(chunk, self.output, found)
        return found

    @staticmethod
    def _write(chunk: Chunk, value: Value, changed: ChangedRows | LowRankRows) -> None:
        """Write a value's changed rows back, if the chunk does so."""
        if chunk.writes and isinstance(changed, ChangedRows) and len(changed):
            value.write(changed.node, changed.rows)

    def _low_rank(
        self, chunk: Chunk, op: Op, inputs: Sequence[ChangedRows | LowRankRows]
    ) -> LowRankRows | None:
        """The output of an operation as a low-rank update, if it is one."""
        low = self.low_rank.get(op)
        if low is None or not low.can(chunk):
            return None
        mixed = [
            c if isinstance(c, LowRankRows) else LowRankRows.of_changed(one, folded(c, one.value))
            for one, c in zip(low.inputs, inputs, strict=True)
        ]
        made = low.mixed(chunk, mixed)
        chunk.tally.bytes += made.apart.rows.nbytes + 4 * made.apart.node.nbytes
        return made


def _made(
    chunk: Chunk, op: Op, inputs: Sequence[ChangedRows], then: Epilogue | None
) -> tuple[Sequence[Value], Sequence[ChangedRows]]:
    """The values of an operation, or of its epilogue, and their changed rows."""
    if chunk.sampling is not None and not op.samples:
        inputs = list(unweighted(op, inputs))
    if then is None:
        values: Sequence[Value] = (op.output,)
        made: Sequence[ChangedRows] = [op.changed(chunk, inputs)]
    else:
        values = then.made
        made = op.passed_on(chunk, inputs, then) or [chunk.nothing()] * len(values)
    made = [
        really_changed(value, changed) if value.space.global_ and len(changed) else changed
        for value, changed in zip(values, made, strict=True)
    ]
    for changed in made:
        chunk.tally.bytes += changed.rows.nbytes + 4 * changed.node.nbytes
    return values, made
