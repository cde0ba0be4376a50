"""The index work and the sums of the engine as compiled loops (CPU, `numba`).

Each function works on a chunk of removals, one removal after the other, with scratch arrays of the
size of the graph. They release the GIL: chunks run on several threads. `vectorised.py` has the same
functions in plain torch, for other devices and small graphs.
"""

from __future__ import annotations

import threading

import numpy as np
import torch
from torch import Tensor

from nora.engine.backends import loops, loops_attention, loops_messages, loops_pairs, loops_sums
from nora.engine.changed import LOST_DIGITS, Attention, Changed, Reach, Removals, Sums
from nora.engine.edges import Edges
from nora.engine.steps.step import Chunk
from nora.engine.steps.weighted import WeightedSum

_CODES = {"none": loops.NONE, "mean": loops.MEAN, "sym": loops.SYM}
_local = threading.local()


def _scratch(num_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """This thread's slot (int64, −1), loss (float64, 0) and lost (int64, 0) arrays, kept clean."""
    if getattr(_local, "size", -1) < num_nodes:
        _local.size = num_nodes
        _local.arrays = (
            np.full(num_nodes, -1, dtype=np.int64),
            np.zeros(num_nodes),
            np.zeros(num_nodes, dtype=np.int64),
        )
    return _local.arrays


def _flat(tensor: Tensor) -> np.ndarray:
    return tensor.flatten(1).contiguous().numpy()


def _tensors(*arrays: np.ndarray) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in arrays)


def find_sources(edges: Edges, removals: Removals, changed: Changed) -> tuple[Tensor, ...]:
    """See `Backend.find_sources`."""
    csr = edges.arrays
    arrays = loops.find_sources(
        csr.indptr, csr.target, csr.weight, csr.degree, csr.arriving, csr.right, removals.ptr.numpy(),
        removals.node.numpy(), changed.ptr.numpy(), changed.node.numpy(), _CODES[edges.normalise],
        *_scratch(edges.num_nodes),
    )  # fmt: skip
    return _tensors(*arrays)


def expand(
    edges: Edges, removals: Removals, sources: tuple[Tensor, ...], also: tuple[Tensor, Tensor]
) -> Reach:
    """See `Backend.expand`."""
    src_ptr, source, row, scale = sources
    csr = edges.arrays
    arrays = loops.expand(
        csr.indptr, csr.target, csr.weight, csr.degree, csr.arriving, csr.left, removals.ptr.numpy(),
        removals.node.numpy(), src_ptr.numpy(), source.numpy(), also[0].numpy(), also[1].numpy(),
        _CODES[edges.normalise], *_scratch(edges.num_nodes),
    )  # fmt: skip
    edge_ptr, slot, also_slot, ptr, node, left = _tensors(*arrays)
    return Reach(source, row, scale, edge_ptr, slot, also_slot, ptr, node, left)


def message_change(edges: Edges, sources: tuple[Tensor, ...], y: Tensor, rows: Tensor) -> Tensor:
    """See `Backend.message_change`."""
    _, source, row, scale = sources
    size = torch.empty(len(source), dtype=torch.double)
    loops_messages.message_change(
        source.numpy(), row.numpy(), scale.numpy(), edges.arrays.right, _flat(y), _flat(rows),
        size.numpy(),
    )  # fmt: skip
    return size


def accumulate(
    edges: Edges, reach: Reach, base: Sums, rows: Tensor, plus: Changed
) -> tuple[Tensor, Tensor]:
    """See `Backend.accumulate`."""
    out = torch.empty(len(reach.node), base.y.size(1), dtype=base.y.dtype)
    change = torch.empty(len(reach.source), base.y.size(1), dtype=base.y.dtype)
    doubtful = np.empty(len(reach.node), dtype=np.bool_)
    csr = edges.arrays
    loops_messages.message_changes(
        reach.source.numpy(), reach.row.numpy(), reach.scale.numpy(), csr.right, _flat(base.y),
        _flat(rows), change.numpy(),
    )  # fmt: skip
    loops_messages.accumulate(
        csr.indptr, csr.weight, csr.left, reach.source.numpy(), reach.edge_ptr.numpy(),
        reach.slot.numpy(), reach.also.numpy(), reach.node.numpy(), reach.left.numpy(),
        _flat(base.total), base.size.numpy(), LOST_DIGITS, _flat(base.plus), plus.node.numpy(),
        _flat(plus.rows), _flat(base.whole), change.numpy(), out.numpy(), doubtful,
    )  # fmt: skip
    return out, torch.from_numpy(doubtful)


def sum_anew(
    edges: Edges,
    sources: tuple[Tensor, ...],
    reach: Reach,
    doubtful: Tensor,
    base: Sums,
    rows: Tensor,
    plus: Changed,
    out: Tensor,
) -> None:
    """See `Backend.sum_anew`."""
    csr = edges.arrays
    loops_messages.sum_anew(
        csr.in_ptr, csr.in_source, csr.in_weight, csr.right, *(part.numpy() for part in sources),
        reach.ptr.numpy(), reach.node.numpy(), reach.left.numpy(), doubtful.numpy(), _flat(base.y),
        _flat(rows), _flat(base.plus), reach.also.numpy()[: len(plus)], _flat(plus.rows), out.numpy(),
        _scratch(edges.num_nodes)[0],
    )  # fmt: skip


def union(a: Changed, b: Changed, num_nodes: int) -> tuple[Tensor, ...]:
    """See `Backend.union`."""
    slot = _scratch(num_nodes)[0]
    return _tensors(
        *loops.union(a.ptr.numpy(), a.node.numpy(), b.ptr.numpy(), b.node.numpy(), slot)
    )


def attend(
    edges: Edges,
    removals: Removals,
    changed: Changed,
    reach: Reach,
    base: Attention,
    rows: tuple[Tensor, Tensor, Tensor],
) -> Tensor:
    """See `Backend.attend`."""
    indptr, source, _ = edges.by_target
    y = base.y
    out = torch.empty(len(reach.node), y[:1].numel(), dtype=y.dtype)
    loops_attention.attend(
        indptr.numpy(), source.numpy(), removals.ptr.numpy(), removals.node.numpy(),
        changed.ptr.numpy(), changed.node.numpy(), reach.source.numpy(), reach.row.numpy(),
        reach.edge_ptr.numpy(), reach.slot.numpy(), reach.ptr.numpy(), reach.node.numpy(), _flat(y),
        _flat(base.near), _flat(base.far), *(_flat(part) for part in rows),
        y.numpy().dtype.type(base.slope), _flat(base.peak), _flat(base.share), _flat(base.whole),
        out.numpy(), _scratch(edges.num_nodes)[0],
    )  # fmt: skip
    return out.view(-1, *y.shape[1:])


def weighted_sum(step: WeightedSum, chunk: Chunk, y: Changed, weights: Changed | None) -> Changed:
    """See `Backend.weighted_sum`."""
    arrays = {
        name: tuple(part.numpy() for part in pair)
        for name, pair in step.arrays(chunk, y, weights).items()
    }
    out_ptr, out_edge = (part.numpy() for part in step.gather.readers)
    in_ptr, in_edge = (part.numpy() for part in step.scatter.senders)
    source, target = step.gather.index.numpy(), step.scatter.index.numpy()
    base = _flat(step.inputs[0].whole())
    total, start = _flat(step.output.whole()), step.inputs[1].whole()
    start = start[:1] if start.stride(0) == 0 else start
    # A weight is one number per edge; without weights there are none.
    weight = np.empty(0, dtype=base.dtype)
    new_weight = weight
    if step.weight is not None:
        weight = step.weight.whole().reshape(-1).contiguous().numpy()
        if weights is not None and len(weights):
            new_weight = weights.rows.reshape(-1).contiguous().numpy()
    rows = _flat(y.rows) if len(y) else base[:0]
    slot, y_slot, w_slot, lost = _marks(
        step.output.space.size, step.inputs[0].space.size, step.gather.output.space.size
    )
    ptr, node, touched = loops_sums.reached_rows(
        out_ptr, out_edge, target, *arrays["y"], *arrays["w"], *arrays["lost"], *arrays["gone"], slot,
        lost,
    )  # fmt: skip
    out = np.empty((len(node), base.shape[1]), dtype=base.dtype)
    loops_sums.weighted_sums(
        out_ptr, out_edge, in_ptr, in_edge, source, target, base, *arrays["y"], rows, weight,
        *arrays["w"], new_weight, *arrays["lost"], _flat(start), total, step.few, step.digits, ptr,
        node, touched, slot, y_slot, w_slot, lost, out,
    )  # fmt: skip
    found = torch.from_numpy(out).view(-1, *step.output.whole().shape[1:])
    chunk.tally.bytes += 2 * found.nbytes
    return Changed(torch.from_numpy(ptr), torch.from_numpy(node), found)


def _marks(*sizes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """This thread's marks of targets, sources and edges (−1) and of lost edges, kept clean."""
    kept = getattr(_local, "marks", None)
    if kept is None or any(len(array) < size for array, size in zip(kept, sizes, strict=False)):
        grown = [max(size, 0 if kept is None else len(kept[at])) for at, size in enumerate(sizes)]
        marks = tuple(np.full(size, -1, dtype=np.int64) for size in grown)
        kept = _local.marks = (*marks, np.zeros(grown[2], dtype=np.bool_))
    return kept


def touched_pairs(
    incident: tuple[Tensor, Tensor], pairs: Tensor, removals: Removals, changed: Changed
) -> tuple[Tensor, ...]:
    """See `Backend.touched_pairs`."""
    indptr, edge = incident
    seen = np.zeros(pairs.size(1), dtype=np.bool_)
    slot = _scratch(len(indptr) - 1)[0]
    return _tensors(
        *loops_pairs.touched_pairs(
            indptr.numpy(), edge.numpy(), pairs.numpy(), removals.ptr.numpy(), removals.node.numpy(),
            changed.ptr.numpy(), changed.node.numpy(), seen, slot,
        )
    )  # fmt: skip


def dots(pair: Tensor, pairs: Tensor, ends: Tensor, z: Tensor, rows: Tensor) -> Tensor:
    """See `Backend.dots`."""
    out = torch.empty(len(pair), dtype=z.dtype)
    loops_pairs.dots(pair.numpy(), pairs.numpy(), ends.numpy(), _flat(z), _flat(rows), out.numpy())
    return out
