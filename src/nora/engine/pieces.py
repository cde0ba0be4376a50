"""Convolutions that have a rule, followed as one piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from nora.engine.given import Given
from nora.engine.ledger import open_ledger
from nora.engine.plan import Plan, UnsupportedError
from nora.engine.rules import rule_for
from nora.engine.spaces import Space
from nora.engine.steps.step import Value
from nora.engine.tape.follow import Walk
from nora.engine.tape.kinds.structure import SIZED_BY_LARGEST
from nora.engine.tape.modules import DEFINITIONS, follow_call, result_of
from nora.engine.tape.program import lay_side_by_side
from nora.engine.tape.record import record
from nora.engine.tape.sizes import sizes_of, with_sizes
from nora.engine.tape.tape import Call, Ref, Tape
from nora.engine.tape.tracked import Known, Layout, Matrix, Tracked, Uniform
from nora.problem import Problem
from nora.stacklevel import warn

# What PyG calls in a convolution, and a user may have replaced on one of its own.
REPLACEABLE = (
    "forward", "message", "aggregate", "update", "propagate", "message_and_aggregate", "edge_update",
)  # fmt: skip

# Rows on which a map is recorded again, where its tapes on all of them are known.
FEW_ROWS = 5


def watched_modules(problem: Problem, rules: bool) -> dict[str, nn.Module]:
    """The convolutions and aggregations that are known as such and as their authors made them."""
    return {
        name: module
        for name, module in problem.model.named_modules()
        if (
            type(module) in (*DEFINITIONS, *SIZED_BY_LARGEST)
            or (rules and rule_for(module) is not None)
        )
        and _untouched(module)
    }


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


class Pieces:
    """Follows calls of modules that are known as one piece.

    Args:
        walk: The walk along the program.
        given: The graph's spaces.
    """

    def __init__(self, walk: Walk, given: Given) -> None:
        self.walk, self.given = walk, given
        self.program, self.all_nodes, self.nodes = walk.program, given.all_nodes, given.nodes
        self.problem = given.problem
        self.plan = Plan(self.all_nodes, self._mapped)
        self.plan.steps = walk.steps
        self.by_start = self._calls()

    def _calls(self) -> dict[int, Call]:
        """The calls that may be followed by a rule, by where they start; outer ones first."""
        made: dict[int, int] = {}
        for at, step in enumerate(self.program.steps):
            for number in step.op.outs:
                if number is not None:
                    made[number] = at
        last: dict[int, int] = {}
        for at, step in enumerate(self.program.steps):
            for ref in step.op.refs():
                last[ref.id] = at
        if isinstance(self.program.output, Ref):
            last[self.program.output.id] = len(self.program.steps)
        used_at = sorted(
            (made[number], number, until) for number, until in last.items() if number in made
        )
        calls = {}
        for call in self.program.calls:
            if not isinstance(call.out, Ref) or made.get(call.out.id, -1) not in range(
                call.start, call.end
            ):
                continue
            # Nothing else that it makes on the way may be read after it.
            leaks = any(
                call.start <= at < call.end <= until and number != call.out.id
                for at, number, until in used_at
            )
            if not leaks:
                calls[call.start] = call
        return calls

    def follow(self, walk: Walk, at: int) -> int:
        """Follow a convolution as one piece, where there is a rule for it; where to go on."""
        call = self.by_start.get(at)
        if call is None or call.end == at:
            return at
        if type(call.module) in DEFINITIONS:
            return follow_call(walk, call)
        rule = rule_for(call.module)
        if rule is None:
            return at
        before = len(walk.steps)
        named, spaces, unsure = dict(walk.named), list(walk.spaces), walk.unsure_of_edges
        self._weight: Tensor | None = None
        self._edges, self._said, self._loops = [], [], False
        try:
            args = [self._argument(a) for a in call.args]
            kwargs = {key: self._argument(a) for key, a in call.kwargs.items()}
            self._check_said()
            if self._loops and getattr(call.module, "add_self_loops", False):
                raise _NoRuleError  # to a matrix PyG adds them, beside edges it leaves those that are there
            if self._weight is not None:
                kwargs["edge_weight"] = self._weight
            home = self._home
            made = rule(self.plan, call.module, *args, **kwargs)
        except (_NoRuleError, UnsupportedError):
            made = None
        except (
            Exception
        ) as error:  # whatever a rule meets: it is followed operation by operation instead
            made = None
            if not rule.__module__.startswith("nora."):
                warn(
                    f"the rule for {type(call.module).__name__} fails ({type(error).__name__}: {error}): the "
                    "layer is followed operation by operation",
                    RuntimeWarning,
                )
        if made is None:
            # Whatever it has made so far is forgotten, by name too.
            del walk.steps[before:]
            walk.named, walk.spaces, walk.unsure_of_edges = named, spaces, unsure
            return at
        space = home
        assert isinstance(call.out, Ref)
        if space is not self.all_nodes:
            span = (
                torch.arange(space.size) + int(space.ends[0, 0]) if space.size else torch.arange(0)
            )
            walk.at = self.program.steps[call.end - 1]
            made = walk.gathered(made, span, space)
        walk.known[call.out.id] = Tracked(made, Layout(0))
        walk.shapes[call.out.id] = result_of(walk, call)[1]
        return call.end

    _home: Space
    _edges: list[Space]
    _said: list[Tracked]
    _loops: bool

    def _check_said(self) -> None:
        """What is said of edges must be said of those that are given, in their order, on every graph."""
        for said in self._said:
            if not any(self._alike(said.space, space) for space in self._edges):
                raise _NoRuleError

    def _alike(self, one: Space, other: Space) -> bool:
        if one is other:
            return True
        if one.sizes != other.sizes:
            return False
        every = torch.arange(one.size)
        if not (other.covers(every, one) and other.covered(every, one)):
            return False
        if not (other.goes_with(every, one) and other.comes_with(every, one)):
            self.walk.unsure(f"takes rows of {one.label} for rows of {other.label}")
        return True

    def _argument(self, argument: Any, pair: bool = False) -> Any:
        """An argument of a convolution as its rule gets it: values of nodes, tensors of edges."""
        if isinstance(argument, tuple | list):
            return tuple(self._argument(part) for part in argument)
        if isinstance(argument, dict):
            return {key: self._argument(part) for key, part in argument.items()}
        if not isinstance(argument, Ref):
            return argument
        if argument.id in self.program.foreign or argument.id not in self.walk.known:
            raise _NoRuleError
        found = self.walk.known[argument.id]
        if isinstance(found, Tensor):
            return found
        if isinstance(found, Matrix):
            return self._adjacency(found)
        if isinstance(found, Uniform):
            space = self.walk.space_of_size(found.sizes)
            if space is None or found.layout != Layout(0):
                raise _NoRuleError
            every = found.rows.expand(space.size, *found.rows.shape[1:]).contiguous()
            self.plan.tells(every, Value(space, -1, every))
            return every
        if any(found.space is space for space in self.nodes.values()):
            if found.layout != Layout(0) or found.ids:
                raise _NoRuleError
            self._home = found.space
            return self._on_the_line(found.value)
        if not found.value.static or not found.layout.plain:
            raise _NoRuleError
        if found.ids:
            return self._edge_index(found)
        if found.layout.axis != 0:
            raise _NoRuleError
        self._said.append(found)
        # What it says is read off once: where it is made of features, it is not edited with them.
        rows = found.value.whole()
        self.plan.tells(rows, found.value)
        return rows

    def _adjacency(self, found: Matrix) -> Tensor:
        """The edges of an adjacency; entries other than 1 are their weights, for rules that take some."""
        key = ("adjacency", id(found))
        if key not in self.walk.named:
            fits = found.rows is self.all_nodes and found.columns is self.all_nodes
            if not fits or not found.values.static:
                raise _NoRuleError
            self.walk.named[key] = (torch.stack([found.column, found.row]), found)
            self.plan.knows(self.walk.named[key][0], found.values.space)
        self._edges.append(found.space)
        self._loops = self._loops or bool((found.row == found.column).any())
        weight = found.values.whole()
        self.plan.tells(weight, found.values)
        self._weight = None if bool((weight == 1).all()) else weight
        return self.walk.named[key][0]

    def _edge_index(self, found: Tracked) -> Tensor:
        """Edges `[2, E]` between global ids; every one of them must go with its own ends alone."""
        self._edges.append(found.space)
        key = ("edges of all nodes", id(found.value))
        if key not in self.walk.named:
            rows = found.value.whole()
            if found.layout.axis != 1 or rows.dim() != 2 or rows.size(1) != 2:
                raise _NoRuleError
            ends = found.space.ends
            edges = self._shifted(rows.t(), ends)
            known = (ends.unsqueeze(1) == edges.unsqueeze(0)).any(dim=1)
            if not bool(known.all()):
                raise _NoRuleError
            self.walk.named[key] = (edges.contiguous(), found.value)
            self.plan.knows(self.walk.named[key][0], found.space)
        return self.walk.named[key][0]

    def _shifted(self, edges: Tensor, ends: Tensor) -> Tensor:
        """Edges with each type's numbers moved to the global ones."""
        if len(self.nodes) == 1:
            return edges
        if not edges.size(1):
            return edges
        starts = torch.tensor(sorted(self.problem.node_index.starts.values()))
        shifted = []
        for row in edges:
            fits = [
                row + start for start in starts if bool(((row + start) == ends).any(dim=0).all())
            ]
            if not fits:
                raise _NoRuleError
            shifted.append(fits)
        for source in shifted[0]:
            for target in shifted[1]:
                both = torch.stack([source, target])
                if bool((ends.unsqueeze(1) == both.unsqueeze(0)).any(dim=1).all()):
                    return both
        raise _NoRuleError

    def _on_the_line(self, value: Value) -> Value:
        """A type's rows among those of all nodes; the others' are zeros that nobody reads."""
        if value.space is self.all_nodes:
            return value
        key = ("all nodes", id(value))
        if key not in self.walk.named:
            none = value.at(torch.zeros(0, dtype=torch.long))
            parts = [
                value
                if space is value.space
                else Value(
                    space,
                    -1,
                    none.new_zeros(1, *none.shape[1:]).expand(space.size, *none.shape[1:]),
                )
                for space in self.nodes.values()
            ]
            made = self.walk.concatenated(parts)
            made.space = self.all_nodes
            made.stored = True
            self.walk.named[key] = (made, value)
        return self.walk.named[key][0]

    def _mapped(self, function: Callable[..., Tensor], values: tuple[Value, ...]) -> Value:
        """A map of somebody else's, followed operation by operation."""
        space = values[0].space
        counts = (space.size, max(1, space.size // 2), space.size + min(3, space.size))
        tapes = _map_recorded(function, values, counts)
        rowed = Space(space.label, counts, space.ends, space.num_nodes)
        twins = [Value(rowed, v.depth, v.whole()) for v in values]
        given: dict[str, Known] = {str(k): Tracked(t, Layout(0)) for k, t in enumerate(twins)}
        inner = Walk(lay_side_by_side(tapes), [], [rowed], given, space.num_nodes)
        inner.go()
        ref = inner.program.output
        found = inner.known.get(ref.id) if isinstance(ref, Ref) else None
        if not isinstance(found, Tracked) or found.layout != Layout(0) or found.space is not rowed:
            raise UnsupportedError("a layer's own map does not give one row per node")
        self.walk.guards += [one.of(rowed, space) for one in inner.guards]
        # The steps of this walk become steps of the plan, on the plan's own values.
        real = {id(twin): value for twin, value in zip(twins, values, strict=True)}
        for step in inner.steps:
            step.inputs = tuple(real.get(id(value), value) for value in step.inputs)
            if step.output.space is rowed:
                step.output.space = space
            self.walk.steps.append(step)
        return real.get(id(found.value), found.value)


def _map_recorded(
    function: Callable[..., Tensor], values: Sequence[Value], counts: tuple[int, ...]
) -> list[Tape]:
    """The tapes of a map on so many rows, the first of which are all there are."""

    def recorded(count: int) -> Tape:
        rows = [value.whole() for value in values]
        rows = [torch.cat([row, row[: max(count - len(row), 0)]])[:count] for row in rows]
        return record(partial(function, *rows), {str(k): row for k, row in enumerate(rows)})

    ledger = open_ledger()
    if ledger is None:
        return [recorded(count) for count in counts]
    name = ledger.name("map")
    if ledger.gives and name in ledger.notes:
        few = recorded(min(counts[0], FEW_ROWS))
        return [with_sizes(few, sizes) for sizes in ledger.notes[name]]
    tapes = [recorded(count) for count in counts]
    ledger.notes[name] = [sizes_of(tape) for tape in tapes]
    return tapes


class _NoRuleError(Exception):
    """A rule does not take these arguments."""
