"""The compiled loops behind `compiled.py`: plain Python on NumPy arrays, translated by `numba`.

Every function goes through a chunk one edit after the other. Arguments that belong together are one named
tuple (`arrays.py`, `edges.Arrays`); edits and changed rows are as in `changed_rows.py`. Arrays are unpacked
from their tuples before a loop, and rows are addressed by array and index: within a loop, both tuples and
slices cost more than the sum of a narrow row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from nora.engine.exec.kernels.prefetch import prefetch_number
from nora.engine.ir.changed_rows import FEWEST_CORRECTIONS, MOST_CORRECTIONS, MOST_MOVED

NONE, MEAN, SYM = 0, 1, 2
jit: Callable[..., Any] = njit(nogil=True, cache=True)
# Sums over a row may be added in any order, so that they can use vector registers.
jit_sums: Callable[..., Any] = njit(nogil=True, cache=True, fastmath={"reassoc", "nsz", "contract"})
# How many lists of edges ahead of the one at hand are asked for.
SOON = 8


@jit
def rescaled(degree, count, loss, lost, code):
    """The `norm_dst` factor after `lost` edges of summed weight `loss` are removed."""
    if code == SYM:
        rest = degree - loss
        return 0.0 if count == lost or rest == 0.0 else rest**-0.5
    rest = float(count - lost)
    return 1.0 / max(rest, 1.0)


@jit
def rescale(k, slot, degree, count, loss, lost, code, factor):
    """Note the new factor of a node that loses or gains edges, where it has a slot.

    What a node loses and gains may come to nothing: then its factor is what it was, to the last digit.
    """
    if slot[k] >= 0 and (lost[k] != 0 or loss[k] != 0.0):
        factor[slot[k]] = rescaled(degree[k], count[k], loss[k], lost[k], code)


@jit
def lose(csr, here, delta, c, loss, lost):
    """Note what every node loses of the edges into it, with removed nodes and by themselves."""
    indptr, end, target, weight = csr.indptr, csr.end, csr.target, csr.weight
    weighted = len(weight) > 0
    for r in here:
        for e in range(indptr[r], end[r]):
            loss[target[e]] += weight[e] if weighted else 1.0
            lost[target[e]] += 1
    for i in range(delta.ptr[c], delta.ptr[c + 1]):
        loss[delta.target[i]] += delta.loss[i]
        lost[delta.target[i]] += delta.lost[i]


@jit
def reset_marks(csr, here, delta, c, loss, lost):
    """Clean what `lose` has noted."""
    indptr, end, target = csr.indptr, csr.end, csr.target
    for r in here:
        for e in range(indptr[r], end[r]):
            loss[target[e]] = 0.0
            lost[target[e]] = 0
    for i in range(delta.ptr[c], delta.ptr[c + 1]):
        loss[delta.target[i]] = 0.0
        lost[delta.target[i]] = 0


@jit
def find_sources(csr, removed, changed, delta, code, scratch):
    """Whose messages change, and by which factor they are scaled after the edit."""
    indptr, end, target = csr.indptr, csr.end, csr.target
    degree, count = csr.degree, csr.arriving
    norm_src = csr.norm_src
    rem_ptr, rem_node = removed
    chg_ptr, chg_node = changed
    slot, loss, lost = scratch
    bound = len(chg_node) + len(rem_node) + len(delta.target)
    if code == SYM:
        for r in rem_node:
            bound += end[r] - indptr[r]
    ptr = np.zeros(len(rem_ptr), dtype=np.int64)
    source = np.empty(bound, dtype=np.int64)
    row = np.empty(bound, dtype=np.int64)
    scale = np.empty(bound)
    n = 0
    for c in range(len(rem_ptr) - 1):
        here = rem_node[rem_ptr[c] : rem_ptr[c + 1]]
        for r in here:
            slot[r] = -2
        if code == SYM:
            lose(csr, here, delta, c, loss, lost)
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            j = chg_node[m]
            source[n] = j
            row[n] = m
            scale[n] = norm_src[j]
            slot[j] = n
            n += 1
        if code == SYM:
            for r in here:
                for e in range(indptr[r], end[r]):
                    k = target[e]
                    if slot[k] == -1:
                        source[n] = k
                        row[n] = -1
                        scale[n] = norm_src[k]
                        slot[k] = n
                        n += 1
                    rescale(k, slot, degree, count, loss, lost, code, scale)
            for i in range(delta.ptr[c], delta.ptr[c + 1]):
                k = delta.target[i]
                if slot[k] == -1:
                    source[n] = k
                    row[n] = -1
                    scale[n] = norm_src[k]
                    slot[k] = n
                    n += 1
                rescale(k, slot, degree, count, loss, lost, code, scale)
        for r in here:
            source[n] = r
            row[n] = -2
            scale[n] = 0.0
            n += 1
        ptr[c + 1] = n
        for s in range(ptr[c], n):
            slot[source[s]] = -1
        if code == SYM:
            reset_marks(csr, here, delta, c, loss, lost)
    return ptr, source[:n].copy(), row[:n].copy(), scale[:n].copy()


@jit
def expand(csr, removed, sources, also, delta, code, scratch):
    """The targets of the sources' messages: their nodes, a slot for every edge, new `norm_dst` factors.

    The nodes in `also` are reached too, whether a message arrives there or not.
    """
    indptr, end, target = csr.indptr, csr.end, csr.target
    degree, count = csr.degree, csr.arriving
    norm_dst = csr.norm_dst
    rem_ptr, rem_node = removed
    src_ptr, source = sources
    also_ptr, also_node = also
    slot, loss, lost = scratch
    edge_ptr = np.zeros(len(source) + 1, dtype=np.int64)
    for s in range(len(source)):
        edge_ptr[s + 1] = edge_ptr[s] + end[source[s]] - indptr[source[s]]
    slots = np.empty(edge_ptr[-1], dtype=np.int32)
    also_slot = np.empty(len(also_node), dtype=np.int64)
    ptr = np.zeros(len(rem_ptr), dtype=np.int64)
    bound = np.int64(0)
    for c in range(len(rem_ptr) - 1):
        most = edge_ptr[src_ptr[c + 1]] - edge_ptr[src_ptr[c]] + also_ptr[c + 1] - also_ptr[c]
        bound += min(most, len(end))
    node = np.empty(bound + 1, dtype=np.int64)
    new_norm_dst = np.empty(bound)
    n, last = np.int64(0), len(source)
    for c in range(len(rem_ptr) - 1):
        start = n
        here = rem_node[rem_ptr[c] : rem_ptr[c + 1]]
        for r in here:
            slot[r] = -2
        if code != NONE:
            lose(csr, here, delta, c, loss, lost)
        for s in range(src_ptr[c], src_ptr[c + 1]):
            if s + 2 * SOON < last:
                prefetch_number(indptr, source[s + 2 * SOON])
            if s + SOON < last:
                prefetch_number(target, indptr[source[s + SOON]])
                prefetch_number(target, indptr[source[s + SOON]] + 16)
            at = edge_ptr[s]
            for e in range(indptr[source[s]], end[source[s]]):
                k = target[e]
                t = slot[k]
                # Whether a node is new cannot be foreseen: it is written, and then it counts or not.
                new = t == -1
                t = np.int32(n) if new else t
                slot[k] = t
                node[n] = k
                n += new
                slots[at] = max(t, -1)
                at += 1
        for m in range(also_ptr[c], also_ptr[c + 1]):
            k = also_node[m]
            if slot[k] == -1:
                slot[k] = n
                node[n] = k
                n += 1
            also_slot[m] = slot[k]
        for t in range(start, n):
            new_norm_dst[t] = norm_dst[node[t]]
        if code != NONE:
            for r in here:
                for e in range(indptr[r], end[r]):
                    rescale(target[e], slot, degree, count, loss, lost, code, new_norm_dst)
            for i in range(delta.ptr[c], delta.ptr[c + 1]):
                rescale(delta.target[i], slot, degree, count, loss, lost, code, new_norm_dst)
        for t in range(start, n):
            slot[node[t]] = -1
        for r in here:
            slot[r] = -1
        if code != NONE:
            reset_marks(csr, here, delta, c, loss, lost)
        ptr[c + 1] = n
    return edge_ptr, slots, also_slot, ptr, node[:n].copy(), new_norm_dst[:n].copy()


@jit
def union(a, b, slot):
    """Pairs in either of two sets of changed rows, and where each set's rows are in it."""
    a_ptr, a_node = a
    b_ptr, b_node = b
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


@jit
def by_slot(slots, edge_ptr, count, positions):
    """The arriving edges sorted by the row they add to: `ptr [count+1]`, source, position if asked for."""
    ptr = np.zeros(count + 1, dtype=np.int64)
    for t in slots:
        if t >= 0:
            ptr[t + 1] += 1
    for t in range(count):
        ptr[t + 1] += ptr[t]
    sender = np.empty(ptr[count], dtype=np.int32)
    position = np.empty(ptr[count] if positions else 0, dtype=np.int32)
    fill = ptr[:-1].copy()
    for s in range(len(edge_ptr) - 1):
        for at in range(edge_ptr[s], edge_ptr[s + 1]):
            t = slots[at]
            if t >= 0:
                sender[fill[t]] = s
                if positions:
                    position[fill[t]] = at - edge_ptr[s]
                fill[t] += 1
    return ptr, sender, position


@jit
def correction(count):
    """The drift that one correction adds to a sum of this many messages; see `MOST_MOVED`."""
    return MOST_MOVED / min(max(count, FEWEST_CORRECTIONS), MOST_CORRECTIONS)


@jit
def places(also, count):
    """The position of every row among other rows, −1 if it is none of them. Empty if there are no others."""
    own = np.full(count if len(also) > 0 else 0, -1, dtype=np.int64)
    for m in range(len(also)):
        own[also[m]] = m
    return own
