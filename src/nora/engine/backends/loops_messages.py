"""The compiled loops behind `Propagate`: sums that are corrected by the messages that change."""

from __future__ import annotations

import numpy as np

from nora.engine.backends.loops import by_slot, jit, jit_sums


@jit_sums
def message_change(senders, right, y, y_rows, size):
    """L1 change of every source's message."""
    source, row, scale = senders
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
def message_changes(senders, right, y, y_rows, change):
    """What every source sends differently, `[S, F]`."""
    source, row, scale = senders
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
def size_of(row, unit):
    """`Σ|row|` in units of its columns."""
    size = row.dtype.type(0)
    for f in range(len(row)):
        size += unit[f] * abs(row[f])
    return size


@jit_sums
def size_of_sum(a, b, unit):
    """`Σ|a + b|` in units of its columns."""
    size = a.dtype.type(0)
    for f in range(len(a)):
        size += unit[f] * abs(a[f] + b[f])
    return size


@jit
def accumulate(csr, source, reached, base, more, change, digits, out, doubtful):
    """Original outputs plus the changes of all arriving messages, rescaled where `left` changed.

    Row by row, so that each is written once: the rows are many and far apart in memory. `doubtful` tells
    where the changes have eaten up the digits of a sum, or there is no number.
    """
    indptr, weight, left = csr.indptr, csr.weight, csr.left
    node, new_left = reached.node, reached.left
    total, size, unit, plus, whole = base.total, base.size, base.unit, base.plus, base.whole
    weighted = len(weight) > 0
    width = change.shape[1]
    ptr, sender, position = by_slot(reached.slot, reached.edge_ptr, len(node))
    summed = np.empty(width, dtype=change.dtype)
    sizes = np.empty(len(source), dtype=change.dtype)
    for s in range(len(source)):
        sizes[s] = size_of(change[s], unit)
    for t in range(len(node)):
        k = node[t]
        mass = change.dtype.type(0)
        for f in range(width):
            summed[f] = 0
        for at in range(ptr[t], ptr[t + 1]):
            s = sender[at]
            if weighted:
                w = change.dtype.type(weight[indptr[source[s]] + position[at]])
                mass += abs(w) * sizes[s]
                for f in range(width):
                    summed[f] += w * change[s, f]
            else:
                mass += sizes[s]
                for f in range(width):
                    summed[f] += change[s, f]
        # What is small beside the sum leaves most of it; only else is the sum itself looked at.
        # Nothing is known of what is beyond all numbers.
        small = np.isfinite(size[k]) and mass <= 0.5 * size[k]
        doubtful[t] = not small and not (
            np.isfinite(size[k] + mass)
            and size_of_sum(total[k], summed, unit) >= digits * (size[k] + mass)
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
    for m in range(len(more.node)):
        t, k = reached.also[m], more.node[m]
        for f in range(width):
            out[t, f] += more.rows[m, f] - plus[k, f]


@jit
def sum_anew(csr, src_ptr, senders, reached, doubtful, base, y_rows, more, ties, out, slot):
    """`left_k Σ weight_jk right_j y_j + plus_k` over the edges into doubtful rows that are there then."""
    in_ptr, in_source, in_weight, right = csr.in_ptr, csr.in_source, csr.in_weight, csr.right
    source, row, scale = senders
    ptr, node = reached.ptr, reached.node
    y, plus = base.y, base.plus
    weighted = len(in_weight) > 0
    width = y.shape[1]
    own = np.full(len(node), -1, dtype=np.int64)
    for m in range(len(more.node)):
        own[reached.also[m]] = m
    for c in range(len(ptr) - 1):
        any_ = False
        for t in range(ptr[c], ptr[c + 1]):
            any_ = any_ or doubtful[t]
        if not any_:
            continue
        for s in range(src_ptr[c], src_ptr[c + 1]):
            slot[source[s]] = s
        comes = False
        for i in range(ties.ptr[c], ties.ptr[c + 1]):
            if ties.place[i] >= 0:
                ties.gone[ties.place[i]] = True
            else:
                comes = True
        for t in range(ptr[c], ptr[c + 1]):
            if not doubtful[t]:
                continue
            k = node[t]
            for f in range(width):
                out[t, f] = 0
            for at in range(in_ptr[k], in_ptr[k + 1]):
                j = in_source[at]
                s = slot[j]
                if ties.gone[at] or (s >= 0 and row[s] == -2):
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
            if comes:
                for i in range(ties.ptr[c], ties.ptr[c + 1]):
                    if ties.place[i] >= 0 or ties.target[i] != k:
                        continue
                    j = ties.source[i]
                    s = slot[j]
                    w = y.dtype.type((right[j] if s < 0 else scale[s]) * ties.weight[i])
                    if s >= 0 and row[s] >= 0:
                        for f in range(width):
                            out[t, f] += w * y_rows[row[s], f]
                    else:
                        for f in range(width):
                            out[t, f] += w * y[j, f]
            factor = y.dtype.type(reached.left[t])
            for f in range(width):
                out[t, f] *= factor
            if own[t] >= 0:
                for f in range(width):
                    out[t, f] += more.rows[own[t], f]
            elif len(plus) > 0:
                mine = k if len(plus) > 1 else 0
                for f in range(width):
                    out[t, f] += plus[mine, f]
        for s in range(src_ptr[c], src_ptr[c + 1]):
            slot[source[s]] = -1
        for i in range(ties.ptr[c], ties.ptr[c + 1]):
            if ties.place[i] >= 0:
                ties.gone[ties.place[i]] = False
