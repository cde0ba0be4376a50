"""A model written as row-wise maps, weighted sums and neighbourhoods: what rules build.

A rule is a convolution re-told in these words. It is run once, on the whole graph; every call both
computes the original rows and notes the step, so that the steps can later be run on changed rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.utils import add_remaining_self_loops

from nora.incremental import vectorised
from nora.incremental.blend import Blend
from nora.incremental.changed import Attention, Changed, Removals
from nora.incremental.edges import Edges, Normalise
from nora.incremental.steps import Attend, Chunk, Local, Propagate, Rows, Step, Value, compose

PROBED_ROWS = 8


class UnsupportedError(Exception):
    """The engine cannot follow this model; the message says where and why."""


def same(a: Tensor, b: Tensor) -> bool:
    """Equal up to rounding, relative to the largest entry of `b`."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not b.is_floating_point() or not b.numel():
        return bool(torch.equal(a, b))
    different = a != b  # equal infinities do not differ
    if not bool(different.any()):
        return True
    finite = b[b.isfinite()]
    largest = finite.abs().max() if finite.numel() else b.new_zeros(())
    tolerance = 1e-9 if b.dtype == torch.double else 1e-4
    return bool(((a - b)[different].abs() <= tolerance * largest).all())


def harmless(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> Callable[..., Tensor]:
    """`function`, on copies if it writes to its inputs, as `nn.ReLU(inplace=True)` does.

    Original rows are shared by all removals: nothing may overwrite them.
    """
    few = [rows[:2].clone() for rows in inputs]
    before = [rows._version for rows in few]
    function(*few)
    if [rows._version for rows in few] == before:
        return function
    return lambda *rows: function(*(part.clone() for part in rows))


class Plan:
    """The steps of one model on one graph.

    Args:
        edge_index: The graph's edges `[2, E]`.
        num_nodes: Number of nodes.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        self.edge_index = edge_index
        self.known_edges = [edge_index]
        self.num_nodes = num_nodes
        self.steps: list[Step] = []
        self.output: Value
        self.convolutions: list[tuple[str, Value]] = []

    def constant(self, tensor: Tensor) -> Value:
        """A node-level value that no removal changes, e.g. the features `[N, F]`."""
        return Value(tensor, depth=-1)

    def rows(self, function: Callable[..., Tensor], *values: Value) -> Value:
        """`function(*values)`, which must treat every row by itself: `[N, …] -> [N, …]`."""
        function = harmless(function, [value.whole() for value in values])
        output = Value(function(*(value.whole() for value in values)), max(v.depth for v in values))
        self.steps.append(Rows(function, values, output))
        return output

    def edges(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        normalise: Normalise = "none",
        self_loops: float | None = None,
    ) -> Edges:
        """The edges a convolution uses.

        Args:
            edge_index: `[2, E]`.
            edge_weight: `[E]` or None.
            normalise: `none`, `mean` (over incoming edges) or `sym` (GCN's, both ends).
            self_loops: Weight of the self-loop given to every node that has none; without
                `edge_weight` all weights are 1, as in PyG's `gcn_norm`.
        """
        if edge_weight is not None and edge_weight.dim() > 1:
            edge_weight = edge_weight.view(-1)
        if self_loops is not None:
            edge_index, edge_weight = add_remaining_self_loops(
                edge_index, edge_weight, self_loops, self.num_nodes
            )
        source, target = edge_index
        return Edges(source, target, edge_weight, self.num_nodes, normalise)

    def propagate(self, y: Value, edges: Edges, plus: Value | Tensor | None = None) -> Value:
        """`left_k Σ_{j→k} weight_jk right_j y_j + plus_k`; see `Edges`.

        Args:
            y: What nodes send, `[N, F]`.
            edges: From `plan.edges`.
            plus: What is added to the sum: a value `[N, F]`, or a bias `[F]`.
        """
        total = edges.total(y.whole())
        whole = total
        if edges.normalise != "none":
            whole = total * edges.left.to(total.dtype).unsqueeze(-1)
        if isinstance(plus, Value):
            whole = whole + plus.whole()
        else:
            plus = total[:0] if plus is None else plus.reshape(1, -1)
            whole = whole + plus if len(plus) else whole
        near = 1 if edges.normalise == "sym" else 0
        deepest = plus.depth if isinstance(plus, Value) else -1
        output = Value(whole, max(y.depth + 1, near + 1, deepest))
        self.steps.append(Propagate(edges, y, total, plus, output))
        return output

    def blend(self, weights: Callable[[Tensor], Tensor], *values: Value) -> Value:
        """`Σ_k a_k value_k` with `a = weights(means over all nodes of the values)`.

        Args:
            weights: From means `[…, K, F]` to weights `[…, K]`.
            *values: What is mixed, `[N, F]` each.
        """
        step = Blend(weights, values)
        self.steps.append(step)
        return step.output

    def attend(self, y: Value, near: Value, far: Value, edges: Edges, slope: float) -> Value:
        """Attention-weighted sums.

        Args:
            y: What neighbours send, `[N, H, C]`.
            near: The sender's part of the score, `[N, H]`.
            far: The receiver's part of the score, `[N, H]`.
            edges: The edges, with self-loops where the convolution adds them.
            slope: LeakyReLU's negative slope.
        """
        indptr, source, _ = edges.by_target
        target = vectorised.owner_of(indptr)
        score = near.whole()[source] + far.whole()[target]
        whole, peak, share = vectorised.weigh(
            score, y.whole()[source], target, self.num_nodes, slope
        )
        output = Value(whole, max(y.depth, near.depth, far.depth, 0) + 1)
        base = Attention(y.whole(), near.whole(), far.whole(), slope, whole, peak, share)
        self.steps.append(Attend(edges, [y, near, far], base, output))
        return output

    def local(self, conv: nn.Module, *args: Any, **kwargs: Any) -> Value:
        """Any one-hop convolution, by calling it on the neighbourhoods that changed.

        Args:
            conv: The module.
            *args: Its arguments: `Value`s for node-level ones, `edge_index`, edge-level tensors.
            **kwargs: Its keyword arguments.

        Raises:
            UnsupportedError: When its output depends on more than a node's in-neighbourhood.
        """
        call = _Call(self, conv, args, kwargs)
        whole = call.on_everything()
        if not isinstance(whole, Tensor) or whole.dim() < 1 or whole.size(0) != self.num_nodes:
            raise UnsupportedError("it does not return one row per node")
        output = Value(whole, max(*(v.depth for v in call.values), 0) + 1)
        flipped = getattr(conv, "flow", "source_to_target") == "target_to_source"
        target, source = call.edge_index if flipped else call.edge_index.flip(0)
        edges = Edges(source, target, None, self.num_nodes)

        def on_neighbourhoods(rows: list[Tensor], edge_index: Tensor, edge: Tensor) -> Tensor:
            return call.on(rows, edge_index.flip(0) if flipped else edge_index, edge)

        step = Local(on_neighbourhoods, edges, call.values, output)
        probe = self._probe(edges)
        if not same(self._recomputed(step, probe), whole[probe]):
            raise UnsupportedError(
                "its output at a node depends on more than the node's own in-neighbourhood"
            )
        self.steps.append(step)
        return output

    def _probe(self, edges: Edges) -> Tensor:
        """A few nodes to try a step on: random ones and the one with most edges."""
        generator = torch.Generator().manual_seed(0)
        some = torch.randperm(self.num_nodes, generator=generator)[:PROBED_ROWS]
        return (
            torch.cat([some, edges.count.argmax().reshape(1).cpu()])
            .unique()
            .to(edges.source.device)
        )

    def _recomputed(self, step: Local, nodes: Tensor) -> Tensor:
        """The step's output at `nodes` on the unchanged graph, from their neighbourhoods alone."""
        nobody = Removals(nodes.new_zeros(2), nodes[:0])
        ptr = torch.tensor([0, len(nodes)], device=nodes.device)
        nothing = (nobody.ptr, nodes[:0], nodes[:0], torch.empty(0, device=nodes.device))
        reach = vectorised.expand(step.edges, nobody, nothing, (ptr, nodes))
        empty = [Changed(nodes.new_zeros(2), nodes[:0], v.whole()[:0]) for v in step.inputs]
        out = step.recompute(nobody, empty, reach)
        return out[reach.also]

    def finish(self) -> None:
        """Compose row-wise maps, and free original rows that no step reads."""
        output = self.output
        steps: list[Step] = []
        uses = {id(output): 2}
        for step in self.steps:
            for value in step.inputs:
                uses[id(value)] = uses.get(id(value), 0) + 1
        made: dict[int, Step] = {}
        for step in self.steps:
            merged = step
            while isinstance(merged, Rows) and len(merged.inputs) == 1:
                # Only straight lines: where inputs meet, rows that did not change would be mapped anew.
                inner = made.get(id(merged.inputs[0]))
                if not isinstance(inner, Rows) or uses[id(inner.output)] > 1:
                    break
                merged = compose(merged, inner)
                steps.remove(inner)
            made[id(merged.output)] = merged
            steps.append(merged)
        read = {id(value) for step in steps for value in step.needs()} | {id(output)}
        for step in steps:
            if id(step.output) not in read:
                step.output.base = None
        self.steps = steps

    def run(self, chunk: Chunk) -> Changed:
        """Changed rows of the output for a chunk of removals."""
        return self.run_to(self.output, chunk)

    def run_to(self, wanted: Value, chunk: Chunk) -> Changed:
        """Changed rows of any value of the plan."""
        nothing = Changed(
            torch.zeros_like(chunk.removals.ptr), chunk.removals.node[:0], torch.empty(0)
        )
        last = {id(value): at for at, step in enumerate(self.steps) for value in step.inputs}
        last[id(wanted)] = len(self.steps)
        rows: dict[int, Changed] = {}
        for at, step in enumerate(self.steps):
            inputs = [rows.get(id(value), nothing) for value in step.inputs]
            rows[id(step.output)] = changed = step.changed(chunk, inputs)
            chunk.tally.bytes += changed.rows.nbytes + 4 * changed.node.nbytes
            if step.output is wanted:
                break
            for value in step.inputs:
                if last[id(value)] == at:
                    rows.pop(id(value), None)
        return rows.get(id(wanted), nothing)


class _Call:
    """A module call with its node-level, edge-level and other arguments told apart."""

    def __init__(self, plan: Plan, conv: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        self.plan, self.conv, self.args, self.kwargs = plan, conv, args, kwargs
        self.values: list[Value] = []
        self._edges: list[Tensor] = []
        self._collect((args, kwargs))
        if not self.values:
            raise UnsupportedError("it takes no node-level input")
        if len(self._edges) != 1:
            raise UnsupportedError(f"it takes {len(self._edges)} sets of edges at once")
        self.edge_index = self._edges[0]

    def _collect(self, argument: Any) -> None:
        if isinstance(argument, Value):
            if not any(argument is value for value in self.values):
                self.values.append(argument)
        elif any(argument is edges for edges in self.plan.known_edges):
            if not any(argument is edges for edges in self._edges):
                self._edges.append(argument)
        elif isinstance(argument, tuple | list):
            for part in argument:
                self._collect(part)
        elif isinstance(argument, dict):
            for part in argument.values():
                self._collect(part)

    def _put(self, argument: Any, rows: dict[int, Tensor], edge_index: Tensor, edge: Any) -> Any:
        if isinstance(argument, Value):
            return rows[id(argument)]
        if argument is self.edge_index:
            return edge_index
        if isinstance(argument, tuple | list):
            return type(argument)(self._put(part, rows, edge_index, edge) for part in argument)
        if isinstance(argument, dict):
            return {k: self._put(part, rows, edge_index, edge) for k, part in argument.items()}
        if isinstance(argument, Tensor) and argument.dim() and edge is not None:
            if argument.size(0) != self.edge_index.size(1):
                raise UnsupportedError(f"it takes a tensor of shape {list(argument.shape)}")
            return argument[edge]
        return argument

    def on(self, rows: list[Tensor], edge_index: Tensor, edge: Tensor | None) -> Tensor:
        """The call on other node rows and edges; `edge` are positions among the data's edges."""
        by_id = {id(value): row for value, row in zip(self.values, rows, strict=True)}
        args = self._put(self.args, by_id, edge_index, edge)
        return self.conv(*args, **self._put(self.kwargs, by_id, edge_index, edge))

    def on_everything(self) -> Tensor:
        """The call on the whole graph."""
        return self.on([value.whole() for value in self.values], self.edge_index, None)
