"""The steps that are needed, those that can be done as one put together."""

from __future__ import annotations

from nora.engine.steps.step import Step, Value


def used(steps: list[Step], output: Value) -> list[Step]:
    """The steps that the output is made of."""
    read = {id(output)}
    kept = []
    for step in reversed(steps):
        if id(step.output) in read:
            kept.append(step)
            read |= {id(value) for value in step.inputs}
    return kept[::-1]


def put_together(steps: list[Step], output: Value) -> list[Step]:
    """Steps that can be done as one as one, where nobody else reads what is in between."""
    readers: dict[int, int] = {id(output): 2}
    for step in steps:
        for value in set(map(id, step.inputs)):
            readers[value] = readers.get(value, 0) + 1
    made: dict[int, Step] = {}
    for step in steps:
        while pair := _joined(step, made, readers):
            inner, both = pair
            del made[id(inner.output)]
            for value in set(map(id, inner.inputs)) & set(map(id, step.inputs)):
                readers[value] -= 1
            step = both
        made[id(step.output)] = step
    return list(made.values())


def _joined(step: Step, made: dict[int, Step], readers: dict[int, int]) -> tuple[Step, Step] | None:
    """The first step that this one can take into itself, and what both become."""
    for value in step.inputs:
        inner = made.get(id(value))
        if inner is not None and readers[id(value)] == 1:
            both = step.absorbed(inner)
            if both is not None:
                return inner, both
    return None
