"""The same pass on several graphs, laid side by side: what differs is what depends on the graph.

The traces must hold the same operations. A number that differs between them is a size (of nodes, of
edges, of what was made of them) or depends on the graph in a way that cannot be known; a tensor from
outside that differs was made from the graph behind torch's back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nora.engine.trace.trace import Call, Comparison, Ref, Trace, TracedOp, leaves, name_of
from nora.engine.unsupported import UnsupportedError
from nora.model.lines import Line


class CoincidenceError(UnsupportedError):
    """Two numbers that mean different things are the same on every recorded graph; others may help."""


@dataclass(frozen=True)
class Sized:
    """A number that differs between the graphs: its value on each, the asked one first."""

    values: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class AlignedOp:
    """One operation on all graphs.

    Attributes:
        func: The operation, in the form that writes to nothing.
        args: Its arguments by name, with `Ref`s for tensors and `Sized` for what differs.
        outs: Numbers of the tensors it returns; None for other results.
        shapes: For each result, its shape: for each axis the size on every graph.
        dtypes: For each result, its dtype.
        line: Where it was called.
        problem: Why it cannot be expressed as a function of its arguments, if it cannot.
    """

    func: Any
    args: dict[str, Any]
    outs: tuple[int | None, ...]
    shapes: tuple[tuple[tuple[int, ...], ...], ...]
    dtypes: tuple[torch.dtype | None, ...]
    line: Line
    problem: str = ""

    @property
    def name(self) -> str:
        """Its name without namespace, e.g. `mm`."""
        return name_of(self.func)

    def refs(self) -> Iterator[Ref]:
        """The tensors it takes."""
        return (leaf for leaf in leaves(self.args) if isinstance(leaf, Ref))


@dataclass(frozen=True, eq=False)
class AlignedProgram:
    """A pass that was seen to be the same on several graphs.

    Attributes:
        inputs: Numbers of the given tensors, by name.
        consts: Bindings that were there before.
        foreign: Numbers of tensors from outside that differ between the graphs.
        ops: The operations.
        calls: Calls of the watched modules.
        output: What was returned.
        comparisons: What the model's Python asked of sizes on the asked graph.
    """

    inputs: dict[str, int]
    consts: dict[int, Tensor]
    foreign: frozenset[int]
    ops: list[AlignedOp]
    calls: list[Call]
    output: Any
    graphs: int = 1
    count: int = field(default=0)
    comparisons: tuple[Comparison, ...] = ()


def align(traces: list[Trace]) -> AlignedProgram:
    """One program from the traces of a pass on several graphs, the asked one first.

    Raises:
        UnsupportedError: Where they part ways; the message names the line.
    """
    main, *others = traces
    if main.caught:
        raise UnsupportedError(
            f"the model catches an error of torch at {main.caught[0]}, which may not be raised on other "
            "graphs"
        )
    for other in others:
        for mine, its in zip(main.ops, other.ops, strict=False):
            if mine.func is its.func and len(mine.outs) != len(its.outs):
                raise UnsupportedError(
                    f"{mine.name} at {mine.line} returns another number of tensors on other graphs "
                    "(compute all rows in one operation, not in a loop)"
                )
            if mine.func is not its.func or mine.outs != its.outs:
                here, there = f"{mine.name} at {mine.line}", f"{its.name} at {its.line}"
                parting = f"{here}, but {there}" if here != there else f"before {here} or there"
                raise UnsupportedError(
                    f"the model runs other operations on other graphs: {parting} (no branch or loop may "
                    "depend on the graph)"
                )
        if len(main.ops) != len(other.ops):
            longer = main.ops if len(main.ops) > len(other.ops) else other.ops
            odd = longer[min(len(main.ops), len(other.ops))]
            raise UnsupportedError(
                f"the model runs {odd.name} on some graphs only, at {odd.line} "
                "(no branch or loop may depend on the graph)"
            )
        if main.inputs != other.inputs or main.output != other.output:
            raise UnsupportedError("the structure of the model's output depends on the graph")
    ops = [_merged(ops) for ops in zip(*(trace.ops for trace in traces), strict=True)]
    foreign = {
        number
        for number, tensor in main.consts.items()
        if not all(_same(tensor, other.consts.get(number)) for other in others)
    }
    return AlignedProgram(
        main.inputs, main.consts, frozenset(foreign), ops, main.calls, main.output, len(traces),
        main.count, _aligned(traces),
    )  # fmt: skip


def _aligned(traces: list[Trace]) -> tuple[Comparison, ...]:
    """The comparisons on the asked graph, with `Sized` for a number that is another one on another graph."""
    elsewhere = [_by_form(trace.comparisons) for trace in traces[1:]]
    found = []
    for (operation, line, form), ones in _by_form(traces[0].comparisons).items():
        for at, one in enumerate(ones):
            numbers = [_apart(one.operands)[1]]
            for other in elsewhere:
                there = [_apart(o.operands)[1] for o in other.get((operation, line, form), ())]
                if len(there) == len(ones):
                    numbers.append(there[at])
                elif there and numbers[0] not in there:
                    raise UnsupportedError(
                        f"a size is compared with a number that depends on the graph, at {line}"
                    )
            known = iter(
                each[0] if len(set(each)) == 1 else Sized(each)
                for each in zip(*numbers, strict=True)
            )
            found.append(one._replace(operands=_filled(form, known)))
    return tuple(sorted(found, key=lambda one: one.at))


def _by_form(comparisons: list[Comparison]) -> dict[tuple[Any, ...], list[Comparison]]:
    """Comparisons of the same sizes on the same line, numbers left out of account."""
    found: dict[tuple[Any, ...], list[Comparison]] = {}
    for one in comparisons:
        form, _ = _apart(one.operands)
        found.setdefault((one.operation, one.line, form), []).append(one)
    return found


def _apart(expression: Any) -> tuple[Any, tuple[Any, ...]]:
    """An expression with its numbers left out, and these."""
    if isinstance(expression, tuple) and expression and expression[0] == "size":
        return expression, ()
    if isinstance(expression, tuple):
        parts = [_apart(part) for part in expression]
        return tuple(form for form, _ in parts), sum((numbers for _, numbers in parts), ())
    return (None, (expression,)) if isinstance(expression, int | float) else (expression, ())


def _filled(form: Any, numbers: Iterator[Any]) -> Any:
    """The inverse of `_apart`."""
    if form is None:
        return next(numbers)
    if isinstance(form, tuple) and not (form and form[0] == "size"):
        return tuple(_filled(part, numbers) for part in form)
    return form


def _same(tensor: Tensor, other: Tensor | None) -> bool:
    if other is None:
        return False
    if torch.strided not in (tensor.layout, other.layout):
        return tensor is other
    if tensor is other or tensor.data_ptr() == other.data_ptr() != 0:
        return tensor.shape == other.shape
    if tensor.layout != torch.strided or tensor.shape != other.shape:
        return False
    both = (tensor == other) | (tensor != tensor) & (other != other)
    return tensor.dtype == other.dtype and bool(both.all())


def _merged(ops: tuple[TracedOp, ...]) -> AlignedOp:
    first = ops[0]
    args = {}
    for place, argument in enumerate(first.func._schema.arguments):
        given = [_argument(op, place, argument) for op in ops]
        args[argument.name] = _joined(given, first)
    shapes = []
    for k in range(len(first.outs)):
        each = [op.shapes[k] for op in ops]
        if len({len(shape) for shape in each}) != 1:
            raise UnsupportedError(f"{first.name} has other axes on other graphs, at {first.line}")
        shapes.append(tuple(zip(*each, strict=True)))
    return AlignedOp(
        first.func, args, first.outs, tuple(shapes), first.dtypes, first.line, first.problem
    )


def _argument(op: TracedOp, place: int, argument: Any) -> Any:
    if place < len(op.args) and not argument.kwarg_only:
        return op.args[place]
    if argument.name in op.kwargs:
        return op.kwargs[argument.name]
    return argument.default_value


def _joined(given: list[Any], op: TracedOp) -> Any:
    """The arguments of several graphs' operations as one value."""
    first = given[0]
    if isinstance(first, list | tuple):
        if any(not isinstance(other, list | tuple) or len(other) != len(first) for other in given):
            raise UnsupportedError(
                f"{op.name} takes another number of arguments on other graphs, at {op.line}"
            )
        return [_joined(list(each), op) for each in zip(*given, strict=True)]
    if isinstance(first, Ref):
        if any(other != first for other in given):
            raise UnsupportedError(f"{op.name} takes other tensors on other graphs, at {op.line}")
        return first
    if all(type(other) is type(first) and _equal(first, other) for other in given):
        return first
    if all(isinstance(other, int | float) for other in given):
        return Sized(tuple(given))
    raise UnsupportedError(f"{op.name} takes other arguments on other graphs, at {op.line}")


def _equal(a: Any, b: Any) -> bool:
    """Whether two arguments are the same; objects that cannot be compared (packed weights) are not."""
    try:
        return bool(a is b or a == b or (isinstance(a, float) and a != a and b != b))
    except NotImplementedError:
        return False
