"""The compiled loops behind `compiled.py`: plain Python on NumPy arrays, translated by `numba`.

Every function goes through a chunk one removal after the other. `slot`, `loss` and `lost` are scratch
arrays of the size of the graph that are clean (−1, 0, 0) on entry and on return. CSR arrays, removals
(`rem_ptr`, `rem_node`), changed rows (`chg_ptr`, `chg_node`) and reached rows are as in `changed.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

NONE, MEAN, SYM = 0, 1, 2
jit: Callable[..., Any] = njit(nogil=True, cache=True)
# Sums over a row may be added in any order, so that they can use vector registers.
jit_sums: Callable[..., Any] = njit(nogil=True, cache=True, fastmath={"reassoc", "nsz", "contract"})


@jit
def rescaled(degree, count, loss, lost, code):
    """The `left` factor after `lost` edges of summed weight `loss` are gone."""
    if code == SYM:
        rest = degree - loss
        return 0.0 if count == lost or rest == 0.0 else rest**-0.5
    rest = float(count - lost)
    return 1.0 / max(rest, 1.0)


@jit
def find_sources(
    indptr,
    target,
    weight,
    degree,
    count,
    right,
    rem_ptr,
    rem_node,
    chg_ptr,
    chg_node,
    code,
    slot,
    loss,
    lost,
):
    """Whose messages change, and by which factor they are scaled after the removal."""
    bound = len(chg_node) + len(rem_node)
    if code == SYM:
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
        if code == SYM:
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
                scale[n] = rescaled(degree[j], count[j], loss[j], lost[j], code)
            slot[j] = 0
            n += 1
        if code == SYM:
            for r in removed:
                for e in range(indptr[r], indptr[r + 1]):
                    k = target[e]
                    if slot[k] == -1:
                        source[n] = k
                        row[n] = -1
                        scale[n] = rescaled(degree[k], count[k], loss[k], lost[k], code)
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
        if code == SYM:
            for r in removed:
                for e in range(indptr[r], indptr[r + 1]):
                    loss[target[e]] = 0.0
                    lost[target[e]] = 0
    return ptr, source[:n].copy(), row[:n].copy(), scale[:n].copy()


@jit
def expand(
    indptr, target, weight, degree, count, left, rem_ptr, rem_node, src_ptr, source, also_ptr,
    also_node, code, slot, loss, lost,
):  # fmt: skip
    """Where the sources' messages arrive: reached nodes, a slot for every edge, new `left` factors.

    The nodes in `also` are reached too, whether a message arrives there or not.
    """
    edge_ptr = np.zeros(len(source) + 1, dtype=np.int64)
    for s in range(len(source)):
        edge_ptr[s + 1] = edge_ptr[s] + indptr[source[s] + 1] - indptr[source[s]]
    slots = np.empty(edge_ptr[-1], dtype=np.int64)
    also_slot = np.empty(len(also_node), dtype=np.int64)
    ptr = np.zeros(len(rem_ptr), dtype=np.int64)
    bound = np.int64(0)
    for c in range(len(rem_ptr) - 1):
        most = edge_ptr[src_ptr[c + 1]] - edge_ptr[src_ptr[c]] + also_ptr[c + 1] - also_ptr[c]
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
            if code != NONE:
                for e in range(indptr[r], indptr[r + 1]):
                    loss[target[e]] += weight[e] if weighted else 1.0
                    lost[target[e]] += 1
        for s in range(src_ptr[c], src_ptr[c + 1]):
            at = edge_ptr[s]
            for e in range(indptr[source[s]], indptr[source[s] + 1]):
                k = target[e]
                if slot[k] == -1:
                    slot[k] = n
                    node[n] = k
                    n += 1
                slots[at] = slot[k] if slot[k] >= 0 else -1
                at += 1
        for m in range(also_ptr[c], also_ptr[c + 1]):
            k = also_node[m]
            if slot[k] == -1:
                slot[k] = n
                node[n] = k
                n += 1
            also_slot[m] = slot[k]
        for t in range(start, n):
            k = node[t]
            slot[k] = -1
            new_left[t] = left[k]
            if lost[k] > 0:
                new_left[t] = rescaled(degree[k], count[k], loss[k], lost[k], code)
        for r in removed:
            slot[r] = -1
            if code != NONE:
                for e in range(indptr[r], indptr[r + 1]):
                    loss[target[e]] = 0.0
                    lost[target[e]] = 0
        ptr[c + 1] = n
    return edge_ptr, slots, also_slot, ptr, node[:n].copy(), new_left[:n].copy()


@jit_sums
def message_change(source, row, scale, right, y, y_rows, size):
    """L1 change of every source's message."""
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


@jit
def by_slot(slots, edge_ptr, count):
    """The arriving edges sorted by the row they add to: `ptr [count+1]`, source, position."""
    ptr = np.zeros(count + 1, dtype=np.int64)
    for t in slots:
        if t >= 0:
            ptr[t + 1] += 1
    for t in range(count):
        ptr[t + 1] += ptr[t]
    sender = np.empty(ptr[count], dtype=np.int64)
    position = np.empty(ptr[count], dtype=np.int64)
    fill = ptr[:-1].copy()
    for s in range(len(edge_ptr) - 1):
        for at in range(edge_ptr[s], edge_ptr[s + 1]):
            t = slots[at]
            if t >= 0:
                sender[fill[t]] = s
                position[fill[t]] = at - edge_ptr[s]
                fill[t] += 1
    return ptr, sender, position


@jit
def message_changes(source, row, scale, right, y, y_rows, change):
    """What every source sends differently, `[S, F]`."""
    width = y.shape[1]
    for s in range(len(source)):
        j, m = source[s], row[s]
        old = y.dtype.type(right[j])
        new = y.dtype.type(scale[s])
        if m >= 0:
            for f in range(width):
                change[s, f] = new * y_rows[m, f] - old * y[j, f]
        else:
            for f in range(width):
                change[s, f] = (new - old) * y[j, f]


@jit_sums
def size_of(row):
    """`Σ|row|`."""
    size = row.dtype.type(0)
    for f in range(len(row)):
        size += abs(row[f])
    return size


@jit_sums
def size_of_sum(a, b):
    """`Σ|a + b|`."""
    size = a.dtype.type(0)
    for f in range(len(a)):
        size += abs(a[f] + b[f])
    return size


@jit
def accumulate(
    indptr, weight, left, source, edge_ptr, slots, also_slot, node, new_left, total, size, digits, plus,
    plus_node, plus_rows, whole, change, out, doubtful,
):  # fmt: skip
    """Original outputs plus the changes of all arriving messages, rescaled where `left` changed.

    Row by row, so that each is written once: the rows are many and far apart in memory. `doubtful` tells
    where the changes have eaten up the digits of a sum, or there is no number.
    """
    weighted = len(weight) > 0
    width = change.shape[1]
    ptr, sender, position = by_slot(slots, edge_ptr, len(node))
    summed = np.empty(width, dtype=change.dtype)
    for t in range(len(node)):
        k = node[t]
        for f in range(width):
            summed[f] = 0
        for at in range(ptr[t], ptr[t + 1]):
            s = sender[at]
            if weighted:
                w = change.dtype.type(weight[indptr[source[s]] + position[at]])
                for f in range(width):
                    summed[f] += w * change[s, f]
            else:
                for f in range(width):
                    summed[f] += change[s, f]
        # What is small beside the sum leaves most of it; only else is the sum itself looked at.
        doubtful[t] = not size_of(summed) <= 0.5 * size[k] and not (
            size_of_sum(total[k], summed) >= digits * size[k]
        )
        factor = change.dtype.type(new_left[t])
        if new_left[t] == left[k]:
            for f in range(width):
                out[t, f] = whole[k, f] + factor * summed[f]
        else:
            for f in range(width):
                out[t, f] = factor * (total[k, f] + summed[f])
            if len(plus) > 0:
                own = k if len(plus) > 1 else 0
                for f in range(width):
                    out[t, f] += plus[own, f]
    for m in range(len(plus_node)):
        t, k = also_slot[m], plus_node[m]
        for f in range(width):
            out[t, f] += plus_rows[m, f] - plus[k, f]


@jit
def sum_anew(
    in_ptr, in_source, in_weight, right, src_ptr, source, row, scale, ptr, node, new_left, doubtful,
    y, y_rows, plus, plus_slot, plus_rows, out, slot,
):  # fmt: skip
    """`left_k Σ weight_jk right_j y_j + plus_k` over what is left of the edges into doubtful rows."""
    weighted = len(in_weight) > 0
    width = y.shape[1]
    own = np.full(len(node), -1, dtype=np.int64)
    for m in range(len(plus_slot)):
        own[plus_slot[m]] = m
    for c in range(len(ptr) - 1):
        any_ = False
        for t in range(ptr[c], ptr[c + 1]):
            any_ = any_ or doubtful[t]
        if not any_:
            continue
        for s in range(src_ptr[c], src_ptr[c + 1]):
            slot[source[s]] = s
        for t in range(ptr[c], ptr[c + 1]):
            if not doubtful[t]:
                continue
            k = node[t]
            for f in range(width):
                out[t, f] = 0
            for at in range(in_ptr[k], in_ptr[k + 1]):
                j = in_source[at]
                s = slot[j]
                if s >= 0 and row[s] == -2:
                    continue
                factor = right[j] if s < 0 else scale[s]
                if weighted:
                    factor *= in_weight[at]
                w = y.dtype.type(factor)
                if s >= 0 and row[s] >= 0:
                    for f in range(width):
                        out[t, f] += w * y_rows[row[s], f]
                else:
                    for f in range(width):
                        out[t, f] += w * y[j, f]
            factor = y.dtype.type(new_left[t])
            for f in range(width):
                out[t, f] *= factor
            if own[t] >= 0:
                for f in range(width):
                    out[t, f] += plus_rows[own[t], f]
            elif len(plus) > 0:
                mine = k if len(plus) > 1 else 0
                for f in range(width):
                    out[t, f] += plus[mine, f]
        for s in range(src_ptr[c], src_ptr[c + 1]):
            slot[source[s]] = -1


@jit
def union(a_ptr, a_node, b_ptr, b_node, slot):
    """Pairs in either of two sets of changed rows, and where each set's rows are in it."""
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
def leaky(score, slope):
    """LeakyReLU."""
    return score * slope if score < 0 else score


@jit
def attend_anew(
    indptr, source, k, y, near, far, y_rows, near_rows, far_rows, slope, slot, weight, out
):
    """One node's softmax-weighted sum over its whole in-neighbourhood, removed sources left out."""
    heads = near.shape[1]
    width = y.shape[1] // heads
    here = far_rows[slot[k]] if slot[k] >= 0 else far[k]
    for f in range(y.shape[1]):
        out[f] = 0
    for h in range(heads):
        largest = y.dtype.type(-np.inf)
        for e in range(indptr[k], indptr[k + 1]):
            m = slot[source[e]]
            if m != -2:
                there = near_rows[m, h] if m >= 0 else near[source[e], h]
                score = leaky(here[h] + there, slope)
                weight[e - indptr[k], h] = score
                largest = max(largest, score)
        summed = y.dtype.type(1e-16)
        for e in range(indptr[k], indptr[k + 1]):
            if slot[source[e]] != -2:
                share = np.exp(weight[e - indptr[k], h] - largest)
                weight[e - indptr[k], h] = share
                summed += share
        for e in range(indptr[k], indptr[k + 1]):
            weight[e - indptr[k], h] /= summed
    for e in range(indptr[k], indptr[k + 1]):
        m = slot[source[e]]
        if m == -2:
            continue
        rows = y_rows[m] if m >= 0 else y[source[e]]
        for h in range(heads):
            share = weight[e - indptr[k], h]
            for f in range(h * width, (h + 1) * width):
                out[f] += share * rows[f]


@jit
def attend_corrected(
    k, senders, source, row, y, near, far, y_rows, near_rows, slope, peak, whole, share, out
):
    """One node's sum with some messages exchanged; False where too little of the old sum is left.

    `peak` is the largest score of the original softmax and `share` its denominator. Subtracting most of
    a sum would leave rounding errors, so such nodes are left to `attend_anew`.
    """
    heads = near.shape[1]
    width = y.shape[1] // heads
    for h in range(heads):
        old = share[k, h]
        rest = old
        for f in range(h * width, (h + 1) * width):
            out[f] = whole[k, f] * old
        for s in senders:
            j, m = source[s], row[s]
            gone = np.exp(leaky(near[j, h] + far[k, h], slope) - peak[k, h])
            rest -= gone
            for f in range(h * width, (h + 1) * width):
                out[f] -= gone * y[j, f]
            if m >= 0:
                score = leaky(near_rows[m, h] + far[k, h], slope) - peak[k, h]
                if score > 5:
                    return False
                new = np.exp(score)
                rest += new
                for f in range(h * width, (h + 1) * width):
                    out[f] += new * y_rows[m, f]
        if not rest > 0.1 * old:
            return False
        for f in range(h * width, (h + 1) * width):
            out[f] /= rest
    return True


@jit
def attend(
    indptr, source, rem_ptr, rem_node, chg_ptr, chg_node, senders_of, sender_row, edge_ptr, slots, ptr,
    node, y, near, far, y_rows, near_rows, far_rows, slope, peak, share, whole, out, slot,
):  # fmt: skip
    """Softmax-weighted sums of the reached nodes.

    Where the receiver's own part of the scores is unchanged, only the messages that changed are
    exchanged; elsewhere the whole in-neighbourhood is weighed anew.
    """
    longest = np.int64(0)
    for k in range(len(indptr) - 1):
        longest = max(longest, indptr[k + 1] - indptr[k])
    weight = np.empty((longest, near.shape[1]), dtype=y.dtype)
    arriving, sender, _ = by_slot(slots, edge_ptr, len(node))
    for c in range(len(rem_ptr) - 1):
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -2
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            slot[chg_node[m]] = m
        for t in range(ptr[c], ptr[c + 1]):
            k = node[t]
            few = 2 * (arriving[t + 1] - arriving[t]) < indptr[k + 1] - indptr[k]
            if slot[k] >= 0 or not few or not attend_corrected(
                k, sender[arriving[t] : arriving[t + 1]], senders_of, sender_row, y, near, far, y_rows,
                near_rows, slope, peak, whole, share, out[t],
            ):  # fmt: skip
                attend_anew(
                    indptr, source, k, y, near, far, y_rows, near_rows, far_rows, slope, slot, weight,
                    out[t],
                )  # fmt: skip
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -1
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            slot[chg_node[m]] = -1


@jit
def touched_pairs(indptr, incident, pairs, rem_ptr, rem_node, chg_ptr, chg_node, seen, slot):
    """Surviving node pairs with a changed end, each once, and their ends' changed rows."""
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


@jit_sums
def dots(pair, pairs, ends, z, rows, out):
    """Dot product of every pair's two rows."""
    for q in range(len(pair)):
        i, j = ends[0, q], ends[1, q]
        a = rows[i] if i >= 0 else z[pairs[0, pair[q]]]
        b = rows[j] if j >= 0 else z[pairs[1, pair[q]]]
        total = out.dtype.type(0)
        for f in range(z.shape[1]):
            total += a[f] * b[f]
        out[q] = total
