"""Lower the call of a module as one operation, if its class has a lowering."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from nora.engine.ir.op import Value
from nora.engine.ir.space import Space
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Known, Layout, Matrix, Picked, Pointers, Tracked, Uniform
from nora.engine.lower.lower_program import lower_program
from nora.engine.lower.lowerings import Lowering, lowering_of
from nora.engine.store.array_store import open_array_store
from nora.engine.trace.align import AlignedProgram, align
from nora.engine.trace.recorder import record
from nora.engine.trace.sizes import sizes_of, with_sizes
from nora.engine.trace.trace import Call, Ref, Trace
from nora.engine.unsupported import UnsupportedError, described
from nora.stacklevel import warn

# What PyG calls in a convolution, and a user may have replaced on one of its own.
REPLACEABLE = (
    "forward", "message", "aggregate", "update", "propagate", "message_and_aggregate", "edge_update",
)  # fmt: skip
# Rows on which a map is traced again, where its traces on all of them are known.
FEW_ROWS = 5


def watched_modules(model: nn.Module, rules: bool) -> dict[str, nn.Module]:
    """The modules that have a lowering and are unmodified.

    Args:
        model: The model.
        rules: Also convolutions that have a lowering.
    """
    found = {}
    for name, module in model.named_modules():
        lowering = lowering_of(module)
        if lowering is not None and (lowering.raw or rules) and _untouched(module):
            found[name] = module
    return found


def _untouched(module: nn.Module) -> bool:
    if any(name in vars(module) for name in REPLACEABLE):
        return False
    hooks = [
        value
        for name, value in vars(module).items()
        if name.endswith("_hooks") and name not in ("_forward_pre_hooks", "_forward_hooks")
    ]
    explained = isinstance(module, MessagePassing) and bool(getattr(module, "explain", False))
    return not explained and not any(len(hook) for hook in hooks if hasattr(hook, "__len__"))


class Calls:
    """The calls of a traced program that can be lowered as one.

    Args:
        builder: What lowerings build with.
        starts: The first global id of every node type; empty without types.
    """

    def __init__(self, builder: Builder, starts: Mapping[Any, int]) -> None:
        self.builder, self.starts = builder, starts
        self.by_start = _closed_calls(builder.traced)

    def lower(self, at: int) -> int:
        """Lower the call that begins at an operation; returns where to continue (`at` if there is no
        call)."""
        call = self.by_start.get(at)
        lowering = None if call is None or call.end == at else lowering_of(call.module)
        if call is None or lowering is None:
            return at
        builder = self.builder
        op = next(op for op in builder.traced.ops[call.start : call.end] if call.out.id in op.outs)
        builder.result_shape = op.shapes[op.outs.index(call.out.id)]
        builder.at = op
        before, named, spaces = len(builder.ops), dict(builder.named), list(builder.spaces)
        unsure = builder.unsure_of_edges
        made: Known | None = None
        try:
            made = (self._raw if lowering.raw else self._convolution)(lowering, call)
        except (_NotApplicableError, UnsupportedError):
            if lowering.raw:
                raise
        except Exception as error:  # a defect of the lowering must not end the user's run
            what = f"{call.name or 'the model'} ({type(call.module).__name__})"
            builder.notes.failures.append(f"the lowering of {what} fails ({described(error)})")
            warn(
                f"{builder.notes.failures[-1]}: the layer is lowered operation by operation",
                RuntimeWarning,
            )
        if made is None:  # operations that were added on the way are forgotten, by name too
            del builder.ops[before:]
            builder.named, builder.spaces, builder.unsure_of_edges = named, spaces, unsure
            return at
        builder.known[call.out.id] = made
        builder.shapes[call.out.id] = builder.result_shape
        return call.end

    def _raw(self, lowering: Lowering, call: Call) -> Known | None:
        known = self.builder.known

        def argument(one: Any) -> Any:
            return known.get(one.id) if isinstance(one, Ref) else one

        args = [argument(one) for one in call.args]
        kwargs = {name: argument(one) for name, one in call.kwargs.items()}
        return lowering.function(self.builder, call.module, *args, **kwargs)

    def _convolution(self, lowering: Lowering, call: Call) -> Known | None:
        builder = self.builder
        given = _ConvArguments(builder, self.starts)
        args = [given.of(a) for a in call.args]
        kwargs = {key: given.of(a) for key, a in call.kwargs.items()}
        kwargs |= given.checked(call.module)
        if kwargs.keys() - inspect.signature(lowering.function).parameters.keys():
            raise _NotApplicableError  # weights of an adjacency, in a layer that has none
        made: Value | None = lowering.function(builder, call.module, *args, **kwargs)
        if made is None:
            return None
        if given.home is not None and given.home is not builder.all_nodes:
            space = given.home
            start = int(space.ends[0, 0]) if space.size else 0
            made = builder.gathered(made, torch.arange(space.size) + start, space)
        return Tracked(made, Layout(0))


def _closed_calls(program: AlignedProgram) -> dict[int, Call]:
    """Calls of which only the result is read later, by their first operation; outer calls first."""
    made: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, op in enumerate(program.ops):
        made.update({number: at for number in op.outs if number is not None})
        last.update({ref.id: at for ref in op.refs()})
    if isinstance(program.output, Ref):
        last[program.output.id] = len(program.ops)
    used_at = sorted(
        (made[number], number, until) for number, until in last.items() if number in made
    )
    calls = {}
    for call in program.calls:
        if not isinstance(call.out, Ref):
            continue
        if made.get(call.out.id, -1) not in range(call.start, call.end):
            continue
        leaks = any(
            call.start <= at < call.end <= until and number != call.out.id
            for at, number, until in used_at
        )
        if not leaks:
            calls[call.start] = call
    return calls


class _ConvArguments:
    """Arguments of a convolution as its lowering gets them: values of all nodes, tensors of edges.

    Args:
        builder: What lowerings build with.
        starts: The first global id of every node type; empty without types.

    Attributes:
        home: The nodes whose rows the last node-level argument holds, and so does the result.
    """

    def __init__(self, builder: Builder, starts: Mapping[Any, int]) -> None:
        self.builder, self.starts = builder, starts
        self.home: Space | None = None
        self._edges: list[Space] = []
        self._attributes: list[Tracked] = []
        self._weight: Tensor | None = None
        self._loops = False

    def of(self, argument: Any) -> Any:
        """One argument.

        Raises:
            _NotApplicableError: Where a lowering cannot take it.
        """
        if isinstance(argument, tuple | list):
            return tuple(self.of(part) for part in argument)
        if isinstance(argument, dict):
            return {key: self.of(part) for key, part in argument.items()}
        if not isinstance(argument, Ref):
            return argument
        builder = self.builder
        if argument.id in builder.traced.foreign or argument.id not in builder.known:
            raise _NotApplicableError
        found = builder.known[argument.id]
        if isinstance(found, Tensor):
            return found
        if isinstance(found, Matrix):
            return self._adjacency(found)
        if isinstance(found, Picked | Pointers):
            raise _NotApplicableError
        if isinstance(found, Uniform):
            space = builder.space_of_size(found.sizes)
            if space is None or found.layout != Layout(0):
                raise _NotApplicableError
            every = found.rows.expand(space.size, *found.rows.shape[1:]).contiguous()
            builder.conv_edges.values[every] = Value(space, -1, every)
            return every
        if any(found.space is space for space in builder.nodes):
            if found.layout != Layout(0) or found.ids or _in_half_precision(found.value):
                raise _NotApplicableError
            self.home = found.space
            return self._of_all_nodes(found.value)
        if not found.value.static or not found.layout.plain:
            raise _NotApplicableError
        if found.ids:
            return self._edge_index(found)
        if found.layout.axis != 0:
            raise _NotApplicableError
        self._attributes.append(found)
        # It is read once: where it is made of features, it is not edited with them.
        rows = found.value.base_rows()
        builder.conv_edges.values[rows] = found.value
        return rows

    def checked(self, conv: nn.Module) -> dict[str, Tensor]:
        """Further arguments by name, after all others are known.

        Edge attributes must belong to the edges that are given, in their order, on every graph.
        """
        for one in self._attributes:
            same = (
                one.space is space or self.builder.same_rows(one.space, space) is not None
                for space in self._edges
            )
            if not any(same):
                raise _NotApplicableError
        if self._loops and getattr(conv, "add_self_loops", False):
            # To a matrix PyG adds them; beside edges it leaves those that are there.
            raise _NotApplicableError
        if self.home is None:
            raise _NotApplicableError
        return {} if self._weight is None else {"edge_weight": self._weight}

    def _adjacency(self, found: Matrix) -> Tensor:
        """The edges of an adjacency; entries other than 1 are their weights."""
        builder, key = self.builder, ("adjacency", found)
        if key not in builder.named:
            fits = found.rows is builder.all_nodes and found.columns is builder.all_nodes
            if not fits or not found.values.static:
                raise _NotApplicableError
            builder.named[key] = torch.stack([found.column, found.row])
            builder.conv_edges.spaces[builder.named[key]] = found.values.space
        self._edges.append(found.space)
        self._loops = self._loops or bool((found.row == found.column).any())
        weight = found.values.base_rows()
        builder.conv_edges.values[weight] = found.values
        self._weight = None if bool((weight == 1).all()) else weight
        return builder.named[key]

    def _edge_index(self, found: Tracked) -> Tensor:
        """Edges `[2, E]` between global ids; every one of them must be removed with its own ends alone."""
        self._edges.append(found.space)
        builder, key = self.builder, ("edges of all nodes", found.value)
        if key not in builder.named:
            rows = found.value.base_rows()
            if found.layout.axis != 1 or rows.dim() != 2 or rows.size(1) != 2:
                raise _NotApplicableError
            ends = found.space.ends
            edges = self._global(rows.t(), ends)
            known = (ends.unsqueeze(1) == edges.unsqueeze(0)).any(dim=1)
            if not bool(known.all()):
                raise _NotApplicableError
            builder.named[key] = edges.contiguous()
            builder.conv_edges.spaces[builder.named[key]] = found.space
        return builder.named[key]

    def _global(self, edges: Tensor, ends: Tensor) -> Tensor:
        """Edges with the ids of each node type moved to global ones."""
        if len(self.builder.nodes) == 1 or not edges.size(1):
            return edges
        shifted = [
            [row + start for start in sorted(self.starts.values())
             if bool(((row + start) == ends).any(dim=0).all())]
            for row in edges
        ]  # fmt: skip
        for source in shifted[0]:
            for target in shifted[1]:
                both = torch.stack([source, target])
                if bool((ends.unsqueeze(1) == both.unsqueeze(0)).any(dim=1).all()):
                    return both
        raise _NotApplicableError

    def _of_all_nodes(self, value: Value) -> Value:
        """A type's rows among those of all nodes; the other rows are zeros, which nothing reads."""
        builder = self.builder
        if value.space is builder.all_nodes:
            return value
        key = ("all nodes", value)
        if key not in builder.named:
            none = value.none
            zeros = none.new_zeros(1, *none.shape[1:])
            parts = [
                value
                if space is value.space
                else Value(space, -1, zeros.expand(space.size, *none.shape[1:]))
                for space in builder.nodes
            ]
            made = builder.concatenated(parts)
            made.space = builder.all_nodes
            made.stored = True
            builder.named[key] = made
        return builder.named[key]


def _in_half_precision(value: Value) -> bool:
    """Whether half precision makes a difference between two mathematically equal formulas."""
    dtype = value.none.dtype
    return dtype.is_floating_point and dtype not in (torch.float, torch.double)


def lowered_map(
    builder: Builder, function: Callable[..., Tensor], values: Sequence[Value]
) -> Value:
    """A user's row-wise function, traced on this number of rows, and on fewer and more."""
    space = values[0].space
    counts = (space.size, max(1, space.size // 2), space.size + min(3, space.size))
    rowed = Space(space.label, counts, space.ends, space.num_nodes)
    twins = [Value(rowed, v.depth, v.base_rows()) for v in values]
    given: dict[str, Known] = {str(k): Tracked(t, Layout(0)) for k, t in enumerate(twins)}
    traced = align(_map_traces(function, values, counts))
    inner = Builder(traced, given, rowed, [rowed], [], space.num_nodes)
    lower_program(inner)
    ref = traced.output
    found = inner.known.get(ref.id) if isinstance(ref, Ref) else None
    if not isinstance(found, Tracked) or found.layout != Layout(0) or found.space is not rowed:
        raise UnsupportedError("a network inside the layer does not return one row per node")
    builder.guards += [one.of(rowed, space) for one in inner.guards]
    # The operations become operations of the outer program, on its own values.
    real = dict(zip(twins, values, strict=True))
    for op in inner.ops:
        op.inputs = tuple(real.get(value, value) for value in op.inputs)
        if op.output.space is rowed:
            op.output.space = space
        builder.ops.append(op)
    return real.get(found.value, found.value)


def _map_traces(
    function: Callable[..., Tensor], values: Sequence[Value], counts: tuple[int, ...]
) -> list[Trace]:
    """The traces of a function on these numbers of rows, the first of which is the real one."""

    def traced(count: int) -> Trace:
        rows = [value.base_rows() for value in values]
        rows = [torch.cat([row, row[: max(count - len(row), 0)]])[:count] for row in rows]
        return record(partial(function, *rows), {str(k): row for k, row in enumerate(rows)})

    array_store = open_array_store()
    if array_store is None:
        return [traced(count) for count in counts]
    name = array_store.name("map")
    if array_store.gives and name in array_store.notes:
        few = traced(min(counts[0], FEW_ROWS))
        return [with_sizes(few, sizes) for sizes in array_store.notes[name]]
    traces = [traced(count) for count in counts]
    array_store.notes[name] = [sizes_of(trace) for trace in traces]
    return traces


class _NotApplicableError(Exception):
    """A lowering does not take these arguments."""
