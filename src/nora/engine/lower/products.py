"""Products of matrices: rows times weights, or row by row."""

from __future__ import annotations

from torch import Tensor

from nora.engine.lower.anything import on_everything
from nora.engine.lower.builder import Builder
from nora.engine.lower.known import Layout, Tracked, Uniform
from nora.engine.lower.lowerings import lower
from nora.engine.lower.rowwise import no_ids
from nora.engine.ops.sum_of_products import SumOfProducts
from nora.engine.trace.align import AlignedOp

OWN_ROWS = "combines rows with a constant tensor that has a row for every node"
# Names of the left factor, the right factor and what is added, and the axis that the sum runs over.
FACTORS: dict[str, tuple[str, str, str | None]] = {
    "mm": ("self", "mat2", None),
    "addmm": ("mat1", "mat2", "self"),
    "bmm": ("self", "mat2", None),
    "baddbmm": ("batch1", "batch2", "self"),
    "mv": ("self", "vec", None),
    "addmv": ("mat", "vec", "self"),
    "dot": ("self", "tensor", None),
}


def _sum_of_products(builder: Builder, op: AlignedOp, left: Tracked, right: Tracked) -> None:
    """Rows times rows, summed over all: one matrix for the whole graph, corrected by the rows that change."""
    dtype = op.dtypes[0]
    floating = dtype is not None and dtype.is_floating_point
    if not floating or left.space is builder.graph:
        on_everything(builder, op)
        return

    def product(a: Tensor, b: Tensor) -> Tensor:
        return op.func(left.layout.tensor(a), right.layout.tensor(b))

    total = builder.add(SumOfProducts(product, left.value, right.value, builder.graph))
    builder.set(Tracked(builder.rows(lambda rows: rows.to(dtype), total), Layout(None)))


@lower(*FACTORS)
def lower_product(builder: Builder, op: AlignedOp) -> None:
    """Rows on the left or on the right, or the same rows as a batch on both sides."""
    no_ids(builder, op)
    names = FACTORS[op.name]
    left, right = op.args[names[0]], op.args[names[1]]
    added = None if names[2] is None else op.args[names[2]]
    batched = op.name in ("bmm", "baddbmm")
    first, second = builder[left], builder[right]
    size = builder.ndim(left)
    rowed = [found for found in (first, second) if isinstance(found, Tracked)]
    meeting = [Layout(size - 1), Layout(size - 2)]
    if (
        added is None
        and [one.layout for one in rowed] == meeting
        and rowed[0].space is rowed[1].space
    ):
        _sum_of_products(builder, op, *rowed)
        return
    if builder.graph in [one.space for one in rowed]:
        on_everything(builder, op)
        return
    layouts = []
    for found, summed, is_left in ((first, size - 1, True), (second, size - 2, False)):
        if not isinstance(found, Tracked | Uniform):
            continue
        axis = found.layout.axis
        vector = op.name == "dot" or (op.name in ("mv", "addmv") and not is_left)
        if axis is None or axis == summed or vector:
            on_everything(builder, op)
            return
        both = isinstance(first, Tracked | Uniform) and isinstance(second, Tracked | Uniform)
        if both and not (batched and axis == 0):
            builder.unsupported_later(
                op,
                "multiplies rows with rows (where all nodes attend to all, a full pass is the only way)",
            )
            return
        layouts.append(found.layout)
    if len(set(layouts)) > 1:
        builder.unsupported("combines rows along different axes")
    layout = layouts[0] if layouts else None
    more = None if added is None else builder[added]
    if added is not None and isinstance(more, Tracked | Uniform):
        shift = len(op.shapes[0]) - builder.ndim(added)
        own = more.layout.at((more.layout.axis or 0) + shift)
        if more.layout.axis is None or layout is None or own != layout:
            on_everything(builder, op)
            return
    if layout is None:
        on_everything(builder, op)
        return
    if batched and layout.axis == 0:
        for ref in (left, right):
            if not isinstance(builder[ref], Tracked | Uniform):
                builder.unsupported(OWN_ROWS)
    if isinstance(more, Tensor):
        at = (layout.axis or 0) - (len(op.shapes[0]) - more.dim())
        if at >= 0 and more.size(at) != 1:
            builder.unsupported(OWN_ROWS)
    builder.apply(op, layout)
