"""From a tape to a plan: every operation is of a known kind, or is named with its line.

The walk goes through the operations once, in order. A *kind* (see `kinds/`) says what an operation does
with rows: it treats each by itself, reads rows of one space from another, reduces rows to those of
another, makes edges out of edges. What no kind covers is done on the whole graph anew for every removal,
as long as its result has rows or is about the whole graph; what remains is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from nora.engine.plan import UnsupportedError
from nora.engine.tape.builder import Builder, bound
from nora.engine.tape.guarded import lowered
from nora.engine.tape.program import Sized
from nora.engine.tape.program import Step as TapeStep
from nora.engine.tape.tape import Ref, name_of
from nora.engine.tape.tracked import Layout, Matrix, Tracked
from nora.engine.tape.trees import leaves

aten = torch.ops.aten

Kind = Any  # a function of the walk and the operation
KINDS: dict[str, Kind] = {}
# The same for operations on sparse matrices, or that make one.
MATRICES: dict[str, Kind] = {}
MAKE_MATRICES = (
    "_sparse_coo_tensor_with_dims_and_tensors", "_sparse_coo_tensor_unsafe", "sparse_of_edges",
)  # fmt: skip


def kind(*names: str) -> Callable[[Kind], Kind]:
    """Decorator: the function says what these operations (by their names in ATen) do with rows."""

    def enter(function: Kind) -> Kind:
        for name in names:
            there = KINDS.get(name)
            # A module that is imported twice, under two names, enters its own kinds again.
            if there is not None and there.__code__.co_filename != function.__code__.co_filename:
                raise ValueError(f"{name} has a kind already")
            KINDS[name] = function
        return function

    return enter


@cache
def is_pointwise(func: Any) -> bool:
    """Whether torch tags an operation as one on every entry by itself; tags are per overload.

    `equal`, which makes one answer of all entries, and `rrelu`, which draws numbers, carry the tag, too.
    """
    return torch.Tag.pointwise in func.tags and not (
        reads_values(func) or torch.Tag.nondeterministic_seeded in func.tags
    )


@cache
def reads_values(func: Any) -> bool:
    """Whether an operation hands a value to Python, or makes a tensor whose length depends on values.

    `index` does so for masks alone: see `Walk._reads_values`.
    """
    tags = func.tags
    if torch.Tag.data_dependent_output in tags or name_of(func) == "is_nonzero":
        return True
    return torch.Tag.dynamic_output_shape in tags and name_of(func) != "index"


class Walk(Builder):
    """A walk along a program that makes the steps of a plan; see `Tensors` for what it is given."""

    def go(self, shortcut: Callable[[Walk, int], int] | None = None) -> None:
        """Follow every operation; `shortcut` may follow several at once and says where to go on."""
        at = 0
        as_one: list[tuple[int, int]] = []
        while at < len(self.program.steps):
            skipped = at if shortcut is None else shortcut(self, at)
            if skipped > at:
                as_one.append((at, skipped))
                at = skipped
                continue
            self.follow(self.program.steps[at])
            at += 1
        self.guards += lowered(self, as_one)

    def follow(self, step: TapeStep) -> None:
        """Follow one operation."""
        self.at = step
        try:
            self._follow(step)
        except UnsupportedError:
            raise
        except Exception as error:  # an operation in a form that its kind does not know
            told = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnsupportedError(
                f"{step.name} at {step.op.line} is used in a way that is not followed ({told})"
            ) from error

    def _again(self, step: TapeStep) -> bool:
        """Whether the same was done before with the same: layers normalise the same edges anew."""
        given = leaves(step.args)
        key = (
            step.op.func,
            *(
                ("ref", self.first.get(a.id, a.id)) if isinstance(a, Ref) else repr(a)
                for a in given
            ),
            step.shapes,
        )
        outs = self.done.setdefault(key, step.op.outs)
        if outs is step.op.outs or len(outs) != len(step.op.outs):
            return False
        for before, number in zip(outs, step.op.outs, strict=True):
            if number is None or before is None:
                continue
            self.first[number] = before
            self.shapes[number] = self.shapes[before]
            if before in self.known:
                self.known[number] = self.known[before]
            if before in self.unknown:
                self.unknown[number] = self.unknown[before]
        return True

    def _follow(self, step: TapeStep) -> None:
        op = step.op
        if op.problem:
            self.refuse(op.problem)
        for ref in op.refs():
            if ref.id in self.program.foreign:
                self.refuse("takes a tensor that was made from the graph outside of torch")
            if ref.id in self.unknown:
                raise UnsupportedError(self.unknown[ref.id])
        for number, shape in zip(op.outs, step.shapes, strict=True):
            if number is not None:
                self.shapes[number] = shape
        if torch.Tag.nondeterministic_seeded in op.func.tags:
            self.refuse("draws random numbers")
        if self._again(step):
            return
        operands = self.operands(step.args)
        if step.name == "arange" and self._numbers_nodes(step):
            return
        if all(isinstance(o, Tensor) for o in operands) and not _sized(step):
            self._plainly(step)
            return
        if any(isinstance(o, Matrix) for o in operands) or step.name in MAKE_MATRICES:
            if step.name not in MATRICES:
                self.refuse("does something with a sparse matrix that is not followed")
            MATRICES[step.name](self, step)
            return
        tracked = [o for o in operands if not isinstance(o, Tensor)]
        if (
            tracked
            and all(isinstance(o, Tracked) and o.space is self.graph for o in tracked)
            and not _sized(step)
            and not any(len(set(n)) > 1 for shape in step.shapes for n in shape)
            and not self._reads_values(step)
        ):
            KINDS["each"](self, step)
            return
        name = "pointwise" if is_pointwise(op.func) else step.name
        handler = KINDS[name] if name in KINDS else KINDS["*"]
        handler(self, step)

    def _reads_values(self, step: TapeStep) -> bool:
        """Whether a result, or its length, is read off values."""
        if step.name == "index":
            return any(ref is not None and self.is_mask(self[ref]) for ref in step.args["indices"])
        return reads_values(step.op.func)

    def _numbers_nodes(self, step: TapeStep) -> bool:
        """Whether an operation counts nodes whose number is the same on all graphs."""
        end = step.args["end"]
        if (
            isinstance(end, Sized)
            or step.args.get("start", 0) != 0
            or step.args.get("step", 1) != 1
        ):
            return False
        sizes = (end,) * self.program.graphs
        space = next((space for space in self.nodes if space.sizes == sizes), None)
        if space is None or step.op.dtypes[0] != torch.long:
            return False
        self.set(Tracked(self.fixed(torch.arange(space.size), space), Layout(0), "id"))
        return True

    def _plainly(self, step: TapeStep) -> None:
        """Nothing here depends on the graph."""
        args, kwargs = bound(step, lambda ref: self.known[ref.id])
        out = step.op.func(*args, **kwargs)
        for number, leaf in zip(step.op.outs, leaves(out), strict=False):
            if number is not None:
                self.known[number] = leaf


def _sized(step: TapeStep) -> bool:
    return any(isinstance(a, Sized) for a in leaves(step.args))
