"""From any PyG model to a plan: trace it once, with every convolution as one piece.

`torch.fx` gives the model as a graph of calls. Convolutions become what their rules say; everything
between two convolutions becomes one row-wise map, after a check that it does treat rows one by one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch_geometric.nn import MessagePassing

from nora.incremental.plan import PROBED_ROWS, Plan, UnsupportedError, same
from nora.incremental.rules import rule_for
from nora.incremental.steps import Value
from nora.incremental.typed_data import Attributes, StandIn
from nora.problem import Problem
from nora.removal import remove_nodes
from nora.typed import TypedForward


class RuleError(ValueError):
    """A rule does not compute what its convolution computes."""


class _Asked(nn.Module):
    """The model together with how it is called, as one traceable module of the data."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.model = problem.model
        self._forward = problem.forward
        self._data = problem.data

    def forward(self, data: Any) -> Any:
        if isinstance(self._forward, TypedForward):
            found = self._forward.call(self.model, StandIn(data, self._data))
            return self._forward.picked(found)
        return self._forward(self.model, data)


class _Tracer(fx.Tracer):
    """Opens only the modules that hold a convolution somewhere inside."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, MessagePassing) or not any(
            isinstance(inner, MessagePassing) for inner in m.modules()
        )


def trace(problem: Problem, finish: bool = True, check: bool = False) -> Plan:
    """The plan of the problem's model on its graph; call it in eval mode, without gradients.

    Args:
        problem: The question.
        finish: Compose maps and free rows, ready to run.
        check: Compare every rule's result on the whole graph with the module's own.

    Raises:
        UnsupportedError: When the model cannot be traced or is not local; the message names where.
    """
    asked = _Asked(problem)
    try:
        graph = _Tracer().trace(asked)
    except Exception as error:  # whatever user code does with a stand-in tensor
        name = type(problem.model).__name__
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnsupportedError(f"{name} cannot be traced by torch.fx: {reason}") from error
    try:
        return _Builder(problem, asked, graph, check).build(finish)
    except (UnsupportedError, RuleError):
        raise
    except Exception as error:  # what runs on the whole graph need not run on the engine's rows
        name = type(problem.model).__name__
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnsupportedError(f"{name} cannot be followed: {reason}") from error


class _Builder:
    """Walks the traced graph once and fills the plan."""

    def __init__(self, problem: Problem, asked: nn.Module, graph: fx.Graph, check: bool) -> None:
        self.problem, self.asked, self.graph, self.check = problem, asked, graph, check
        self.plan = Plan(problem.edge_index, problem.num_nodes)
        self.attributes = Attributes(problem)
        self.plan.known_edges += self.attributes.edges()
        self.values: dict[fx.Node, Value] = {}
        self.given: dict[fx.Node, Any] = {}
        self.kinds: dict[fx.Node, frozenset[str]] = {}
        self.constants: dict[str, Value] = {}

    def build(self, finish: bool) -> Plan:
        for node in self.graph.nodes:
            if node.op == "output":
                self.plan.output = self.output(node.args[0])
                if finish:
                    self.plan.finish()
                return self.plan
            self.visit(node)
        raise AssertionError("a traced graph ends in an output")

    def output(self, found: Any) -> Value:
        """The model's output; with several node types, each type's own on its part of the line."""
        if not isinstance(found, dict):
            return self.value(found, "the output")
        line = self.problem.numbering
        values = [self.value(part, f"the output of {kind!r}") for kind, part in found.items()]
        if len(line.types) == 1:
            return values[0]
        masks = [
            self.plan.constant(line.mask(kind).to(value.whole()).unsqueeze(-1))
            for kind, value in zip(found, values, strict=True)
        ]
        count = len(values)

        def joined(*rows: Tensor) -> Tensor:
            total = rows[0] * rows[count]
            for part, mask in zip(rows[1:count], rows[count + 1 :], strict=True):
                total = total + part * mask
            return total

        return self.plan.rows(joined, *values, *masks)

    def visit(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            self.kinds[node] = frozenset({"data"})
        elif node.op == "call_function" and node.target is getattr and self.is_data(node.args[0]):
            self.give(node, str(node.args[1]))
        elif self.is_convolution(node):
            self.convolve(node)
            self.kinds[node] = frozenset({"node"})
        else:
            self.kinds[node] = frozenset().union(*(self.kinds[n] for n in node.all_input_nodes))
            if "data" in self.kinds[node]:
                raise UnsupportedError(f"{self.describe(node)} takes the whole data object")

    def is_data(self, argument: Any) -> bool:
        return isinstance(argument, fx.Node) and argument.op == "placeholder"

    def is_convolution(self, node: fx.Node) -> bool:
        return node.op == "call_module" and isinstance(
            self.asked.get_submodule(str(node.target)), MessagePassing
        )

    def give(self, node: fx.Node, key: str) -> None:
        """An attribute of the data: what it is level with decides how it may be used."""
        if key in self.attributes:
            kind, tensor = self.attributes[key]
            if kind == "node":
                self.values[node] = self.constant(key, tensor)
            self.given[node] = tensor
            self.kinds[node] = frozenset({kind})
            return
        data = self.problem.data
        found = getattr(data, key, None)
        kind = "other"
        if key == "edge_index":
            kind = "graph"
        elif isinstance(found, Tensor) and data.is_node_attr(key):
            kind = "node"
            self.values[node] = self.plan.constant(found)
        elif isinstance(found, Tensor) and data.is_edge_attr(key):
            kind = "edge"
        elif self.follows_removal(key, found):
            raise UnsupportedError(f"data.{key} changes when a node is removed")
        self.given[node] = found
        self.kinds[node] = frozenset({kind})

    def constant(self, key: str, found: Tensor) -> Value:
        """A data attribute as a value, the same however often it is read."""
        if key not in self.constants:
            self.constants[key] = self.plan.constant(found)
        return self.constants[key]

    def follows_removal(self, key: str, found: Any) -> bool:
        """Whether a graph-level attribute is another one on a smaller graph, as `num_nodes` is."""
        if self.plan.num_nodes < 2:
            return False
        smaller = getattr(remove_nodes(self.problem.data, 0), key, None)
        if isinstance(found, Tensor) and isinstance(smaller, Tensor):
            return not torch.equal(found, smaller)
        return found is not smaller and found != smaller

    def describe(self, node: fx.Node) -> str:
        if node.op == "call_module":
            name = str(node.target).removeprefix("model.")
            return f"{name} ({type(self.asked.get_submodule(str(node.target))).__name__})"
        name = getattr(node.target, "__name__", str(node.target))
        inside = list((node.meta.get("nn_module_stack") or {}).values())
        if inside and inside[-1][0] != "model":
            module, kind = inside[-1]
            return f"{name} in {module.removeprefix('model.')} ({getattr(kind, '__name__', kind)})"
        return name

    def convolve(self, node: fx.Node) -> None:
        conv = self.asked.get_submodule(str(node.target))
        where = self.describe(node)
        args = fx.node.map_arg(node.args, lambda n: self.argument(n, where))
        kwargs = fx.node.map_arg(node.kwargs, lambda n: self.argument(n, where))
        if not any(isinstance(argument, Value) for argument in _flattened((args, kwargs))):
            raise UnsupportedError(f"{where} takes no node-level part of the data")
        try:
            value = rule_for(conv)(self.plan, conv, *args, **kwargs)
        except UnsupportedError as error:
            raise UnsupportedError(f"{where}: {error}") from error
        if self.check and not same(value.whole(), conv(*_whole(args), **_whole(kwargs))):
            raise RuleError(
                f"the rule for {where} does not give what the module gives on the whole graph; "
                "use method='brute' and report the module's options"
            )
        self.values[node] = value
        self.plan.convolutions.append((str(node.target), value))

    def argument(self, node: fx.Node, where: str) -> Any:
        """A convolution's argument: a value, or what it is on the whole graph."""
        kinds = self.kinds[node]
        if node in self.given and "node" not in kinds:
            return self.given[node]
        if "node" in kinds:
            return self.value(node, where)
        if "graph" in kinds:
            raise UnsupportedError(f"{where} gets edges that were changed on the way")
        segment, inputs = self.segment(node)
        out = segment(*(self.given[n] for n in inputs))
        if "edge" in kinds:
            count = out.size(0)
            some = torch.arange(0, count, max(2, count // PROBED_ROWS), device=out.device)
            rows = [self.given[n][some] for n in inputs if "edge" in self.kinds[n]]
            if len(rows) != len(inputs) or not same(segment(*rows), out[some]):
                raise UnsupportedError(f"{where} gets edge features that mix edges")
        return out

    def value(self, node: Any, where: str) -> Value:
        """The node-level value of a traced call: one row-wise map from convolutions and inputs."""
        if not isinstance(node, fx.Node):
            raise UnsupportedError(f"{where} is a {type(node).__name__}, not one tensor")
        if node in self.values:
            return self.values[node]
        segment, inputs = self.segment(node)
        for n in inputs:
            if self.kinds[n] & {"graph", "edge"}:
                raise UnsupportedError(f"{where} depends on edges outside a message-passing layer")
        values = [self.values[n] for n in inputs if n in self.values]
        if not values:
            raise UnsupportedError(f"{where} depends on no node-level input")
        fixed = {i: self.given[n] for i, n in enumerate(inputs) if n not in self.values}

        def function(*rows: Tensor) -> Tensor:
            supply = iter(rows)
            return segment(*(fixed[i] if i in fixed else next(supply) for i in range(len(inputs))))

        self.check_rows(node, segment, inputs, fixed)
        self.values[node] = self.plan.rows(function, *values)
        return self.values[node]

    def segment(self, node: fx.Node) -> tuple[fx.GraphModule, list[fx.Node]]:
        """Everything between `node` and the convolutions and inputs it comes from, as a module."""
        graph, copies, inputs = fx.Graph(), {}, []

        def copy(n: fx.Node) -> fx.Node:
            if n not in copies:
                if n in self.given or self.is_convolution(n):
                    inputs.append(n)
                    copies[n] = graph.placeholder(f"input_{len(inputs)}")
                else:
                    for before in n.all_input_nodes:
                        copy(before)
                    copies[n] = graph.node_copy(n, lambda old: copies[old])
            return copies[n]

        graph.output(copy(node))
        # Placeholders must come first, whatever the order in which they were met.
        for placeholder in reversed([n for n in graph.nodes if n.op == "placeholder"]):
            first = next(iter(graph.nodes))
            if placeholder is not first:
                first.prepend(placeholder)
        return fx.GraphModule(self.asked, graph), inputs

    def check_rows(
        self, node: fx.Node, segment: fx.GraphModule, inputs: list[fx.Node], fixed: dict[int, Any]
    ) -> None:
        """Raise, naming the culprit, unless the segment treats every row by itself."""
        n = self.plan.num_nodes
        generator = torch.Generator().manual_seed(1)
        # Never all rows: what mixes them shows only where some are missing.
        some = torch.randperm(n, generator=generator)[: max(1, min(PROBED_ROWS, n // 2))]
        some = some.to(self.plan.edge_index.device)
        whole = [fixed[i] if i in fixed else self.values[m].whole() for i, m in enumerate(inputs)]
        part = [fixed[i] if i in fixed else w[some] for i, w in enumerate(whole)]
        full, few = _Recorder(segment), _Recorder(segment)
        # On copies: an activation in place would overwrite the original rows.
        full.run(*(w.clone() if i not in fixed else w for i, w in enumerate(whole)))
        # A call that fails on a few rows leaves no record, and is named below.
        with contextlib.suppress(RuntimeError, IndexError, ValueError):
            few.run(*part)
        end = next(m for m in segment.graph.nodes if m.op == "output").args[0]
        whole_out, some_out = full.seen.get(end), few.seen.get(end)
        if not isinstance(whole_out, Tensor) or whole_out.dim() < 1 or whole_out.size(0) != n:
            raise UnsupportedError(f"{self.describe(node)} does not return one row per node")
        if isinstance(some_out, Tensor) and same(some_out, whole_out[some]):
            return
        places = iter(range(len(inputs)))
        follows: set[fx.Node] = set()
        for inner in segment.graph.nodes:
            if inner.op == "placeholder":
                if next(places) not in fixed:
                    follows.add(inner)
                continue
            if inner.op == "output" or not follows.intersection(inner.all_input_nodes):
                continue
            follows.add(inner)
            big, small = full.seen.get(inner), few.seen.get(inner)
            if not isinstance(big, Tensor):
                continue
            touched = big.dim() > 0 and big.size(0) == n
            same_rows = isinstance(small, Tensor) and (
                same(small, big[some]) if touched else same(small, big)
            )
            if not same_rows:
                raise UnsupportedError(f"{self.describe(inner)} mixes rows of different nodes")
        raise UnsupportedError(f"{self.describe(node)} mixes rows of different nodes")


class _Recorder(fx.Interpreter):
    """Runs a segment and keeps what every call returned."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.seen: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        self.seen[n] = result
        return result


def _flattened(argument: Any) -> Iterator[Any]:
    """The leaves of nested arguments."""
    if isinstance(argument, tuple | list):
        for part in argument:
            yield from _flattened(part)
    elif isinstance(argument, dict):
        yield from _flattened(list(argument.values()))
    else:
        yield argument


def _whole(argument: Any) -> Any:
    if isinstance(argument, Value):
        return argument.whole()
    if isinstance(argument, tuple | list):
        return type(argument)(_whole(part) for part in argument)
    if isinstance(argument, dict):
        return {key: _whole(part) for key, part in argument.items()}
    return argument
