"""The builder, with which lowerings add operations to a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.dense.linear import Linear

from nora.engine.exec.kernels.vectorised import weigh
from nora.engine.ir.changed_rows import Attention
from nora.engine.ir.edges import Edges, Normalise
from nora.engine.ir.op import Form, Op, RowOp, Value
from nora.engine.ir.pointers import owner_of
from nora.engine.ir.space import Space, joined_space
from nora.engine.lower.bindings import Bindings
from nora.engine.lower.conv_edges import ConvEdges, EdgeOptions
from nora.engine.lower.known import Ids, Known, Layout, Tracked, Uniform
from nora.engine.lower.row_call import RowSlot, form_of, row_call, width_of
from nora.engine.ops.aggregate import Aggregate, Attend
from nora.engine.ops.blend import Blend
from nora.engine.ops.gather import Concat, Gather
from nora.engine.ops.reduce import Reduce, Reduction, depth_after
from nora.engine.store.array_store import made_once
from nora.engine.trace.align import AlignedOp
from nora.engine.trace.trace import Ref, leaves

# Values of edges that take more than this are not stored but recomputed where they are needed.
KEPT_BYTES = 32 * 2**20


class Builder(Bindings):
    """Adds operations to a program; every method returns the value of what it adds.

    See `Bindings` for the arguments. Lowerings of convolutions, users' own included, call `rows`,
    `linear`, `constant`, `edges`, `propagate`, `attend`, `blend` and `add`.
    """

    @cached_property
    def ops(self) -> list[Op]:
        """The operations so far."""
        return []

    @cached_property
    def conv_edges(self) -> ConvEdges:
        """The edges of convolutions, shared by layers that use the same."""
        return ConvEdges(self.num_nodes)

    def part(self, found: Tracked, space: Space, start: int) -> Tracked:
        """The rows of one of the spaces that were joined; see `parts_of`."""
        key = ("span", start, space)
        if key not in self.named:
            self.named[key] = torch.arange(start, start + space.size)
        return Tracked(self.gathered(found.value, self.named[key], space), found.layout, found.ids)

    def rowed_known(self, found: Known, space: Space) -> Tracked | None:
        """A tensor's binding as rows of a space, also if it repeats one row; None otherwise."""
        if isinstance(found, Uniform) and found.sizes == space.sizes:
            return Tracked(self.repeated(found, space), found.layout)
        return self.as_rows_of(found, space) if isinstance(found, Tracked) else None

    def as_rows_of(self, found: Tracked, space: Space) -> Tracked | None:
        """The same rows as rows of another space, if both spaces are equal."""
        if found.space is space:
            return found
        every = self.same_rows(found.space, space)
        if every is None:
            return None
        return Tracked(self.gathered(found.value, every, space), found.layout, found.ids)

    def same_rows(self, own: Space, space: Space) -> Tensor | None:
        """The ids of all rows, if those of both spaces are removed by the same edits; else None."""
        if own.sizes != space.sizes or self.graph in (own, space):
            return None
        key = ("same", own, space)
        if key not in self.named:
            every = torch.arange(space.size)
            same = space.covers(every, own) and space.covered(every, own)
            self.named[key] = every if same else None
            if same and not (space.removed_with(every, own) and space.removes(every, own)):
                self.unsure(f"uses rows of {own.label} as rows of {space.label}")
        return self.named[key]

    def value(self, space: Space, depth: int, numel: int = 1, size: int = 4) -> Value:
        """A new value, to be computed by an operation."""
        found = Value(space, depth)
        if not any(space is one for one in (*self.nodes, self.graph)):
            found.stored = space.size * max(numel, 1) * size <= KEPT_BYTES
        return found

    def add(self, op: Op) -> Value:
        """Any operation, also of a kind of your own; returns its output."""
        op.output.depth = max(op.output.depth, 0)  # else it is never asked what changes
        op.set_depth()
        return self._emit(op)

    def _emit(self, op: Op) -> Value:
        self.ops.append(op)
        return op.output

    def rows(self, function: Callable[..., Tensor], *inputs: Value, numel: int = 1) -> Value:
        """`function(*inputs)`, which must treat every row by itself: `[N, …] -> [N, …]`.

        Linear maps and functions of this package are known to do so. Anything else (the network inside of a
        `GINConv`, a function of a user's rule) is traced and lowered operation by operation.
        """
        if not is_linear(function) and not _ours(function):
            from nora.engine.lower.calls import lowered_map  # which builds such maps

            return lowered_map(self, function, inputs)
        form: Form = "affine" if is_linear(function) else ""
        return self._row_op(function, inputs, numel, form)

    def _row_op(
        self,
        function: Callable[..., Tensor],
        inputs: Sequence[Value],
        numel: int,
        form: Form,
        scales: Value | None = None,
    ) -> Value:
        """A row-wise function; see `RowOp`."""
        depth = max(value.depth for value in inputs)
        distinct = list(dict.fromkeys(inputs))
        places = [distinct.index(value) for value in inputs]

        def arranged(*rows: Tensor) -> Tensor:
            return function(*(rows[at] for at in places))

        output = self.value(inputs[0].space, depth, numel)
        called = arranged if len(distinct) < len(inputs) else function
        return self._emit(RowOp(called, distinct, output, form, scales))

    def linear(self, weight: Tensor, x: Value) -> Value:
        """`x W^T`, for a weight `[F_out, F_in]`."""
        output = Value(x.space, x.depth)
        return self._emit(RowOp(lambda rows: F.linear(rows, weight), [x], output, "affine"))

    def constant(self, tensor: Tensor) -> Value:
        """A node-level value that no edit changes, e.g. the features `[N, F]`."""
        return Value(self.all_nodes, -1, tensor)

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

        A lowering passes the `edge_index` it was given, and describes here how the convolution changes it.
        Then the edge id of every edge is known, and single edges can be removed.

        Args:
            edge_index: `[2, E]`.
            edge_weight: `[E]` or None.
            normalise: `none`, `mean` (over incoming edges) or `sym` (GCN's, both ends).
            self_loops: Weight of the self-loop given to every node that has none; without
                `edge_weight` all weights are 1, as in PyG's `gcn_norm`.
            own_loops: Whether self-loops of the graph count; else every node has the one it is given.
            rows: Mask `[E]` of the edges that are used; all by default.
            kind: `(edge_type, 2)`: those whose `edge_type [E]` is 2. As `rows=edge_type == 2`, but also
                decides for added edges.
            reverse: Whether messages pass from the target to the source.
        """
        if normalise not in get_args(Normalise):
            raise ValueError(f"normalise is {normalise!r}; it must be one of {get_args(Normalise)}")
        recipe = EdgeOptions(normalise, self_loops, own_loops, reverse)
        return self.conv_edges.made(edge_index, edge_weight, rows, kind, recipe)

    def propagate(
        self, y: Value, edges: Edges, plus: Value | Tensor | None = None, *, drawn: bool = True
    ) -> Value:
        """`norm_dst_k Σ_{j→k} weight_jk norm_src_j y_j + plus_k`; see `Edges`.

        Args:
            y: Messages of the nodes, `[N, F]`.
            edges: From `builder.edges`.
            plus: What is added to the sum: a value `[N, F]`, or a bias `[F]`.
            drawn: Whether estimates may sample its rows and weight their changes; not if later operations
                need exact values, such as the root of a degree.
        """

        def summed() -> tuple[Tensor, Tensor]:
            total = edges.total(y.base_rows())
            whole = total
            if edges.normalise != "none":
                whole = total * edges.norm_dst.to(total.dtype).unsqueeze(-1)
            if plus is not None:
                more = plus.base_rows() if isinstance(plus, Value) else plus.reshape(1, -1)
                whole = whole + more if whole is total else whole.add_(more)
            return total, whole

        total, whole = made_once("sum", summed)
        if not isinstance(plus, Value):
            plus = total[:0] if plus is None else plus.reshape(1, -1)
        output = Value(self.all_nodes, 0, whole)
        return self.add(Aggregate(edges, y, total, plus, output, samples=drawn))

    def attend(
        self, y: Value, alpha_src: Value, alpha_dst: Value, edges: Edges, slope: float
    ) -> Value:
        """Attention-weighted sums.

        Args:
            y: Messages of the nodes, `[N, H, C]`.
            alpha_src: The source's part of the score, `[N, H]`.
            alpha_dst: The target's part of the score, `[N, H]`.
            edges: The edges, with self-loops where the convolution adds them.
            slope: LeakyReLU's negative slope.
        """

        def weighed() -> tuple[Tensor, Tensor, Tensor]:
            indptr, source, _ = edges.by_target
            target = owner_of(indptr)
            score = alpha_src.base_rows()[source] + alpha_dst.base_rows()[target]
            return weigh(score, y.base_rows()[source], target, self.num_nodes, slope)

        whole, peak, share = made_once("attention", weighed)
        output = Value(self.all_nodes, 0, whole)
        base = Attention(
            y.base_rows(), alpha_src.base_rows(), alpha_dst.base_rows(), slope, whole, peak, share
        )
        return self.add(Attend(edges, [y, alpha_src, alpha_dst], base, output))

    def blend(self, weights: Callable[[Tensor], Tensor], *values: Value) -> Value:
        """`Σ_k a_k value_k` with `a = weights(means over all nodes of the values)`.

        Args:
            weights: From means `[…, K, F]` to weights `[…, K]`.
            *values: What is mixed, `[N, F]` each.
        """
        return self.add(Blend(weights, values))

    def apply(
        self,
        op: AlignedOp,
        layout: Layout,
        args: Mapping[str, Any] | None = None,
        ids: Ids = "",
        func: Any = None,
    ) -> None:
        """The operation itself on rows: its results have rows along `layout`'s axis.

        Tensors among the arguments must be plain, or hold rows of one space.
        """
        given = dict(op.args if args is None else args)
        inputs: list[Tracked] = []
        slots: dict[int, Any] = {}
        for leaf in leaves(given):
            if isinstance(leaf, Ref) and leaf.id not in slots:
                found = self.known[leaf.id]
                slots[leaf.id] = found
                if isinstance(found, Tracked):
                    if inputs:
                        found = self.as_rows_of(found, inputs[0].space) or found
                    slots[leaf.id] = RowSlot(len(inputs), found.layout)
                    inputs.append(found)
        if len({found.space for found in inputs}) > 1:
            labels = " and ".join(dict.fromkeys(found.space.label for found in inputs))
            self.unsupported(f"combines rows of {labels}")
        call = row_call(op, func or op.func, given, slots)
        for place, number in enumerate(op.outs):
            if number is None:
                continue
            if not inputs:
                one = next(s for s in slots.values() if isinstance(s, Uniform))
                self.known[number] = Uniform(layout.rows(call([], 1)[place]), layout, one.sizes)
                continue

            def function(*rows: Tensor, place: int = place) -> Tensor:
                return layout.rows(call(rows, len(rows[0]))[place])

            numel = width_of(op.shapes[place], layout)
            form = form_of(op.name, given, slots) if func is None else ""
            scales = _scaled(inputs) if op.name == "mul" and layout == Layout(0) else None
            values = [found.value for found in inputs]
            made = self._row_op(function, values, numel, form, scales)
            self.known[number] = Tracked(made, layout, ids)

    def gathered(self, source: Value, index: Tensor, space: Space) -> Value:
        """Rows of `source` read by the rows of another space."""
        if not space.covers(index, source.space):
            self.unsupported(f"reads rows of {source.space.label} that a removal may delete")
        if not space.removed_with(index, source.space):
            self.unsure(f"reads rows of {source.space.label} that removing an edge may delete")
        key = ("gather", source, index, space)
        if key not in self.named:
            numel = source.width if source.base is not None else 8
            depth = source.depth
            self.named[key] = self._emit(Gather(source, index, self.value(space, depth, numel)))
        return self.named[key]

    def scattered(
        self, source: Value, index: Tensor, start: Value, reduce: Reduction, keep_start: bool
    ) -> Value:
        """Rows of `source` reduced into those of another space."""
        space = start.space
        if not source.space.covers(index, space):
            self.unsupported(f"reduces to rows of {space.label} that a removal may delete")
        if not source.space.removed_with(index, space):
            self.unsure(f"reduces to rows of {space.label} that removing an edge may delete")
        own = source.space
        unmoved = source.static and start.static and own.covered(index, space)
        unmoved = unmoved and own.removes(index, space)
        depth = -1 if unmoved else depth_after(source, start, space)
        output = Value(space, depth)
        return self._emit(Reduce(source, index, start, reduce, keep_start, output))

    def concatenated(self, parts: Sequence[Value]) -> Value:
        """Rows of several values, one after the other, in a space of their own."""
        key = ("join", *(part.space for part in parts))
        if key not in self.named:
            if len({part.space.ends.size(0) == 0 for part in parts}) > 1:
                self.unsupported("concatenates rows that a removal deletes with rows that it keeps")
            self.named[key] = self.entered(joined_space([part.space for part in parts]))
            inner = [self.parts_of(part.space) for part in parts]
            self.parts[self.named[key]] = [one for each in inner for one in each]
        output = self.value(self.named[key], max(part.depth for part in parts), 8)
        return self._emit(Concat(parts, output))

    def subspace(self, parent: Space, rows: Tensor, key: tuple[Any, ...], sizes: Any) -> Space:
        """A space of some rows of another, the same one for the same choice."""
        if key not in self.named:
            self.named[key] = self.entered(parent.picked(rows, parent.label, tuple(sizes)))
        return self.named[key]

    def fixed(self, base: Tensor, space: Space) -> Value:
        """Given rows that no removal changes."""
        return Value(space, -1, base)

    def own_rows(self, tensor: Tensor, dim: int, space: Space) -> Tracked:
        """A constant tensor that has a row for every row of a space on all graphs."""
        constant = len(set(space.sizes)) == 1
        if not constant or dim >= tensor.dim() or tensor.size(dim) != space.size:
            self.unsupported(
                "combines rows with a constant tensor that has a row for every node or edge"
            )
        return Tracked(self.fixed(tensor.movedim(dim, 0), space), Layout(dim))

    def repeated(self, uniform: Uniform, space: Space) -> Value:
        """A uniform tensor's rows as rows of a space."""
        return self.fixed(uniform.rows.expand(space.size, *uniform.rows.shape[1:]), space)

    def broadcast(self, found: Tracked, space: Space) -> Value:
        """A value of the whole graph, repeated as a row `[…]` for every row of a space."""
        key = ("zeros", space)
        if key not in self.named:
            self.named[key] = torch.zeros(space.size, dtype=torch.long)
        return self.gathered(found.value, self.named[key], space)

    def count(self, space: Space) -> Tracked:
        """The number of rows of a space: a number that removals change."""
        key = ("count", space)
        if key not in self.named:
            ones = self.fixed(torch.ones(1, dtype=torch.long).expand(space.size), space)
            start = self.fixed(torch.zeros(1, dtype=torch.long), self.graph)
            index = torch.zeros(space.size, dtype=torch.long)
            self.named[key] = Tracked(self.scattered(ones, index, start, "sum", True), Layout(None))
        return self.named[key]


def is_linear(module: Any) -> bool:
    """Whether a module is a plain linear layer: no subclass, no hooks."""
    return type(module) in (nn.Linear, Linear, nn.Identity) and not (
        module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    )


def _scaled(factors: Sequence[Tracked]) -> Value | None:
    """The factor of a product whose rows are scaled by one number of the other each, if one is."""
    plain = len(factors) == 2 and all(found.layout == Layout(0) for found in factors)
    if not plain or factors[0].value is factors[1].value:
        return None
    for wide, narrow in (factors, factors[::-1]):
        rows, numbers = wide.value.none, narrow.value.none
        single = numbers.dim() == rows.dim() and all(n == 1 for n in numbers.shape[1:])
        if single and rows.dim() >= 2 and rows.dtype == numbers.dtype:
            return wide.value
    return None


def _ours(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    return (getattr(function, "__module__", "") or "").split(".")[0] == __name__.split(".")[0]
