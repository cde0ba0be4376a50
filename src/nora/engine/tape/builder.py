"""The steps that are made of what is known of a program's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nora.engine.spaces import Space, joined
from nora.engine.steps.moves import Concat, Gather
from nora.engine.steps.reduce import Reduce, Scatter, depth_after
from nora.engine.steps.step import Form, Rows, Step, Value
from nora.engine.tape.program import Step as TapeStep
from nora.engine.tape.tape import Ref
from nora.engine.tape.tensors import Tensors
from nora.engine.tape.tracked import Ids, Layout, RowCount, Tracked, Uniform
from nora.engine.tape.trees import is_leaf, leaves, mapped

aten = torch.ops.aten
# Values of edges that take more than this are not kept but made anew where they are needed.
KEPT_BYTES = 32 * 2**20


class Builder(Tensors):
    """Makes values by adding steps to a plan; see `Tensors`."""

    @cached_property
    def steps(self) -> list[Step]:
        """The steps so far."""
        return []

    def part(self, found: Tracked, space: Space, start: int) -> Tracked:
        """The rows of one of the spaces that were joined; see `parts_of`."""
        key = ("span", start, id(space))
        if key not in self.named:
            self.named[key] = torch.arange(start, start + space.size)
        return Tracked(self.gathered(found.value, self.named[key], space), found.layout, found.ids)

    def as_rows_of(self, found: Tracked, space: Space) -> Tracked | None:
        """The same rows as rows of another space, where both are the same in all but name."""
        own = found.space
        if own is space:
            return found
        if own.sizes != space.sizes or self.graph in (own, space):
            return None
        key = ("same", id(own), id(space))
        if key not in self.named:
            every = torch.arange(space.size)
            alike = space.covers(every, own) and space.covered(every, own)
            self.named[key] = every if alike else None
            if alike and not (space.goes_with(every, own) and space.comes_with(every, own)):
                self.unsure(f"takes rows of {own.label} for rows of {space.label}")
        every = self.named[key]
        if every is None:
            return None
        return Tracked(self.gathered(found.value, every, space), found.layout, found.ids)

    def value(self, space: Space, depth: int, numel: int = 1, size: int = 4) -> Value:
        """A value to be made by a step."""
        found = Value(space, depth)
        if not any(space is one for one in (*self.nodes, self.graph)):
            found.stored = space.size * max(numel, 1) * size <= KEPT_BYTES
        return found

    def add(self, step: Step) -> Value:
        """Add a step to the plan."""
        self.steps.append(step)
        return step.output

    def rows(self, function: Callable[..., Tensor], *inputs: Value, numel: int = 1) -> Value:
        """A map of rows of one space."""
        depth = max(value.depth for value in inputs)
        distinct = list(dict.fromkeys(inputs))
        places = [distinct.index(value) for value in inputs]

        def arranged(*rows: Tensor) -> Tensor:
            return function(*(rows[at] for at in places))

        output = self.value(inputs[0].space, depth, numel)
        return self.add(
            Rows(arranged if len(distinct) < len(inputs) else function, distinct, output)
        )

    def apply(
        self,
        step: TapeStep,
        layout: Layout,
        args: Mapping[str, Any] | None = None,
        ids: Ids = "",
        func: Any = None,
    ) -> None:
        """The operation itself on rows: its results have rows along `layout`'s axis.

        Tensors among the arguments must be plain, or hold rows of one space.
        """
        given = dict(step.args if args is None else args)
        inputs: list[Tracked] = []
        slots: dict[int, Any] = {}
        for leaf in leaves(given):
            if isinstance(leaf, Ref) and leaf.id not in slots:
                found = self.known[leaf.id]
                slots[leaf.id] = found
                if isinstance(found, Tracked):
                    if inputs:
                        found = self.as_rows_of(found, inputs[0].space) or found
                    slots[leaf.id] = _Slot(len(inputs), found.layout)
                    inputs.append(found)
        if len({id(found.space) for found in inputs}) > 1:
            labels = " and ".join(dict.fromkeys(found.space.label for found in inputs))
            self.refuse(f"mixes rows of {labels}")
        operation = func or step.op.func
        args_, kwargs_ = bound(step, lambda ref: slots[ref.id], given, operation)
        operation = _copied if operation is aten.copy.default else operation

        call = _simply(operation, args_, kwargs_) or _anyhow(operation, args_, kwargs_)
        for place, number in enumerate(step.op.outs):
            if number is None:
                continue
            if not inputs:
                one = next(s for s in slots.values() if isinstance(s, Uniform))
                self.known[number] = Uniform(layout.rows(call([], 1)[place]), layout, one.sizes)
                continue

            def function(*rows: Tensor, place: int = place) -> Tensor:
                return layout.rows(call(rows, len(rows[0]))[place])

            numel = _numel(step.shapes[place], layout)
            made = self.rows(function, *(found.value for found in inputs), numel=numel)
            self.known[number] = Tracked(made, layout, ids)
            if isinstance(made.step, Rows) and func is None:
                made.step.form = _form(step.name, given, slots)
            if step.name == "mul" and len(inputs) == 2 and layout == Layout(0):
                self._note_scaling(made, inputs)

    def _note_scaling(self, made: Value, inputs: list[Tracked]) -> None:
        """Say so where a product scales each row of one factor by the other's one number."""
        none = torch.zeros(0, dtype=torch.long)
        rows = [found.value.at(none) for found in inputs]
        plain = all(found.layout == Layout(0) for found in inputs)
        step = made.step
        if step is None or not plain or inputs[0].value is inputs[1].value:
            return
        for wide, narrow in ((0, 1), (1, 0)):
            single = rows[narrow].dim() == rows[wide].dim() and all(
                n == 1 for n in rows[narrow].shape[1:]
            )
            if single and rows[wide].dim() >= 2 and rows[wide].dtype == rows[narrow].dtype:
                step.scales = inputs[wide].value
                return

    def apply_first(
        self, step: TapeStep, layout: Layout, args: Mapping[str, Any], func: Any = None
    ) -> None:
        """As `apply`, for an operation whose first result alone has rows."""
        number = step.op.outs[0]
        assert number is not None
        alone = replace(step.op, outs=(number,))
        self.apply(replace(step, op=alone), layout, args, func=func)

    def gathered(self, source: Value, index: Tensor, space: Space) -> Value:
        """Rows of `source` read by the rows of another space."""
        if not space.covers(index, source.space):
            self.refuse(f"reads rows of {source.space.label} that may be gone")
        if not space.goes_with(index, source.space):
            self.unsure(f"reads rows of {source.space.label} that may be gone without an edge")
        key = ("gather", id(source), id(index), id(space))
        if key not in self.named:
            numel = source.width if source.base is not None else 8
            depth = source.depth
            made = self.add(Gather(source, index, self.value(space, depth, numel)))
            self.named[key] = (made, index)  # the index is kept, so that its id stays its own
        return self.named[key][0]

    def scattered(
        self, source: Value, index: Tensor, start: Value, reduce: Reduce, keep_start: bool
    ) -> Value:
        """Rows of `source` reduced into those of another space."""
        space = start.space
        if not source.space.covers(index, space):
            self.refuse(f"reduces to rows of {space.label} that may be gone")
        if not source.space.goes_with(index, space):
            self.unsure(f"reduces to rows of {space.label} that may be gone without an edge")
        own = source.space
        unmoved = source.static and start.static and own.covered(index, space)
        unmoved = unmoved and own.comes_with(index, space)
        depth = -1 if unmoved else depth_after(source, start, space)
        output = Value(space, depth)
        return self.add(Scatter(source, index, start, reduce, keep_start, output))

    def concatenated(self, parts: Sequence[Value]) -> Value:
        """Rows of several values, one after the other, in a space of their own."""
        key = ("join", *(id(part.space) for part in parts))
        if key not in self.named:
            self.named[key] = self.entered(joined([part.space for part in parts]))
            inner = [self.parts_of(part.space) for part in parts]
            self.parts[id(self.named[key])] = [one for each in inner for one in each]
        output = self.value(self.named[key], max(part.depth for part in parts), 8)
        return self.add(Concat(parts, output))

    def subspace(self, parent: Space, rows: Tensor, key: tuple[Any, ...], sizes: Any) -> Space:
        """A space of some rows of another, the same one for the same choice."""
        if key not in self.named:
            self.named[key] = self.entered(parent.picked(rows, parent.label, tuple(sizes)))
        return self.named[key]

    def fixed(self, base: Tensor, space: Space) -> Value:
        """Given rows that no removal changes."""
        return Value(space, -1, base)

    def own_rows(self, tensor: Tensor, dim: int, space: Space) -> Tracked:
        """A tensor of the model's own that has a row for every row of a space on all graphs."""
        constant = len(set(space.sizes)) == 1
        if not constant or dim >= tensor.dim() or tensor.size(dim) != space.size:
            self.refuse("meets a tensor of the model's own that has a row for every node or edge")
        return Tracked(self.fixed(tensor.movedim(dim, 0), space), Layout(dim))

    def repeated(self, uniform: Uniform, space: Space) -> Value:
        """A uniform tensor's rows as rows of a space."""
        return self.fixed(uniform.rows.expand(space.size, *uniform.rows.shape[1:]), space)

    def broadcast(self, found: Tracked, space: Space) -> Value:
        """What is known of the whole graph, as a row `[…]` of every row of a space."""
        key = ("zeros", id(space))
        if key not in self.named:
            self.named[key] = torch.zeros(space.size, dtype=torch.long)
        return self.gathered(found.value, self.named[key], space)

    def count(self, space: Space) -> Tracked:
        """The number of rows of a space: a number that removals change."""
        key = ("count", id(space))
        if key not in self.named:
            ones = self.fixed(torch.ones(1, dtype=torch.long).expand(space.size), space)
            start = self.fixed(torch.zeros(1, dtype=torch.long), self.graph)
            index = torch.zeros(space.size, dtype=torch.long)
            self.named[key] = Tracked(self.scattered(ones, index, start, "sum", True), Layout(None))
        return self.named[key]


def _form(name: str, args: Mapping[str, Any], slots: Mapping[int, Any]) -> Form:
    """What is known of an operation as a map of rows; see `Rows`."""
    if name == "relu":
        return "relu"
    if name in ("mm", "addmm"):
        by = args.get("mat2")
        return "affine" if isinstance(by, Ref) and isinstance(slots[by.id], Tensor) else ""
    return "affine" if name in ("add", "sub") else ""


class _Slot:
    """A tracked tensor among an operation's arguments."""

    def __init__(self, place: int, layout: Layout) -> None:
        self.place, self.layout = place, layout


Call = Callable[[Sequence[Tensor], int], list[Any]]


def _simply(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call | None:
    """`operation` of rows, where they are arguments themselves and lie first; None else.

    Asked for every block of rows, of which there may be thousands in a second.
    """
    if not all(is_leaf(leaf) for leaf in kwargs.values()):
        return None
    if not all(is_leaf(a) or (isinstance(a, _Slot) and a.layout == Layout(0)) for a in args):
        return None
    places = [(a.place, None) if isinstance(a, _Slot) else (None, a) for a in args]

    def call(rows: Sequence[Tensor], count: int) -> list[Any]:
        out = operation(*[a if at is None else rows[at] for at, a in places], **kwargs)
        return list(out) if isinstance(out, tuple | list) else [out]

    return call


def _anyhow(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """`operation` of rows, wherever they are among its arguments and however they lie."""

    def call(rows: Sequence[Tensor], count: int) -> list[Any]:
        def put(a: Any) -> Any:
            if isinstance(a, _Slot):
                return a.layout.tensor(rows[a.place])
            if isinstance(a, Uniform):
                return a.layout.tensor(a.rows.expand(count, *a.rows.shape[1:]))
            if isinstance(a, RowCount):
                return a.factor * count
            return a

        out = operation(*mapped(put, args), **mapped(put, kwargs))
        return list(out) if isinstance(out, tuple | list) else [out]

    return call


def bound(
    step: TapeStep,
    put: Callable[[Ref], Any],
    given: Mapping[str, Any] | None = None,
    func: Any = None,
) -> tuple[list[Any], dict[str, Any]]:
    """An operation's arguments by position and by name, with `put` in place of every `Ref`."""
    given = step.args if given is None else given
    positional, named = [], {}
    for argument in (func or step.op.func)._schema.arguments:
        value = mapped(lambda a: put(a) if isinstance(a, Ref) else a, given[argument.name])
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    return positional, named


def _copied(own: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """`aten.copy` with a derivative."""
    return source.to(own.dtype).expand_as(own)


def _numel(shape: tuple[tuple[int, ...], ...], layout: Layout) -> int:
    """Numbers per row."""
    numel = layout.factor
    for axis, sizes in enumerate(shape):
        if axis != layout.axis:
            numel *= sizes[0]
    return numel
