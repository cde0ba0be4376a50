"""Products of matrices: rows times weights, or row by row."""

from __future__ import annotations

from torch import Tensor

from nora.engine.tape.follow import Walk, kind
from nora.engine.tape.kinds.anything import on_everything
from nora.engine.tape.kinds.rowwise import no_ids
from nora.engine.tape.program import Step
from nora.engine.tape.tracked import Layout, Tracked, Uniform

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


@kind(*FACTORS)
def product(walk: Walk, step: Step) -> None:
    """Rows on the left or on the right, or the same rows as a batch on both sides."""
    no_ids(walk, step)
    names = FACTORS[step.name]
    left, right = step.args[names[0]], step.args[names[1]]
    added = None if names[2] is None else step.args[names[2]]
    batched = step.name in ("bmm", "baddbmm")
    first, second = walk[left], walk[right]
    size = walk.ndim(left)
    layouts = []
    for found, summed, is_left in ((first, size - 1, True), (second, size - 2, False)):
        if not isinstance(found, Tracked | Uniform):
            continue
        axis = found.layout.axis
        if axis is None or step.name == "dot":
            on_everything(walk, step)
            return
        if step.name in ("mv", "addmv") and not is_left:
            on_everything(walk, step)
            return
        if axis == summed:
            on_everything(walk, step)
            return
        both = isinstance(first, Tracked | Uniform) and isinstance(second, Tracked | Uniform)
        if both and not (batched and axis == 0):
            walk.refuse_later(
                step,
                "multiplies rows with rows (where all nodes attend to all, a full pass is the only way)",
            )
            return
        layouts.append(Layout(axis, found.layout.outer, found.layout.inner))
    if len(set(layouts)) > 1:
        walk.refuse("meets rows along different axes")
    layout = layouts[0] if layouts else None
    more = None if added is None else walk[added]
    if added is not None and isinstance(more, Tracked | Uniform):
        shift = len(step.shapes[0]) - walk.ndim(added)
        own = Layout((more.layout.axis or 0) + shift, more.layout.outer, more.layout.inner)
        if more.layout.axis is None or layout is None or own != layout:
            on_everything(walk, step)
            return
    if layout is None:
        on_everything(walk, step)
        return
    if batched and layout.axis == 0:
        for ref in (left, right):
            if not isinstance(walk[ref], Tracked | Uniform):
                walk.refuse("meets a tensor of the model's own that has a row for every node")
    if isinstance(more, Tensor):
        shape = list(more.shape)
        at = (layout.axis or 0) - (len(step.shapes[0]) - len(shape))
        if at >= 0 and shape[at] != 1:
            walk.refuse("meets a tensor of the model's own that has a row for every node")
    walk.apply(step, layout)
