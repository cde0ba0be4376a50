"""From any PyG model to a plan: record what it does, and follow every operation.

The model is recorded on the asked graph and on a few others, the tapes are laid side by side, and a walk
along them tells of every tensor whose rows it holds. Convolutions that have a rule are followed as one
piece; everything else operation by operation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from nora.guard import Witnessed
from nora.incremental.plan import Plan, UnsupportedError
from nora.incremental.recordings import other_graphs
from nora.incremental.rules import rule_for
from nora.incremental.spaces import Space, nodes_of
from nora.incremental.steps import Value
from nora.incremental.tape import kinds
from nora.incremental.tape.follow import Walk
from nora.incremental.tape.modules import DEFINITIONS, follow_call, result_of
from nora.incremental.tape.program import Program, lay_side_by_side
from nora.incremental.tape.record import Call, Ref, Tape, TooLongError, record
from nora.incremental.tape.tracked import Known, Layout, Matrix, Tracked, Uniform
from nora.numbering import Graph, numbering_of
from nora.problem import Problem
from nora.structure import edge_set_keys, matrix_entries
from nora.task import LinkPrediction, Task, dot_product

assert kinds  # importing them enters them
# What PyG calls in a convolution, and a user may have replaced on one of its own.
REPLACEABLE = (
    "forward", "message", "aggregate", "update", "propagate", "message_and_aggregate", "edge_update",
)  # fmt: skip
PAIRS, RELATION = "the pairs", "the relation of each pair"


def trace(problem: Problem, rules: bool = True) -> Plan:
    """The plan of the problem's model on its graph; call it in eval mode, without gradients.

    Args:
        problem: The question.
        rules: Follow convolutions that have a rule by it.

    Raises:
        UnsupportedError: When the model cannot be followed; the message names where.
    """
    watched = _watched(problem, rules and not problem.by_id)
    graphs: list[tuple[Graph, Task, int | None]] = [(problem.data, problem.task, None)]
    tapes: list[Tape] = []
    try:
        tapes.append(_recorded(problem, *graphs[0], watched))
        graphs += other_graphs(problem)
        tapes += [_recorded(problem, *graph, watched) for graph in graphs[1:]]
    except TooLongError as error:
        raise UnsupportedError(f"the model takes {error}") from error
    except Exception as error:  # whatever the model's own code raises
        told = str(error).splitlines()[0] if str(error) else ""
        where = "on a part of this graph" if tapes else "while it is recorded"
        raise UnsupportedError(
            f"the model fails {where}: {type(error).__name__}: {told}"
        ) from error
    program = lay_side_by_side(tapes)
    data, tasks, _ = zip(*graphs, strict=True)
    return _Follower(problem, program, list(data), list(tasks)).plan


def decodes(problem: Problem) -> bool:
    """Whether the plan ends in the scores of pairs; else it ends in the model's own output."""
    return isinstance(problem.task, LinkPrediction) and (
        problem.direct or problem.task.decoder is not dot_product
    )


def _recorded(
    problem: Problem, data: Graph, task: Task, gone: int | None, watched: Mapping[str, nn.Module]
) -> Tape:
    """The tape of the model, and of the decoder where there is one, on a graph.

    A pass without one node is noted: it is what the definition says of that node.
    """
    given = problem.asked(data, task)
    inputs = _tensors(given)
    if isinstance(task, LinkPrediction):
        inputs[PAIRS] = task.pairs
        if task.relation is not None:
            inputs[RELATION] = task.relation
    made: list[Any] = []

    def run() -> Any:
        output = problem.run(given)
        made.append(output)
        if not decodes(problem) or problem.direct:
            return output
        assert isinstance(task, LinkPrediction)
        more = () if task.relation is None else (task.relation,)
        return task.decoder(output, task.pairs, *more)

    start = time.perf_counter()
    tape = record(run, inputs, watched)
    if gone is not None and gone not in problem.witnessed:
        problem.witnessed[gone] = Witnessed(made[0], time.perf_counter() - start)
    return tape


def _tensors(data: Graph) -> dict[str, Tensor]:
    """Every tensor of a graph, by a name of its own."""
    found = {}
    for store in data.stores:
        for key, value in sorted(store.items()):
            if isinstance(value, Tensor):
                found[f"{getattr(store, '_key', None)}/{key}"] = value
    return found


def _watched(problem: Problem, rules: bool) -> dict[str, nn.Module]:
    """The convolutions and aggregations that are known as such and as their authors made them."""
    return {
        name: module
        for name, module in problem.model.named_modules()
        if (type(module) in DEFINITIONS or (rules and rule_for(module) is not None))
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


class _Follower:
    """Makes the plan of a program."""

    def __init__(
        self, problem: Problem, program: Program, graphs: list[Graph], tasks: list[Task]
    ) -> None:
        self.problem, self.program, self.graphs, self.tasks = problem, program, graphs, tasks
        line = problem.numbering
        counts = [numbering_of(data).counts for data in graphs]
        totals = tuple(sum(each) for each in counts)
        # Where weights go by node id, a removed node stays and loses its edges.
        stay = problem.by_id
        self.line = nodes_of("nodes", 0, totals, line.total, stay)
        self.nodes: dict[Any, Space] = {}
        if len(line.counts) == 1:
            self.nodes[line.types[0] if line.types else None] = self.line
        else:
            for at, kind in enumerate(line.types):
                sizes = tuple(each[at] for each in counts)
                label = f"nodes of type {kind!r}"
                self.nodes[kind] = nodes_of(label, line.starts[kind], sizes, line.total, stay)
        self.spaces: list[Space] = []
        given = self._given()
        self.walk = Walk(program, self.spaces, list(self.nodes.values()), given, line.total)
        self.plan = Plan(self.line, self._mapped)
        self.plan.steps = self.walk.steps
        self.by_start = self._calls()
        self.walk.go(self._by_rule)
        self.plan.output = self._output()

    def _given(self) -> dict[str, Known]:
        """What is known of every tensor of the graph."""
        found: dict[str, Known] = {}
        first = self.graphs[0]
        tensors = [_tensors(self.problem.asked(data, task)) for data, task in
                   zip(self.graphs, self.tasks, strict=True)]  # fmt: skip
        asked = self.problem.asked(first, self.problem.task)
        for store in asked.stores:
            key = getattr(store, "_key", None)
            sets = set(edge_set_keys(store)) if self._has_edges(store) else set()
            spaces = {name: self._edge_space(store, name, tensors) for name in sorted(sets)
                      if isinstance(store[name], Tensor)}  # fmt: skip
            for name, value in store.items():
                if not isinstance(value, Tensor):
                    continue
                full = f"{key}/{name}"
                sizes = [tuple(t[full].shape) for t in tensors]
                if name in spaces and value.layout == torch.strided and value.size(0) == 2:
                    found[full] = Tracked(Value(spaces[name], -1, value.t()), Layout(1), "id")
                elif name in spaces:
                    found[full] = self._matrix(store, value, spaces[name])
                else:
                    found[full] = self._attribute(asked, store, name, value, sizes, spaces)
        task = self.problem.task
        if isinstance(task, LinkPrediction):
            sizes_ = tuple(t.pairs.size(1) for t in self.tasks if isinstance(t, LinkPrediction))
            space = Space("pairs", sizes_, task.pairs, self.line.size)
            self.spaces.append(space)
            value = Value(space, -1, task.pairs.t())
            found[PAIRS] = Tracked(value, Layout(1), "id")
            if task.relation is not None:
                found[RELATION] = Tracked(Value(space, -1, task.relation), Layout(0))
        return {name: found[name] for name in self.program.inputs}

    def _has_edges(self, store: Any) -> bool:
        return self.problem.numbering.types == () or isinstance(getattr(store, "_key", None), tuple)

    def _starts(self, store: Any) -> tuple[int, int]:
        key = getattr(store, "_key", None)
        if not isinstance(key, tuple):
            return 0, 0
        starts = self.problem.numbering.starts
        return starts[key[0]], starts[key[2]]

    def _edge_space(self, store: Any, name: str, tensors: list[dict[str, Tensor]]) -> Space:
        """The rows of one edge set."""
        full = f"{getattr(store, '_key', None)}/{name}"
        value = store[name]
        label = "edges" if name == "edge_index" else f"edges of {name}"
        if isinstance(getattr(store, "_key", None), tuple):
            label = f"edges {store._key}"
        first, second = self._starts(store)
        if value.layout != torch.strided:
            row, column = matrix_entries(value)[0]  # transposed: rows are targets
            ends = torch.stack([column + first, row + second])
            sizes = tuple(matrix_entries(t[full])[0].size(1) for t in tensors)
        elif "adj" in name:
            raise UnsupportedError(f"data.{name} is a dense matrix, which is not followed")
        else:
            ends = torch.stack([value[0] + first, value[1] + second])
            sizes = tuple(t[full].size(1) for t in tensors)
        if "hyperedge" in name:
            ends = ends[:1]
        space = Space(label, sizes, ends, self.line.size)
        self.spaces.append(space)
        return space

    def _matrix(self, store: Any, value: Tensor, space: Space) -> Known:
        """An adjacency matrix of targets by sources."""
        key = getattr(store, "_key", None)
        kinds_ = (key[2], key[0]) if isinstance(key, tuple) else (key, key)
        rows, columns = (self.nodes.get(kind, self.line) for kind in kinds_)
        (row, column), weight = matrix_entries(value)
        assert weight is not None
        return Matrix(row, column, Value(space, -1, weight), rows, columns)

    def _attribute(
        self,
        data: Graph,
        store: Any,
        name: str,
        value: Tensor,
        shapes: list[tuple[int, ...]],
        spaces: dict[str, Space],
    ) -> Known:
        """A tensor that belongs to nodes, to edges, or to the graph."""
        kind = getattr(store, "_key", None)
        dim = data.__cat_dim__(name, value, store)
        dim = dim % max(value.dim(), 1) if isinstance(dim, int) else 0
        sizes = tuple(shape[dim] for shape in shapes) if value.dim() else ()
        candidates = [*spaces.values()]
        if kind in self.nodes:
            candidates.insert(0, self.nodes[kind])
        for space in candidates:
            if value.dim() and value.layout == torch.strided and space.sizes == sizes:
                return Tracked(Value(space, -1, value.movedim(dim, 0)), Layout(dim))
        if all(shape == shapes[0] for shape in shapes):
            return value
        raise UnsupportedError(f"data.{name} follows neither the nodes nor the edges")

    def _output(self) -> Value:
        """What was returned, as rows of all nodes or of the pairs."""
        ref = self.program.output
        if not isinstance(ref, Ref):
            raise UnsupportedError("the model does not return one tensor")
        if ref.id in self.walk.unknown:
            raise UnsupportedError(self.walk.unknown[ref.id])
        found = self.walk.known[ref.id]
        if isinstance(found, (Uniform, Tensor)):
            raise UnsupportedError("the model's output does not depend on the graph")
        wanted = None
        if decodes(self.problem):
            wanted = next(space for space in self.spaces if space.label == "pairs")
        if found.layout != Layout(0) or found.ids:
            raise UnsupportedError("the model's output is not one row per node")
        space = found.space
        fits = space is (wanted or self.line) or (
            wanted is None and _is_line(space, self.line.size)
        )
        if not fits:
            raise UnsupportedError(f"the model's output has rows of {space.label}")
        return found.value

    # -- rules

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

    def _by_rule(self, walk: Walk, at: int) -> int:
        """Follow a convolution as one piece, where there is a rule for it; where to go on."""
        call = self.by_start.get(at)
        if call is None or call.end == at:
            return at
        if type(call.module) in DEFINITIONS:
            return follow_call(walk, call)
        rule = rule_for(call.module)
        assert rule is not None
        before = len(walk.steps)
        try:
            args = [self._argument(a) for a in call.args]
            kwargs = {key: self._argument(a) for key, a in call.kwargs.items()}
            home = self._home
            made = rule(self.plan, call.module, *args, **kwargs)
        except Exception:  # whatever a rule meets: it is followed operation by operation instead
            made = None
        if made is None:
            del walk.steps[before:]
            return at
        space = home
        assert isinstance(call.out, Ref)
        if space is not self.line:
            span = (
                torch.arange(space.size) + int(space.ends[0, 0]) if space.size else torch.arange(0)
            )
            walk.at = self.program.steps[call.end - 1]
            made = walk.gathered(made, span, space)
        walk.known[call.out.id] = Tracked(made, Layout(0))
        walk.shapes[call.out.id] = result_of(walk, call)[1]
        return call.end

    _home: Space

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
            return found.rows.expand(space.size, *found.rows.shape[1:]).contiguous()
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
        return found.value.whole()

    def _adjacency(self, found: Matrix) -> Tensor:
        """The edges of an adjacency whose entries are all 1; others have no rule."""
        key = ("adjacency", id(found))
        if key not in self.walk.named:
            ones = found.values.static and bool((found.values.whole() == 1).all())
            if not ones or found.rows is not self.line or found.columns is not self.line:
                raise _NoRuleError
            self.walk.named[key] = (torch.stack([found.column, found.row]), found)
        return self.walk.named[key][0]

    def _edge_index(self, found: Tracked) -> Tensor:
        """Edges `[2, E]` between global ids; every one of them must go with its own ends alone."""
        key = ("line edges", id(found.value))
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
        return self.walk.named[key][0]

    def _shifted(self, edges: Tensor, ends: Tensor) -> Tensor:
        """Edges with each type's numbers moved to the global ones."""
        if len(self.nodes) == 1:
            return edges
        if not edges.size(1):
            return edges
        starts = torch.tensor(sorted(self.problem.numbering.starts.values()))
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
        if value.space is self.line:
            return value
        key = ("line", id(value))
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
            made.space = self.line
            made.stored = True
            self.walk.named[key] = (made, value)
        return self.walk.named[key][0]

    def _mapped(self, function: Callable[..., Tensor], values: tuple[Value, ...]) -> Value:
        """A map of somebody else's, followed operation by operation."""
        space = values[0].space
        whole = [value.whole() for value in values]
        tapes = []
        counts = []
        for rows in (
            whole,
            [w[: max(1, len(w) // 2)] for w in whole],
            [torch.cat([w, w[:3]]) for w in whole],
        ):
            rows = [row.clone() for row in rows]
            inputs = {str(k): row for k, row in enumerate(rows)}
            tapes.append(record(lambda rows=rows: function(*rows), inputs))  # type: ignore[misc]
            counts.append(len(rows[0]))
        rowed = Space(space.label, tuple(counts), space.ends, space.num_nodes)
        twins = [Value(rowed, v.depth, w) for v, w in zip(values, whole, strict=True)]
        given: dict[str, Known] = {str(k): Tracked(t, Layout(0)) for k, t in enumerate(twins)}
        inner = Walk(lay_side_by_side(tapes), [], [rowed], given, space.num_nodes)
        inner.go()
        ref = inner.program.output
        found = inner.known.get(ref.id) if isinstance(ref, Ref) else None
        if not isinstance(found, Tracked) or found.layout != Layout(0) or found.space is not rowed:
            raise UnsupportedError("a layer's own map does not give one row per node")
        # The steps of this walk become steps of the plan, on the plan's own values.
        real = {id(twin): value for twin, value in zip(twins, values, strict=True)}
        for step in inner.steps:
            step.inputs = tuple(real.get(id(value), value) for value in step.inputs)
            if step.output.space is rowed:
                step.output.space = space
            self.walk.steps.append(step)
        return real.get(id(found.value), found.value)


class _NoRuleError(Exception):
    """A rule does not take these arguments."""


def _is_line(space: Space, total: int) -> bool:
    if space.size != total or space.ends.size(0) < 1:
        return False
    return bool((space.ends == torch.arange(total)).all())
