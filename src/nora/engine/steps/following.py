"""Row-wise maps that follow a step, done to its rows block by block while they are in cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nora.engine.changed import Changed
from nora.engine.steps.step import BLOCK_BYTES, Rows, Step, Then, Value


@dataclass(frozen=True, eq=False)
class Following:
    """The row-wise steps that alone read what a step makes.

    Its rows are often the widest of a model, and many: written to memory whole and read again, they cost
    more than the sums they come from.

    Attributes:
        start: What the first step makes.
        steps: What follows it, in order; each reads one value, `start` or one of these.
        made: The values among theirs that others read.
    """

    start: Value
    steps: tuple[Rows, ...]
    made: tuple[Value, ...]

    def __call__(self, rows: Tensor) -> tuple[Tensor, ...]:
        """The rows of `made`, none of which shares memory with `rows`."""
        found = {id(self.start): rows}
        for step in self.steps:
            found[id(step.output)] = step.function(found[id(step.inputs[0])])
        mine = rows.untyped_storage().data_ptr()
        values = (found[id(value)] for value in self.made)
        return tuple(
            rows.clone() if rows.untyped_storage().data_ptr() == mine else rows for rows in values
        )


def following(steps: Sequence[Step], output: Value) -> dict[int, Following]:
    """What follows each step that has such maps behind it, by the step's id."""
    readers: dict[int, list[Step]] = {}
    for step in steps:
        for value in dict.fromkeys(step.inputs):
            readers.setdefault(id(value), []).append(step)
    found = {}
    for step in steps:
        if step.leads:
            mine = _behind(step.output, readers, output)
            if mine:
                inside = {id(each) for each in mine}
                made = tuple(
                    each.output
                    for each in mine
                    if each.output is output
                    or any(id(reader) not in inside for reader in readers[id(each.output)])
                )
                found[id(step)] = Following(step.output, tuple(mine), made)
    return found


def _behind(start: Value, readers: dict[int, list[Step]], output: Value) -> list[Rows]:
    """Row-wise maps of a value that nobody else reads, and those of what they make."""
    mine = readers.get(id(start), [])
    if start is output or not mine or not all(_alone(step, start) for step in mine):
        return []
    rows = [step for step in mine if isinstance(step, Rows)]
    return rows + [more for step in rows for more in _behind(step.output, readers, output)]


def _alone(step: Step, value: Value) -> bool:
    """Whether a step maps the rows of one value, and they stay where they are."""
    return (
        isinstance(step, Rows)
        and len(step.inputs) == 1
        and step.output.space is value.space
        and not step.output.static
    )


def passed(changed: Changed, then: Then | None) -> list[Changed]:
    """Changed rows, or what follows makes of them."""
    if then is None:
        return [changed]
    if not len(changed):
        return []
    made = through(then, changed.rows)
    return [Changed(changed.ptr, changed.node, rows, changed.weight) for rows in made]


def through(then: Then, rows: Tensor) -> tuple[Tensor, ...]:
    """What follows, of all rows, block by block."""
    wide = max(rows[:1].nbytes, 1)
    return put_together([then(block) for block in rows.split(max(64, BLOCK_BYTES // wide))])


def put_together(blocks: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Blocks of rows of several values as whole ones."""
    if len(blocks) == 1:
        return blocks[0]
    return tuple(torch.cat(parts) for parts in zip(*blocks, strict=True))
