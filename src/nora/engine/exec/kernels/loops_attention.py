"""The compiled loops behind `Attend`: softmax-weighted sums."""

from __future__ import annotations

import numpy as np

from nora.engine.exec.kernels.loops import by_slot, jit
from nora.engine.exec.kernels.prefetch import prefetch, rows_ahead


@jit
def leaky(score, slope):
    """LeakyReLU."""
    return score * slope if score < 0 else score


@jit
def neighbours(csr, k, c, slot, delta, into):
    """Who sends to `k` then, written to `into`; how many."""
    in_ptr, in_source, gone = csr.in_ptr, csr.in_source, delta.gone
    n = 0
    for e in range(in_ptr[k], in_ptr[k + 1]):
        if not gone[e] and slot[in_source[e]] != -2:
            into[n] = in_source[e]
            n += 1
    for i in range(delta.ptr[c], delta.ptr[c + 1]):
        if delta.place[i] < 0 and delta.target[i] == k:
            into[n] = delta.source[i]
            n += 1
    return n


@jit
def attend_in_full(here, source, base, new, slope, slot, weight, peak, total, out):
    """One node's softmax-weighted sum over all sources of it, with its largest scores and denominators."""
    y, alpha_src = base.y, base.alpha_src
    y_rows, alpha_src_rows = new.y, new.alpha_src
    heads = alpha_src.shape[1]
    width = y.shape[1] // heads
    for f in range(y.shape[1]):
        out[f] = 0
    for h in range(heads):
        largest = y.dtype.type(-np.inf)
        for e in range(len(source)):
            m = slot[source[e]]
            there = alpha_src_rows[m, h] if m >= 0 else alpha_src[source[e], h]
            score = leaky(here[h] + there, slope)
            weight[e, h] = score
            largest = max(largest, score)
        summed = y.dtype.type(1e-16)
        for e in range(len(source)):
            share = np.exp(weight[e, h] - largest)
            weight[e, h] = share
            summed += share
        peak[h], total[h] = largest, summed
        for e in range(len(source)):
            weight[e, h] /= summed
    ahead = rows_ahead(y)
    for e in range(len(source)):
        j = source[e]
        m = slot[j]
        if e + ahead < len(source) and slot[source[e + ahead]] < 0:
            prefetch(y, source[e + ahead])
        for h in range(heads):
            share = weight[e, h]
            if m >= 0:
                for f in range(h * width, (h + 1) * width):
                    out[f] += share * y_rows[m, f]
            else:
                for f in range(h * width, (h + 1) * width):
                    out[f] += share * y[j, f]


@jit
def attend_corrected(k, arriving, senders, base, new, slope, softmax, digits, total, out):
    """One node's sum with some messages exchanged; False where too little of the old sum is left.

    `peak` is the largest score of the original softmax and `share` its denominator. Subtracting most of
    a sum would leave rounding errors, so such nodes are left to `attend_anew`. `total` gets the new
    denominators, still by the original's largest scores.
    """
    y, alpha_src, alpha_dst = base
    new_y, new_alpha_src = new.y, new.alpha_src
    source, row = senders.source, senders.row
    whole, peak, share, unit, size = softmax
    heads = alpha_src.shape[1]
    width = y.shape[1] // heads
    for h in range(heads):
        old = share[k, h]
        rest = old
        mass = 0.0
        for f in range(h * width, (h + 1) * width):
            out[f] = whole[k, f] * old
        for s in arriving:
            j, m = source[s], row[s]
            gone = np.exp(leaky(alpha_src[j, h] + alpha_dst[k, h], slope) - peak[k, h])
            rest -= gone
            mass += gone * size[j, h]
            for f in range(h * width, (h + 1) * width):
                out[f] -= gone * y[j, f]
            if m >= 0:
                score = leaky(new_alpha_src[m, h] + alpha_dst[k, h], slope) - peak[k, h]
                if score > 5:
                    return False
                come = np.exp(score)
                rest += come
                for f in range(h * width, (h + 1) * width):
                    out[f] += come * new_y[m, f]
        if not rest > 0.1 * old:
            return False
        total[h] = rest
        left = 0.0
        for f in range(h * width, (h + 1) * width):
            left += unit[f] * abs(out[f])
            out[f] /= rest
        if not left >= digits * mass:
            return False
    return True


@jit
def attend(
    csr,
    removed,
    changed,
    senders,
    reached,
    base,
    new,
    slope,
    softmax,
    delta,
    edges_changed,
    digits,
    out,
    slot,
):
    """Softmax-weighted sums of the reached nodes.

    Where the target's own part of the scores is unchanged, only the messages that changed are
    exchanged; elsewhere the whole in-neighbourhood is weighed again.
    """
    indptr = csr.in_ptr
    rem_ptr, rem_node = removed
    chg_ptr, chg_node = changed
    ptr, node = reached.ptr, reached.node
    longest = np.int64(0)
    for k in range(len(indptr) - 1):
        longest = max(longest, indptr[k + 1] - indptr[k])
    longest += len(delta.source)
    sends = np.empty(longest, dtype=np.int64)
    heads = base.alpha_src.shape[1]
    weight = np.empty((longest, heads), dtype=base.y.dtype)
    peak, total = np.empty(heads, dtype=base.y.dtype), np.empty(heads, dtype=base.y.dtype)
    y, whole, source, ahead = base.y, softmax.output, senders.source, rows_ahead(base.y)
    arriving, sender, _ = by_slot(reached.slot, reached.edge_ptr, len(node), False)
    for c in range(len(rem_ptr) - 1):
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -2
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            slot[chg_node[m]] = m
        for i in range(delta.ptr[c], delta.ptr[c + 1]):
            if delta.place[i] >= 0:
                delta.gone[delta.place[i]] = True
        for t in range(ptr[c], ptr[c + 1]):
            k = node[t]
            if t + ahead < len(node):
                soon = t + ahead
                prefetch(whole, node[soon])
                # Most rows are reached by a message or two.
                for at in range(arriving[soon], min(arriving[soon] + 2, arriving[soon + 1])):
                    prefetch(y, source[sender[at]])
            few = 2 * (arriving[t + 1] - arriving[t]) < indptr[k + 1] - indptr[k]
            mine = sender[arriving[t] : arriving[t + 1]]
            if (
                slot[k] >= 0
                or edges_changed[t]
                or not few
                or not attend_corrected(
                    k, mine, senders, base, new, slope, softmax, digits, total, out[t]
                )
            ):
                n = neighbours(csr, k, c, slot, delta, sends)
                here = new.alpha_dst[slot[k]] if slot[k] >= 0 else base.alpha_dst[k]
                attend_in_full(here, sends[:n], base, new, slope, slot, weight, peak, total, out[t])
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -1
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            slot[chg_node[m]] = -1
        for i in range(delta.ptr[c], delta.ptr[c + 1]):
            if delta.place[i] >= 0:
                delta.gone[delta.place[i]] = False
