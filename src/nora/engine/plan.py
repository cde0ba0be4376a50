"""A model written as steps between spaces: what the tape and the rules build.

A rule is a convolution re-told in sums over neighbours and row-wise maps, which is faster than following
each of its operations. It is run once, on the whole graph; every call both computes the original rows and
notes the step, so that the steps can later be run on changed rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import add_remaining_self_loops, add_self_loops, remove_self_loops

from nora.engine.arrivals import Arrivals
from nora.engine.backends import pages, vectorised
from nora.engine.changed import Attention, Changed
from nora.engine.course import Course
from nora.engine.edges import AddedEdgeRule, Edges, Normalise
from nora.engine.guards import Guards
from nora.engine.ledger import made_once
from nora.engine.spaces import Space
from nora.engine.steps.blend import Blend
from nora.engine.steps.grouped import by_group
from nora.engine.steps.step import Chunk, Form, Rows, Step, Value
from nora.engine.steps.sums import Attend, Propagate
from nora.engine.steps.together import put_together, used
from nora.engine.steps.weighted import summed_at_once
from nora.engine.templates import Templates


class UnsupportedError(Exception):
    """The engine cannot follow this model; the message says where and why."""


def same(a: Tensor, b: Tensor) -> bool:
    """Equal up to rounding, relative to the largest entry of `b`."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not b.is_floating_point() or not b.numel():
        return bool(torch.equal(a, b))
    different = (a != b) & ~(a.isnan() & b.isnan())  # equal infinities do not differ
    if not bool(different.any()):
        return True
    finite = b[b.isfinite()]
    largest = finite.abs().max() if finite.numel() else b.new_zeros(())
    tolerance = {torch.double: 1e-9, torch.float: 1e-4}.get(b.dtype, 3e-2)
    return bool(((a - b)[different].abs() <= tolerance * largest).all())


# What edges are made of: `edge_index [2, E]` and `edge_weight [E]`.
_Given = tuple[Tensor | None, ...]
# What a map of rows becomes when it is followed: from a function and its inputs to its output.
Follow = Callable[[Callable[..., Tensor], tuple[Value, ...]], Value]


class Plan:
    """The steps of one model on one graph.

    Args:
        all_nodes: The space of all nodes, of all types.
        follow: How a map of somebody else's is followed; see `rows`.
    """

    def __init__(self, all_nodes: Space, follow: Follow) -> None:
        self.all_nodes = all_nodes
        self.num_nodes = all_nodes.size
        self.steps: list[Step] = []
        self.output: Value
        self._follow = follow
        self._edges: dict[tuple[Any, ...], list[tuple[_Given, Edges]]] = {}
        self._spaces: dict[int, tuple[Space, Tensor]] = {}
        self._told: dict[int, tuple[Value, Tensor]] = {}
        # What was read off as structure, or told to rules; what is not known of edges that go or come.
        self.structure: list[Value] = []
        self.told: list[Value] = []
        self.unsure_of_edges = ""
        self.templates: Templates
        self.attributes: list[Value] = []
        self.features: dict[Any, Value] = {}
        self.guards = Guards(self.num_nodes, (), ())
        # Kinds of edits that were compared with the definition, and what was wrong.
        self.compared: dict[str, str] = {}

    def constant(self, tensor: Tensor) -> Value:
        """A node-level value that no removal changes, e.g. the features `[N, F]`."""
        return Value(self.all_nodes, -1, tensor)

    def rows(self, function: Callable[..., Tensor], *values: Value) -> Value:
        """`function(*values)`, which must treat every row by itself: `[N, …] -> [N, …]`.

        Linear maps and functions of this package are known to do so. What else there is (the network
        inside of a `GINConv`, rules of other packages) is followed operation by operation.
        """
        if not is_linear(function) and not _ours(function):
            return self._follow(function, values)
        output = Value(values[0].space, max(value.depth for value in values))
        form: Form = "affine" if is_linear(function) else ""
        self.steps.append(Rows(function, list(values), output, form))
        return output

    def linear(self, weight: Tensor, x: Value) -> Value:
        """`x W^T`, for a weight `[F_out, F_in]`."""
        output = Value(x.space, x.depth)
        self.steps.append(Rows(lambda rows: F.linear(rows, weight), [x], output, "affine"))
        return output

    def knows(self, edge_index: Tensor, space: Space) -> None:
        """Note whose rows the columns of a tensor `[2, E]` of edges are."""
        # The tensor is held, so that its id stays its own.
        self._spaces[id(edge_index)] = (space, edge_index)

    def tells(self, tensor: Tensor, value: Value) -> None:
        """Note which value a tensor holds that a rule is given, as weights or kinds of edges."""
        self._told[id(tensor)] = (value, tensor)
        self.told.append(value)

    def edges(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        normalise: Normalise = "none",
        self_loops: float | None = None,
        own_loops: bool = True,
        rows: Tensor | None = None,
        kind: tuple[Tensor, int] | None = None,
        reverse: bool = False,
    ) -> Edges:
        """The edges a convolution uses; layers with the same edges share them.

        A rule passes the `edge_index` it was given and says here what the convolution makes of it, so that
        it is known which edge of the graph each one is; otherwise edges cannot be taken away by themselves.

        Args:
            edge_index: `[2, E]`.
            edge_weight: `[E]` or None.
            normalise: `none`, `mean` (over incoming edges) or `sym` (GCN's, both ends).
            self_loops: Weight of the self-loop given to every node that has none; without
                `edge_weight` all weights are 1, as in PyG's `gcn_norm`.
            own_loops: Whether self-loops of the graph count; else every node has the one it is given.
            rows: Mask `[E]` of the edges that are used; all by default.
            kind: `(edge_type, 2)`: those of which `edge_type [E]` says 2. As `rows=edge_type == 2`, but tells
                what becomes of edges that come.
            reverse: Whether they lead from the target to the source.
        """
        if normalise not in get_args(Normalise):
            raise ValueError(f"normalise is {normalise!r}; it must be one of {get_args(Normalise)}")
        chosen = None if kind is None else (self._value(kind[0]), kind[1])
        if kind is not None:
            rows = kind[0] == kind[1]
        weights = self._value(edge_weight)
        key = (edge_index.size(1), normalise, self_loops, own_loops, reverse, chosen, weights)
        given = (edge_index, edge_weight, rows)
        for before, made in self._edges.setdefault(key, []):
            if all(_same_tensor(a, b) for a, b in zip(before, given, strict=True)):
                return made
        made = self._made_of(
            edge_index, edge_weight, normalise, self_loops, own_loops, rows, reverse
        )
        space = self._spaces.get(id(edge_index), (None, None))[0]
        known = (edge_weight is None or weights is not None) and (
            rows is None or chosen is not None
        )
        if space is not None and known and (chosen is None or chosen[0] is not None):
            mine = None if chosen is None or chosen[0] is None else (chosen[0], chosen[1])
            rule = AddedEdgeRule(space, edge_index, weights, mine, self_loops, own_loops, reverse)
            made = replace(made, for_added=rule)
        self._edges[key].append((given, made))
        return made

    def _value(self, tensor: Tensor | None) -> Value | None:
        return None if tensor is None else self._told.get(id(tensor), (None, None))[0]

    def _made_of(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        normalise: Normalise,
        self_loops: float | None,
        own_loops: bool,
        rows: Tensor | None,
        reverse: bool,
    ) -> Edges:
        number = None
        if id(edge_index) in self._spaces:
            number = self._spaces[id(edge_index)][0].origin
            if number is None:  # edges of another set, which edits do not change
                number = torch.full((edge_index.size(1),), -1, device=edge_index.device)
        if edge_weight is not None and edge_weight.dim() > 1:
            edge_weight = edge_weight.view(-1)
        if rows is not None:
            edge_index = edge_index[:, rows]
            edge_weight = None if edge_weight is None else edge_weight[rows]
            number = None if number is None else number[rows]
        own = None
        if self_loops is not None:
            loops = edge_index[0] == edge_index[1]
            if edge_weight is not None and own_loops and number is not None:
                own = number[loops], edge_index[0, loops]  # without its own, a node gets the other
            number = None if number is None else number[~loops]
            if own_loops:
                edge_index, edge_weight = add_remaining_self_loops(
                    edge_index, edge_weight, self_loops, self.num_nodes
                )
            else:
                edge_index, edge_weight = remove_self_loops(edge_index, edge_weight)
                edge_index, edge_weight = add_self_loops(
                    edge_index, edge_weight, self_loops, self.num_nodes
                )
            if number is not None:
                added = torch.full((edge_index.size(1) - len(number),), -1, device=number.device)
                number = torch.cat([number, added])
        source, target = edge_index.flip(0) if reverse else edge_index
        return Edges(
            source,
            target,
            edge_weight,
            self.num_nodes,
            normalise,
            number,
            own,
        )

    def add(self, step: Step) -> Value:
        """Any step, also of a kind of your own; gives its output."""
        step.output.depth = max(step.output.depth, 0)  # else nobody would ask it what changes
        step.settle()
        self.steps.append(step)
        return step.output

    def propagate(
        self, y: Value, edges: Edges, plus: Value | Tensor | None = None, *, drawn: bool = True
    ) -> Value:
        """`left_k Σ_{j→k} weight_jk right_j y_j + plus_k`; see `Edges`.

        Args:
            y: What nodes send, `[N, F]`.
            edges: From `plan.edges`.
            plus: What is added to the sum: a value `[N, F]`, or a bias `[F]`.
            drawn: Estimates may draw some of its rows and move them by more, to count for the others; not
                where what follows bears true values alone, as a root of a degree does.
        """

        def summed() -> tuple[Tensor, Tensor]:
            total = edges.total(y.whole())
            whole = total
            if edges.normalise != "none":
                whole = total * edges.left.to(total.dtype).unsqueeze(-1)
            if plus is not None:
                whole = whole + (plus.whole() if isinstance(plus, Value) else plus.reshape(1, -1))
            return total, whole

        total, whole = made_once("sum", summed)
        if not isinstance(plus, Value):
            plus = total[:0] if plus is None else plus.reshape(1, -1)
        output = Value(self.all_nodes, 0, whole)
        step = Propagate(edges, y, total, plus, output)
        step.drawn = drawn
        return self.add(step)

    def blend(self, weights: Callable[[Tensor], Tensor], *values: Value) -> Value:
        """`Σ_k a_k value_k` with `a = weights(means over all nodes of the values)`.

        Args:
            weights: From means `[…, K, F]` to weights `[…, K]`.
            *values: What is mixed, `[N, F]` each.
        """
        return self.add(Blend(weights, values))

    def attend(self, y: Value, near: Value, far: Value, edges: Edges, slope: float) -> Value:
        """Attention-weighted sums.

        Args:
            y: What neighbours send, `[N, H, C]`.
            near: The sender's part of the score, `[N, H]`.
            far: The receiver's part of the score, `[N, H]`.
            edges: The edges, with self-loops where the convolution adds them.
            slope: LeakyReLU's negative slope.
        """

        def weighed() -> tuple[Tensor, Tensor, Tensor]:
            indptr, source, _ = edges.by_target
            target = vectorised.owner_of(indptr)
            score = near.whole()[source] + far.whole()[target]
            return vectorised.weigh(score, y.whole()[source], target, self.num_nodes, slope)

        whole, peak, share = made_once("attention", weighed)
        output = Value(self.all_nodes, 0, whole)
        base = Attention(y.whole(), near.whole(), far.whole(), slope, whole, peak, share)
        return self.add(Attend(edges, [y, near, far], base, output))

    def finish(self) -> None:
        """Drop what nobody reads, put row-wise maps together, and keep what the steps will read."""
        grouped = by_group(used(self.steps, self.output), self.output)
        self.steps = put_together(summed_at_once(grouped, self.output), self.output)
        for step in self.steps:
            if not step.output.static:
                step.settle()
        self.output.whole()
        needed = {id(value): value for step in self.steps for value in step.needs()}
        needed[id(self.output)] = self.output
        for value in needed.values():
            if value.stored:
                value.whole()
        # What is not stored is made of what it comes from, whenever it is asked for.
        waiting = [value for value in needed.values() if not value.stored]
        while waiting:
            value = waiting.pop()
            for source in value.step.inputs if value.step is not None else ():
                if id(source) not in needed:
                    needed[id(source)] = source
                    if source.stored:
                        source.whole()
                    else:
                        waiting.append(source)
        for step in self.steps:
            if id(step.output) not in needed and step.output.step is not None:
                step.output.base = None

    def settle(self) -> None:
        """Put original rows, which are read in no order, into large pages of memory."""
        for step in self.steps:
            for rows in (step.output.base, getattr(step, "total", None)):
                pages.settle(rows)

    def hops(self) -> tuple[Tensor, Tensor]:
        """Where a change can arrive in one hop, `[M]` each: nodes it comes from, nodes it reaches."""
        found = [pair for step in self.steps for pair in step.hops()]
        if not found:
            none = torch.zeros(0, dtype=torch.long)
            return none, none
        key = torch.cat([a * self.num_nodes + b for a, b in found]).unique()
        return key // self.num_nodes, key % self.num_nodes

    def run(self, chunk: Chunk, seen: dict[int, Changed] | None = None) -> Changed:
        """Changed rows of the output for a chunk of removals; of every value in `seen`, by its id."""
        batch = chunk.removals
        edited = bool(batch.features)
        rows = {
            id(self.features[kind]): Changed(one.ptr, one.node, one.rows)
            for kind, one in batch.features.items()
        }
        if batch.added_edges:
            arrivals = chunk.arrivals or Arrivals(self.templates, batch.added_edges, len(batch))
            chunk = replace(chunk, arrivals=arrivals)
            rows |= arrivals.seeds(self.steps)
            edited = True
        return self.course.run(chunk, rows, edited, seen)

    @cached_property
    def course(self) -> Course:
        """How chunks go through the steps."""
        return Course.of(self.steps, self.output)


def _same_tensor(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two are the same, or hold the same: a look at all entries costs less than sorting them."""
    if a is None or b is None or a is b:
        return a is b
    return a.dtype == b.dtype and torch.equal(a, b)


def is_linear(module: Any) -> bool:
    """Whether a module is a linear map and nothing else: no subclass, no hooks."""
    return type(module) in (nn.Linear, Linear, nn.Identity) and not (
        module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    )


def _ours(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    return (getattr(function, "__module__", "") or "").split(".")[0] == __name__.split(".")[0]
