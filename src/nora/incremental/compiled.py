"""The index work and the sums of the engine as compiled loops (CPU, `numba`).

Each function works on a chunk of removals, one removal after the other, with scratch arrays of the
size of the graph. They release the GIL: chunks run on several threads. `vectorised.py` has the same
functions in plain torch, for other devices and small graphs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from nora.incremental.changed import Changed, Reach, Removals
from nora.incremental.edges import Edges

_NONE, _MEAN, _SYM = 0, 1, 2
_CODES = {"none": _NONE, "mean": _MEAN, "sym": _SYM}
_jit: Callable[..., Any] = njit(nogil=True, cache=True)
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


def forget_scratch() -> None:
    """Drop this thread's scratch arrays: an interrupted loop may have left them dirty."""
    _local.size = -1


def _weights(edges: Edges) -> np.ndarray:
    weight = edges.weight_by_source
    return np.empty(0, dtype=np.float32) if weight is None else weight.numpy()


@_jit
def _rescaled(degree, count, loss, lost, code):  # type: ignore[no-untyped-def]
    """The `left` factor after `lost` edges of summed weight `loss` are gone."""
    if code == _SYM:
        rest = degree - loss
        return 0.0 if count == lost or rest == 0.0 else rest**-0.5
    rest = float(count - lost)
    return 1.0 / max(rest, 1.0)


@_jit
def _find_sources(  # type: ignore[no-untyped-def]
    indptr, target, weight, degree, count, right, rem_ptr, rem_node, chg_ptr, chg_node, code, slot, loss, lost
):
    bound = len(chg_node) + len(rem_node)
    if code == _SYM:
        for r in rem_node:
            bound += indptr[r + 1] - indptr[r]
    ptr = np.zeros(len(rem_ptr), dtype=np.int64)
    source = np.empty(bound, dtype=np.int64)
    row = np.empty(bound, dtype=np.int64)
    scale = np.empty(bound)
    weighted = len(weight) > 0
    n = 0
    for c in range(len(rem_ptr) - 1):
        removed = rem_node[rem_ptr[c] : rem_ptr[c + 1]]
        for r in removed:
            slot[r] = -2
        if code == _SYM:
            for r in removed:
                for e in range(indptr[r], indptr[r + 1]):
                    loss[target[e]] += weight[e] if weighted else 1.0
                    lost[target[e]] += 1
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            j = chg_node[m]
            source[n] = j
            row[n] = m
            scale[n] = right[j]
            if lost[j] > 0:
                scale[n] = _rescaled(degree[j], count[j], loss[j], lost[j], code)
            slot[j] = 0
            n += 1
        if code == _SYM:
            for r in removed:
                for e in range(indptr[r], indptr[r + 1]):
                    k = target[e]
                    if slot[k] == -1:
                        source[n] = k
                        row[n] = -1
                        scale[n] = _rescaled(degree[k], count[k], loss[k], lost[k], code)
                        slot[k] = 0
                        n += 1
        for r in removed:
            source[n] = r
            row[n] = -2
            scale[n] = 0.0
            n += 1
        ptr[c + 1] = n
        for s in range(ptr[c], n):
            slot[source[s]] = -1
        if code == _SYM:
            for r in removed:
                for e in range(indptr[r], indptr[r + 1]):
                    loss[target[e]] = 0.0
                    lost[target[e]] = 0
    return ptr, source[:n].copy(), row[:n].copy(), scale[:n].copy()


@_jit
def _expand(  # type: ignore[no-untyped-def]
    indptr, target, weight, degree, count, left, rem_ptr, rem_node, src_ptr, source, row, code, selves,
    slot, loss, lost,
):
    edge_ptr = np.zeros(len(source) + 1, dtype=np.int64)
    for s in range(len(source)):
        edge_ptr[s + 1] = edge_ptr[s] + indptr[source[s] + 1] - indptr[source[s]]
    slots = np.empty(edge_ptr[-1], dtype=np.int64)
    ptr = np.zeros(len(rem_ptr), dtype=np.int64)
    bound = np.int64(0)
    for c in range(len(rem_ptr) - 1):
        most = edge_ptr[src_ptr[c + 1]] - edge_ptr[src_ptr[c]]
        if selves:
            most += src_ptr[c + 1] - src_ptr[c]
        bound += min(most, len(indptr) - 1)
    node = np.empty(bound, dtype=np.int64)
    new_left = np.empty(bound)
    weighted = len(weight) > 0
    n = np.int64(0)
    for c in range(len(rem_ptr) - 1):
        start = n
        removed = rem_node[rem_ptr[c] : rem_ptr[c + 1]]
        for r in removed:
            slot[r] = -2
            if code != _NONE:
                for e in range(indptr[r], indptr[r + 1]):
                    loss[target[e]] += weight[e] if weighted else 1.0
                    lost[target[e]] += 1
        for s in range(src_ptr[c], src_ptr[c + 1]):
            at = edge_ptr[s]
            j = source[s]
            if selves and row[s] >= 0 and slot[j] == -1:
                slot[j] = n
                node[n] = j
                n += 1
            for e in range(indptr[j], indptr[j + 1]):
                k = target[e]
                if slot[k] == -1:
                    slot[k] = n
                    node[n] = k
                    n += 1
                slots[at] = slot[k] if slot[k] >= 0 else -1
                at += 1
        for t in range(start, n):
            k = node[t]
            slot[k] = -1
            new_left[t] = left[k]
            if lost[k] > 0:
                new_left[t] = _rescaled(degree[k], count[k], loss[k], lost[k], code)
        for r in removed:
            slot[r] = -1
            if code != _NONE:
                for e in range(indptr[r], indptr[r + 1]):
                    loss[target[e]] = 0.0
                    lost[target[e]] = 0
        ptr[c + 1] = n
    return edge_ptr, slots, ptr, node[:n].copy(), new_left[:n].copy()


@_jit
def _message_change(source, row, scale, right, y, y_rows, size):  # type: ignore[no-untyped-def]
    for s in range(len(source)):
        j, m = source[s], row[s]
        total = 0.0
        if m >= 0:
            for f in range(y.shape[1]):
                total += abs(scale[s] * y_rows[m, f] - right[j] * y[j, f])
        else:
            for f in range(y.shape[1]):
                total += abs(y[j, f])
            total *= abs(scale[s] - right[j])
        size[s] = total


@_jit
def _accumulate(  # type: ignore[no-untyped-def]
    indptr, weight, source, row, scale, edge_ptr, slots, node, new_left, right, y, y_rows, total, out, change
):
    weighted = len(weight) > 0
    width = y.shape[1]
    for t in range(len(node)):
        out[t] = total[node[t]]
    for s in range(len(source)):
        if edge_ptr[s] == edge_ptr[s + 1]:
            continue
        j, m = source[s], row[s]
        old = y.dtype.type(right[j])
        new = y.dtype.type(scale[s])
        if m >= 0:
            for f in range(width):
                change[f] = new * y_rows[m, f] - old * y[j, f]
        else:
            for f in range(width):
                change[f] = (new - old) * y[j, f]
        first = indptr[j]
        for at in range(edge_ptr[s], edge_ptr[s + 1]):
            t = slots[at]
            if t >= 0:
                if weighted:
                    w = weight[first + at - edge_ptr[s]]
                    for f in range(width):
                        out[t, f] += w * change[f]
                else:
                    for f in range(width):
                        out[t, f] += change[f]
    for t in range(len(node)):
        if new_left[t] != 1.0:
            factor = y.dtype.type(new_left[t])
            for f in range(width):
                out[t, f] *= factor


@_jit
def _union(a_ptr, a_node, b_ptr, b_node, slot):  # type: ignore[no-untyped-def]
    ptr = np.zeros(len(a_ptr), dtype=np.int64)
    node = np.empty(len(a_node) + len(b_node), dtype=np.int64)
    at_a = np.empty(len(a_node), dtype=np.int64)
    at_b = np.empty(len(b_node), dtype=np.int64)
    n = np.int64(0)
    for c in range(len(a_ptr) - 1):
        start = n
        for m in range(a_ptr[c], a_ptr[c + 1]):
            node[n] = a_node[m]
            slot[a_node[m]] = n
            at_a[m] = n
            n += 1
        for m in range(b_ptr[c], b_ptr[c + 1]):
            if slot[b_node[m]] == -1:
                node[n] = b_node[m]
                slot[b_node[m]] = n
                n += 1
            at_b[m] = slot[b_node[m]]
        for t in range(start, n):
            slot[node[t]] = -1
        ptr[c + 1] = n
    return ptr, node[:n].copy(), at_a, at_b


@_jit
def _attend(  # type: ignore[no-untyped-def]
    indptr, source, rem_ptr, rem_node, chg_ptr, chg_node, ptr, node, y, near, far, y_rows, near_rows,
    far_rows, slope, out, slot,
):
    heads = near.shape[1]
    width = y.shape[1] // heads
    longest = np.int64(0)
    for k in range(len(indptr) - 1):
        longest = max(longest, indptr[k + 1] - indptr[k])
    weight = np.empty((longest, heads), dtype=y.dtype)
    largest = np.empty(heads, dtype=y.dtype)
    summed = np.empty(heads, dtype=y.dtype)
    for c in range(len(rem_ptr) - 1):
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -2
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            slot[chg_node[m]] = m
        for t in range(ptr[c], ptr[c + 1]):
            k = node[t]
            here = far_rows[slot[k]] if slot[k] >= 0 else far[k]
            largest[:] = -np.inf
            for e in range(indptr[k], indptr[k + 1]):
                j = source[e]
                m = slot[j]
                if m == -2:
                    continue
                there = near_rows[m] if m >= 0 else near[j]
                for h in range(heads):
                    score = here[h] + there[h]
                    if score < 0:
                        score *= slope
                    weight[e - indptr[k], h] = score
                    largest[h] = max(largest[h], score)
            summed[:] = 0
            for f in range(y.shape[1]):
                out[t, f] = 0
            for e in range(indptr[k], indptr[k + 1]):
                m = slot[source[e]]
                if m == -2:
                    continue
                rows = y_rows[m] if m >= 0 else y[source[e]]
                for h in range(heads):
                    share = np.exp(weight[e - indptr[k], h] - largest[h])
                    summed[h] += share
                    for f in range(h * width, (h + 1) * width):
                        out[t, f] += share * rows[f]
            for h in range(heads):
                factor = 1 / (summed[h] + y.dtype.type(1e-16))
                for f in range(h * width, (h + 1) * width):
                    out[t, f] *= factor
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -1
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            slot[chg_node[m]] = -1


@_jit
def _touched_pairs(  # type: ignore[no-untyped-def]
    indptr, incident, pairs, rem_ptr, rem_node, chg_ptr, chg_node, seen, slot
):
    bound = np.int64(0)
    for k in chg_node:
        bound += indptr[k + 1] - indptr[k]
    ptr = np.zeros(len(rem_ptr), dtype=np.int64)
    pair = np.empty(bound, dtype=np.int64)
    ends = np.empty((2, bound), dtype=np.int64)
    n = np.int64(0)
    for c in range(len(rem_ptr) - 1):
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -2
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            slot[chg_node[m]] = m
        start = n
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            k = chg_node[m]
            for e in range(indptr[k], indptr[k + 1]):
                p = incident[e]
                i, j = pairs[0, p], pairs[1, p]
                if not seen[p] and slot[i] != -2 and slot[j] != -2:
                    seen[p] = True
                    pair[n] = p
                    ends[0, n] = slot[i]
                    ends[1, n] = slot[j]
                    n += 1
        for q in range(start, n):
            seen[pair[q]] = False
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -1
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            slot[chg_node[m]] = -1
        ptr[c + 1] = n
    return ptr, pair[:n].copy(), ends[:, :n].copy()


@_jit
def _dots(pair, pairs, ends, z, rows, out):  # type: ignore[no-untyped-def]
    for q in range(len(pair)):
        i, j = ends[0, q], ends[1, q]
        a = rows[i] if i >= 0 else z[pairs[0, pair[q]]]
        b = rows[j] if j >= 0 else z[pairs[1, pair[q]]]
        total = out.dtype.type(0)
        for f in range(z.shape[1]):
            total += a[f] * b[f]
        out[q] = total


def _flat(tensor: Tensor) -> np.ndarray:
    return tensor.flatten(1).contiguous().numpy()


def _tensors(*arrays: np.ndarray) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in arrays)


def find_sources(edges: Edges, removals: Removals, changed: Changed) -> tuple[Tensor, ...]:
    """Whose messages change: `ptr [c+1]`, `source`, `row`, `scale` as in `Reach`."""
    indptr, target, _ = edges.by_source
    arrays = _find_sources(
        indptr.numpy(), target.numpy(), _weights(edges), edges.degree.numpy(), edges.count.numpy(),
        edges.right.numpy(), removals.ptr.numpy(), removals.node.numpy(), changed.ptr.numpy(),
        changed.node.numpy(), _CODES[edges.normalise], *_scratch(edges.num_nodes),
    )  # fmt: skip
    return _tensors(*arrays)


def expand(
    edges: Edges, removals: Removals, sources: tuple[Tensor, ...], selves: bool = False
) -> Reach:
    """Where those messages arrive; with `selves`, changed nodes are reached too."""
    src_ptr, source, row, scale = sources
    indptr, target, _ = edges.by_source
    arrays = _expand(
        indptr.numpy(), target.numpy(), _weights(edges), edges.degree.numpy(), edges.count.numpy(),
        edges.left.numpy(), removals.ptr.numpy(), removals.node.numpy(), src_ptr.numpy(),
        source.numpy(), row.numpy(), _CODES[edges.normalise], selves, *_scratch(edges.num_nodes),
    )  # fmt: skip
    edge_ptr, slot, ptr, node, left = _tensors(*arrays)
    return Reach(source, row, scale, edge_ptr, slot, ptr, node, left)


def message_change(edges: Edges, sources: tuple[Tensor, ...], y: Tensor, rows: Tensor) -> Tensor:
    """L1 change of each source's message `[S]`, float64."""
    _, source, row, scale = sources
    size = torch.empty(len(source), dtype=torch.double)
    _message_change(
        source.numpy(), row.numpy(), scale.numpy(), edges.right.numpy(), _flat(y), _flat(rows),
        size.numpy(),
    )  # fmt: skip
    return size


def accumulate(edges: Edges, reach: Reach, y: Tensor, rows: Tensor, total: Tensor) -> Tensor:
    """New sums of the reached rows `[T, F]`."""
    out = torch.empty(len(reach.node), y.size(1), dtype=y.dtype)
    change = np.empty(y.size(1), dtype=out.numpy().dtype)
    _accumulate(
        edges.by_source[0].numpy(), _weights(edges), reach.source.numpy(), reach.row.numpy(),
        reach.scale.numpy(), reach.edge_ptr.numpy(), reach.slot.numpy(), reach.node.numpy(),
        reach.left.numpy(), edges.right.numpy(), _flat(y), _flat(rows), _flat(total), out.numpy(), change,
    )  # fmt: skip
    return out


def union(a: Changed, b: Changed, num_nodes: int) -> tuple[Tensor, ...]:
    """Pairs in `a` or `b`: `ptr`, `node`, and where the rows of `a` and of `b` are in it."""
    slot = _scratch(num_nodes)[0]
    return _tensors(*_union(a.ptr.numpy(), a.node.numpy(), b.ptr.numpy(), b.node.numpy(), slot))


def attend(
    edges: Edges,
    removals: Removals,
    changed: Changed,
    reach: Reach,
    base: tuple[Tensor, Tensor, Tensor],
    rows: tuple[Tensor, Tensor, Tensor],
    slope: float,
) -> Tensor:
    """Softmax-weighted sums over the reached rows' in-neighbourhoods `[T, H·C]`."""
    y, near, far = base
    indptr, source, _ = edges.by_target
    out = torch.empty(len(reach.node), y[:1].numel(), dtype=y.dtype)
    _attend(
        indptr.numpy(), source.numpy(), removals.ptr.numpy(), removals.node.numpy(),
        changed.ptr.numpy(), changed.node.numpy(), reach.ptr.numpy(), reach.node.numpy(), _flat(y),
        _flat(near), _flat(far), *(_flat(part) for part in rows), out.numpy().dtype.type(slope),
        out.numpy(), _scratch(edges.num_nodes)[0],
    )  # fmt: skip
    return out.view(-1, *y.shape[1:])


def touched_pairs(
    incident: tuple[Tensor, Tensor], pairs: Tensor, removals: Removals, changed: Changed
) -> tuple[Tensor, ...]:
    """Surviving pairs with a changed end: `ptr [c+1]`, `pair [Q]`, `ends [2, Q]`.

    `ends` gives each end's changed row, −1 for an unchanged end.
    """
    indptr, edge = incident
    seen = np.zeros(pairs.size(1), dtype=np.bool_)
    slot = _scratch(len(indptr) - 1)[0]
    return _tensors(
        *_touched_pairs(
            indptr.numpy(), edge.numpy(), pairs.numpy(), removals.ptr.numpy(), removals.node.numpy(),
            changed.ptr.numpy(), changed.node.numpy(), seen, slot,
        )
    )  # fmt: skip


def dots(pair: Tensor, pairs: Tensor, ends: Tensor, z: Tensor, rows: Tensor) -> Tensor:
    """Dot products of the pairs' two rows `[Q]`."""
    out = torch.empty(len(pair), dtype=z.dtype)
    _dots(pair.numpy(), pairs.numpy(), ends.numpy(), _flat(z), _flat(rows), out.numpy())
    return out
