"""The index work and the sums of the engine as compiled loops (CPU, `numba`).

Each function works on a chunk of edits, one edit after the other, with scratch arrays of the
size of the graph. They release the GIL: chunks run on several threads. `vectorised.py` has the same
functions in plain torch, for other devices and small graphs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from nora.engine.exec.kernels import (
    arrays as array_tuples,
)
from nora.engine.exec.kernels import (
    loops,
    loops_attention,
    loops_messages,
    loops_pairs,
    loops_sampling,
    loops_sums,
    row_sampling,
    vectorised,
)
from nora.engine.exec.kernels.arrays import (
    AttentionArrays,
    ChunkArrays,
    CsrEdges,
    DeltaArrays,
    DriftArrays,
    FrontierArrays,
    Marks,
    NewRows,
    PairArrays,
    Scratch,
    SlopeArrays,
    Softmax,
    SumArrays,
    Terms,
)
from nora.engine.exec.kernels.choice import FLOATS
from nora.engine.exec.kernels.pages import room
from nora.engine.ir import changed_rows
from nora.engine.ir import edges as ir_edges
from nora.engine.ir.changed_rows import (
    CANCELLATION_RATIO,
    Attention,
    ChangedRows,
    Drift,
    Frontier,
    SamplingBounds,
    Sums,
    TargetSlopes,
)
from nora.engine.ir.edges import EdgeDelta, Edges
from nora.engine.ir.op import BLOCK_BYTES, Chunk, Then
from nora.engine.passes.fuse_aggregation import WeightedSum
from nora.engine.passes.fuse_epilogue import join_blocks, through
from nora.graph.edit_batch import EditBatch

_CODES = {"none": loops.NONE, "mean": loops.MEAN, "sym": loops.SYM}
# Rows no wider than this are added to where they stand; wider ones are put together one after the other.
NARROW_BYTES = 256
_local = threading.local()
Made = TypeVar("Made")


def _drop_stale_cache(folder: Path) -> None:
    """Delete compiled loops that are older than the named tuples and the constants they read.

    Numba compares a cached loop with its own source file only, and fails where a tuple's class is gone.
    """
    read = (array_tuples, ir_edges, changed_rows, row_sampling)
    changed = max(Path(str(m.__file__)).stat().st_ctime for m in read)
    for cached in folder.glob("loops*.nb?"):
        with contextlib.suppress(OSError):
            if cached.stat().st_mtime < changed:
                cached.unlink()


_drop_stale_cache(Path(loops.expand.stats.cache_path))


def _marks(name: str, size: int, kind: type, clean: int) -> np.ndarray:
    """This thread's array of marks, of at least this size; what is marked is cleaned after use.

    It grows by more than what is asked for, because edges may be added one by one.
    """
    found = vars(_local).get(name)
    if found is None or len(found) < size:
        found = np.full(size + size // 8, clean, dtype=kind)
        setattr(_local, name, found)
    return found


def _scratch(num_nodes: int) -> Scratch:
    kinds = {"slot": (np.int32, -1), "loss": (np.float64, 0), "lost": (np.int64, 0)}
    return Scratch(*(_marks(name, num_nodes, *kind) for name, kind in kinds.items()))


def _flat(tensor: Tensor) -> np.ndarray:
    return tensor.flatten(1).contiguous().numpy()


def _pairs(ptr: Tensor, node: Tensor) -> PairArrays:
    return PairArrays(ptr.numpy(), node.numpy())


def _arrays(kind: Callable[..., Made], fields: tuple[str, ...], one: object) -> Made:
    """Some fields of an object as a named tuple of arrays."""
    return kind(*(getattr(one, name).numpy() for name in fields))


def _frontier(frontier: Frontier) -> FrontierArrays:
    return _arrays(FrontierArrays, FrontierArrays._fields, frontier)


def _sums(base: Sums) -> SumArrays:
    return SumArrays(
        _flat(base.y),
        _flat(base.total),
        base.unit.numpy(),
        base.size.numpy(),
        _flat(base.plus),
        _flat(base.output),
    )


def _weights(rows: ChangedRows) -> np.ndarray:
    return np.empty(0) if rows.weight is None else rows.weight.numpy()


def _tensors(*arrays: np.ndarray) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in arrays)


def _delta(edges: Edges, delta: EdgeDelta) -> DeltaArrays:
    """With this thread's marks of edges, reset after use."""
    gone = _marks("gone", len(edges.by_target[1]), np.bool_, False)
    return _arrays(partial(DeltaArrays, gone=gone), DeltaArrays._fields[:-1], delta)


def _drift(drift: Drift | None) -> DriftArrays:
    if drift is None:
        none = np.empty(0)
        return DriftArrays(none, none, np.empty((0, 0)), np.empty((0, 0)))
    return _arrays(DriftArrays, DriftArrays._fields, drift)


def find_frontier(
    edges: Edges,
    edits: EditBatch,
    changed: ChangedRows,
    also: tuple[Tensor, Tensor],
    delta: EdgeDelta,
) -> Frontier:
    """See `Backend.find_frontier`."""
    csr, removed = edges.arrays, _pairs(edits.ptr, edits.node)
    how = _delta(edges, delta), _CODES[edges.normalise], _scratch(edges.num_nodes)
    sources = loops.find_sources(csr, removed, _pairs(changed.ptr, changed.node), *how)
    reached = loops.expand(csr, removed, PairArrays(*sources[:2]), _pairs(*also), *how)
    edges_changed = np.zeros(len(reached[4]), dtype=np.bool_)
    return Frontier(*_tensors(*sources, *reached, edges_changed))


def message_sizes(edges: Edges, frontier: Frontier, y: Tensor, rows: ChangedRows) -> Tensor:
    """See `Backend.message_sizes`."""
    size = torch.empty(len(frontier.source), dtype=torch.double)
    loops_messages.message_sizes(
        _frontier(frontier), edges.arrays.norm_src, _flat(y), _flat(rows.rows),
        _weights(rows), size.numpy(),
    )  # fmt: skip
    return size


def sample(
    edges: Edges, frontier: Frontier, bounds: SamplingBounds
) -> tuple[Frontier, Tensor, Tensor]:
    """See `Backend.sample`."""
    arrays, count = _frontier(frontier), len(frontier.node)
    share = edges.arrays.weight if bounds.share is None else bounds.share.numpy()
    sizes, floor, chance = np.empty(count), np.empty(count), np.empty(count, dtype=np.int64)
    loops_sampling.arriving(
        edges.arrays, share, frontier.source.numpy(), bounds.size.numpy(), arrays,
        bounds.also.numpy(), bounds.importance.numpy(), bounds.mass.numpy(),
        bounds.most, bounds.least.numpy(), sizes, floor,
    )  # fmt: skip
    planned = np.empty(len(arrays.ptr) - 1)
    loops_sampling.sample(
        arrays.ptr, sizes, floor, bounds.error, bounds.start.numpy(), chance, planned
    )
    *found, drawn = _tensors(*loops_sampling.compacted(arrays, chance))
    names = ("ptr", "node", "norm_dst", "edges_changed")
    frontier = replace(frontier, **dict(zip(names, found, strict=True)))
    return frontier, drawn, torch.from_numpy(planned)


def propagate(
    edges: Edges,
    frontier: Frontier,
    base: Sums,
    rows: ChangedRows,
    plus: ChangedRows,
    delta: EdgeDelta,
    then: Then | None = None,
    drift: Drift | None = None,
) -> tuple[Tensor, ...]:
    """See `Backend.propagate`."""
    count, width, dtype = len(frontier.node), base.y.size(1), base.y.dtype
    change = room(len(frontier.source), width, dtype=dtype).numpy()
    sizes = torch.empty(len(frontier.source), 2, dtype=dtype).numpy()
    reached, arrays = _frontier(frontier), _sums(base)
    y_rows, more = _flat(rows.rows), NewRows(plus.node.numpy(), _flat(plus.rows))
    weight = _weights(rows)
    csr, unit, doubtful = edges.arrays, arrays.unit, np.zeros(count, dtype=np.bool_)
    own = loops.places(reached.also[: len(plus)], count)
    loops_messages.message_changes(
        reached, csr.norm_src, arrays.y, y_rows, weight, unit, change, sizes
    )
    edges_delta, moved, scratch = _delta(edges, delta), _drift(drift), _scratch(edges.num_nodes)
    along_edges = None
    if len(delta):
        along_edges = loops_messages.edge_messages(
            csr, reached, arrays.y, change, unit, edges_delta, scratch
        )

    narrow = width * dtype.itemsize <= NARROW_BYTES
    size = count if narrow or then is None else max(64, BLOCK_BYTES // (width * dtype.itemsize))
    masses = torch.empty(min(size, count), 2, dtype=dtype).numpy()
    rows_then = room(min(size, count), width, dtype=dtype)
    outs = rows_then.numpy()
    if not narrow:
        arriving = loops.by_slot(reached.slot, reached.edge_ptr, count, len(csr.weight) > 0)
    made = []
    for first in range(0, max(count, 1), max(size, 1)):
        last = min(first + size, count)
        block, out = (first, last), outs[: last - first]
        if narrow:
            loops_messages.scatter(csr, reached, change, sizes, out, masses)
        else:
            loops_messages.gather_changes(
                csr, reached.source, arriving, change, sizes, block, out, masses
            )
        if along_edges is not None:
            loops_messages.add_edge_messages(along_edges, block, out, masses)
        unsure = loops_messages.exchange(
            csr, reached, arrays, more, own, CANCELLATION_RATIO, moved, block, masses, out, doubtful
        )
        if unsure:
            loops_messages.resum_targets(
                csr, reached, doubtful, arrays, y_rows, weight, more, own, edges_delta,
                block, out, scratch.slot,
            )  # fmt: skip
        new = rows_then[: last - first]
        if then is None:
            return (new,)
        made.append(through(then, new) if narrow else then(new))
    return join_blocks(made)


def union(a: ChangedRows, b: ChangedRows, num_nodes: int) -> tuple[Tensor, ...]:
    """See `Backend.union`."""
    slot = _scratch(num_nodes).slot
    return _tensors(*loops.union(_pairs(a.ptr, a.node), _pairs(b.ptr, b.node), slot))


def _no_slopes(like: np.ndarray) -> SlopeArrays:
    """No slopes: the softmax of every target is computed again."""
    return SlopeArrays(np.iinfo(np.int64).max, np.empty(0, dtype=np.int64), like[:0])


def attend(
    edges: Edges,
    edits: EditBatch,
    frontier: Frontier,
    base: Attention,
    changed: Sequence[ChangedRows],
    delta: EdgeDelta,
    target_slopes: TargetSlopes | None = None,
    drift: Drift | None = None,
) -> Tensor:
    """See `Backend.attend`."""
    y, first = base.y, changed[0]
    out = torch.empty(len(frontier.node), *y.shape[1:], dtype=y.dtype)
    removed, pairs = _pairs(edits.ptr, edits.node), _pairs(first.ptr, first.node)
    old, new = (
        AttentionArrays(*(one.contiguous().numpy() for one in given))
        for given in ((y, base.alpha_src, base.alpha_dst), (c.rows for c in changed))
    )
    softmax = Softmax(
        *(
            one.contiguous().numpy()
            for one in (base.output, base.peak, base.share, base.unit, base.size)
        )
    )
    if first.weight is None or target_slopes is None:
        row_weight, targets = np.empty(0), _no_slopes(out.numpy())
    else:
        row_weight = first.weight.numpy()
        place, slopes = target_slopes.place.numpy(), target_slopes.slope.contiguous().numpy()
        targets = SlopeArrays(target_slopes.many, place, slopes)
    loops_attention.attend(
        edges.arrays, removed, pairs, row_weight, _frontier(frontier), old, new,
        y.numpy().dtype.type(base.slope), softmax, _delta(edges, delta), CANCELLATION_RATIO, targets,
        _drift(drift), out.numpy(), _scratch(edges.num_nodes).slot,
    )  # fmt: skip
    return out


def weighted_sum(
    op: WeightedSum, chunk: Chunk, y: ChangedRows, weights: ChangedRows | None
) -> ChangedRows:
    """See `Backend.weighted_sum`."""
    changes = ChunkArrays(
        **{name: _pairs(*pair) for name, pair in op.arrays(chunk, y, weights).items()}
    )
    out_ways, in_ways = op.gather.readers, op.scatter.senders
    ends = (op.gather.index, op.scatter.index)
    edges = CsrEdges(*(part.numpy() for part in (*out_ways, *in_ways, *ends)))
    base = _flat(op.inputs[0].base_rows())
    total, start = _flat(op.output.base_rows()), op.inputs[1].base_rows()
    start = start[:1] if start.stride(0) == 0 else start
    # A weight is one number per edge; without weights there are none.
    weight = np.empty(0, dtype=base.dtype)
    new_weight = weight
    if op.weight is not None:
        weight = op.weight.base_rows().reshape(-1).contiguous().numpy()
        if weights is not None and len(weights):
            new_weight = weights.rows.reshape(-1).contiguous().numpy()
    rows = _flat(y.rows) if len(y) else base[:0]
    unit, size = op.units
    terms = Terms(
        base, rows, weight, new_weight, _flat(start), total, unit.numpy(), size.numpy()
    )  # fmt: skip
    spaces = {"sums": op.output.space, "rows": op.inputs[0].space, "edges": op.gather.output.space}
    slot, y_slot, w_slot = (
        _marks(name, space.size, np.int64, -1) for name, space in spaces.items()
    )
    lost = _marks("lost edges", spaces["edges"].size, np.bool_, False)
    marks = Marks(slot, y_slot, w_slot, lost)
    ptr, node, touched = loops_sums.reached_rows(edges, changes, marks)
    out = np.empty((len(node), base.shape[1]), dtype=base.dtype)
    reached = PairArrays(ptr, node)
    loops_sums.weighted_sums(edges, changes, terms, op.few, op.digits, reached, touched, marks, out)
    found = torch.from_numpy(out).view(-1, *op.output.base_rows().shape[1:])
    chunk.tally.bytes += 2 * found.nbytes
    return ChangedRows(torch.from_numpy(ptr), torch.from_numpy(node), found)


def pair_dots(
    incident: tuple[Tensor, Tensor],
    pairs: Tensor,
    edits: EditBatch,
    changed: ChangedRows,
    z: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """See `Backend.pair_dots`."""
    found = loops_pairs.touched_pairs(
        _pairs(*incident), pairs.numpy(), _pairs(edits.ptr, edits.node),
        _pairs(changed.ptr, changed.node), _marks("pairs", pairs.size(1), np.bool_, False),
        _scratch(len(incident[0]) - 1).slot,
    )  # fmt: skip
    ptr, pair, ends = found
    out = torch.empty(len(pair), dtype=z.dtype)
    loops_pairs.dot_products(pair, pairs.numpy(), ends, _flat(z), _flat(changed.rows), out.numpy())
    return torch.from_numpy(ptr), torch.from_numpy(pair), out


def item_changes(before: Tensor, item: Tensor, after: Tensor) -> Tensor:
    """See `Backend.item_changes`."""
    if before.dim() != 2 or before.dtype not in FLOATS or after.dtype != before.dtype:
        return vectorised.item_changes(before, item, after)
    change = torch.empty(len(item), dtype=before.dtype)
    loops_pairs.differences(_flat(before), item.numpy(), after.contiguous().numpy(), change.numpy())
    return change
