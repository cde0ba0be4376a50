"""The compiled loops behind `Attend`: softmax-weighted sums."""

from __future__ import annotations

import numpy as np

from nora.engine.exec.kernels.loops import by_slot, correction, jit, jit_sums
from nora.engine.exec.kernels.prefetch import prefetch, rows_ahead
from nora.engine.ir.changed_rows import MOST_MOVED

# Slots of changed rows that count several times begin here, and go down.
SAMPLED = -3
# Changes of a target's part of the scores up to this are small.
SMALL = 0.3


@jit
def leaky(score, slope):
    """LeakyReLU."""
    return score * slope if score < 0 else score


@jit
def neighbours(csr, k, c, slot, delta, into):
    """The sources of `k` after the edit, written to `into`; how many."""
    in_ptr, in_end, in_source, gone = csr.in_ptr, csr.in_end, csr.in_source, delta.gone
    n = 0
    for e in range(in_ptr[k], in_end[k]):
        if not gone[e] and slot[in_source[e]] != -2:
            into[n] = in_source[e]
            n += 1
    for i in range(delta.ptr[c], delta.ptr[c + 1]):
        if delta.place[i] < 0 and delta.target[i] == k:
            into[n] = delta.source[i]
            n += 1
    return n


@jit
def attend_in_full(t, here, source, base, new, slope, slot, weight, peak, total, out):
    """Row `t`: a softmax-weighted sum over all sources, with its largest scores and denominators.

    `here` is the target's own part of the scores.
    """
    y, alpha_src = base.y, base.alpha_src
    y_rows, alpha_src_rows = new.y, new.alpha_src
    heads, width = y.shape[1], y.shape[2]
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
        for f in range(width):
            out[t, h, f] = 0
    ahead = rows_ahead(y)
    for e in range(len(source)):
        j = source[e]
        m = slot[j]
        if e + ahead < len(source) and slot[source[e + ahead]] < 0:
            prefetch(y, source[e + ahead])
        for h in range(heads):
            share = weight[e, h]
            if m >= 0:
                for f in range(width):
                    out[t, h, f] += share * y_rows[m, h, f]
            else:
                for f in range(width):
                    out[t, h, f] += share * y[j, h, f]


@jit
def attend_corrected(t, k, arriving, frontier, base, new, slope, softmax, digits, total, out):
    """Row `t`, of `k`, with some messages exchanged; the share that left it, −1 if too little is left.

    `peak` is the largest score of the original softmax and `share` its denominator. Subtracting most of
    a sum would leave rounding errors, so such nodes are left to `attend_in_full`. `total` gets the new
    denominators, still by the original's largest scores.
    """
    y, alpha_src, alpha_dst = base
    new_y, new_alpha_src = new.y, new.alpha_src
    source, row = frontier.source, frontier.row
    whole, peak, share, unit, size = softmax
    heads, width = y.shape[1], y.shape[2]
    most = 0.0
    for h in range(heads):
        old = share[k, h]
        taken = 0.0
        rest = old
        mass = 0.0
        for f in range(width):
            out[t, h, f] = whole[k, h, f] * old
        for s in arriving:
            j, m = source[s], row[s]
            gone = np.exp(leaky(alpha_src[j, h] + alpha_dst[k, h], slope) - peak[k, h])
            rest -= gone
            taken += gone
            mass += gone * size[j, h]
            if m < 0:
                for f in range(width):
                    out[t, h, f] -= gone * y[j, h, f]
                continue
            score = leaky(new_alpha_src[m, h] + alpha_dst[k, h], slope) - peak[k, h]
            if score > 5:
                return -1.0
            come = np.exp(score)
            rest += come
            for f in range(width):
                out[t, h, f] += come * new_y[m, h, f] - gone * y[j, h, f]
        if not rest > 0.1 * old:
            return -1.0
        most = max(most, taken / old)
        total[h] = rest
        left = size_of_head(out, t, h, unit)
        inverse = y.dtype.type(1 / rest)
        for f in range(width):
            out[t, h, f] *= inverse
        if not left >= digits * mass:
            return -1.0
    return most


@jit_sums
def size_of_head(rows, t, h, unit):
    """`Σ|row|` of one head, in units of its columns."""
    size = rows.dtype.type(0)
    for f in range(rows.shape[2]):
        size += unit[h, f] * abs(rows[t, h, f])
    return size


@jit
def add_alone(t, here, j, m, weight, base, new, slope, peak, total, before, out):
    """Add the effect of one source's change alone on a softmax-weighted sum to row `t`, times its weight."""
    y, alpha_src, new_y, new_alpha_src = base.y, base.alpha_src, new.y, new.alpha_src
    for h in range(y.shape[1]):
        old = np.exp(leaky(alpha_src[j, h] + here[h], slope) - peak[h])
        share = np.exp(leaky(new_alpha_src[m, h] + here[h], slope) - peak[h])
        rest = max(total[h] - old, y.dtype.type(0)) + share
        for f in range(y.shape[2]):
            then = (before[h, f] * total[h] - old * y[j, h, f] + share * new_y[m, h, f]) / rest
            out[t, h, f] += weight * (then - before[h, f])


@jit
def mark(c, removed, changed, row_weight, delta, slot):
    """Note removed nodes, changed rows and removed edges of edit `c`.

    The slot of row `m` is `m` where it counts once, else `SAMPLED - m`: below all others.
    """
    rem_ptr, rem_node = removed
    chg_ptr, chg_node = changed
    for i in range(rem_ptr[c], rem_ptr[c + 1]):
        slot[rem_node[i]] = -2
    for m in range(chg_ptr[c], chg_ptr[c + 1]):
        once = len(row_weight) == 0 or row_weight[m] == 1.0
        slot[chg_node[m]] = m if once else SAMPLED - m
    for i in range(delta.ptr[c], delta.ptr[c + 1]):
        if delta.place[i] >= 0:
            delta.gone[delta.place[i]] = True


@jit
def clean(c, removed, changed, delta, slot):
    """Clean what `mark` has noted."""
    rem_ptr, rem_node = removed
    chg_ptr, chg_node = changed
    for i in range(rem_ptr[c], rem_ptr[c + 1]):
        slot[rem_node[i]] = -1
    for m in range(chg_ptr[c], chg_ptr[c + 1]):
        slot[chg_node[m]] = -1
    for i in range(delta.ptr[c], delta.ptr[c + 1]):
        if delta.place[i] >= 0:
            delta.gone[delta.place[i]] = False


@jit
def attend(
    csr,
    removed,
    changed,
    row_weight,
    frontier,
    base,
    new,
    slope,
    softmax,
    delta,
    digits,
    targets,
    drift,
    out,
    slot,
):
    """Softmax-weighted sums of the reached nodes, where changed row `m` counts `row_weight[m]` times.

    Where the target's own part of the scores is unchanged, the messages that changed are exchanged, else
    the whole in-neighbourhood is weighed again. What each row that counts several times would change alone
    is then added. Without weights all rows count once.
    """
    indptr, end, ptr, node = csr.in_ptr, csr.in_end, frontier.ptr, frontier.node
    heads, width = base.y.shape[1], base.y.shape[2]
    longest = np.int64(0)
    for k in node:
        longest = max(longest, end[k] - indptr[k])
    longest += len(delta.source)
    neighbour = np.empty(longest, dtype=np.int64)
    attention = np.empty((longest, heads), dtype=base.y.dtype)
    peak, total = np.empty(heads, dtype=base.y.dtype), np.empty(heads, dtype=base.y.dtype)
    spare_peak, spare_total = np.empty_like(peak), np.empty_like(total)
    before = np.empty((heads, width), dtype=base.y.dtype)
    turned = np.empty((1, heads, width), dtype=base.y.dtype)
    y, source, row, ahead = base.y, frontier.source, frontier.row, rows_ahead(base.y)
    arriving, sender, _ = by_slot(frontier.slot, frontier.edge_ptr, len(node), False)
    weighted = len(row_weight) > 0
    several = np.empty(len(source) if weighted else 0, dtype=np.int64)
    moved, new_moved, edges_changed = drift.moved, drift.new, frontier.edges_changed
    for c in range(len(removed.ptr) - 1):
        mark(c, removed, changed, row_weight, delta, slot)
        for t in range(ptr[c], ptr[c + 1]):
            k = node[t]
            if t + ahead < len(node):
                soon = t + ahead
                prefetch(softmax.output, node[soon])
                # Most rows are reached by a message or two.
                for at in range(arriving[soon], min(arriving[soon] + 2, arriving[soon + 1])):
                    prefetch(y, source[sender[at]])
            mine = sender[arriving[t] : arriving[t + 1]]
            degree, extra = end[k] - indptr[k], 0
            if weighted:  # those that count once first, then the others
                once = 0
                for s in mine:
                    if row[s] < 0 or row_weight[row[s]] == 1.0:
                        sender[arriving[t] + once] = s
                        once += 1
                    else:
                        several[extra] = s
                        extra += 1
                mine = mine[:once]
            own = slot[k] if slot[k] >= 0 else SAMPLED - slot[k] if slot[k] <= SAMPLED else -1
            turns = slot[k] >= 0 and degree <= targets.many
            here = new.alpha_dst[own] if turns else base.alpha_dst[k]
            full = turns or edges_changed[t] or 2 * len(mine) >= degree
            if not full:
                peak[:], total[:] = softmax.peak[k], softmax.share[k]
                left = 0.0
                if len(mine) == 0:
                    out[t] = softmax.output[k]
                else:
                    left = attend_corrected(
                        t, k, mine, frontier, base, new, slope, softmax, digits, total, out
                    )
                    full = left < 0
                if len(moved) > 0:
                    new_moved[t] = moved[k] + correction(degree) + left
                    full |= new_moved[t] > MOST_MOVED
            if full:
                n = neighbours(csr, k, c, slot, delta, neighbour)
                attend_in_full(
                    t, here, neighbour[:n], base, new, slope, slot, attention, peak, total, out
                )
            if len(moved) > 0:
                new_moved[t] = 0.0 if full else new_moved[t]
                drift.peak[t], drift.share[t] = peak, total
            if extra == 0 and (own < 0 or turns):
                continue
            before[:] = out[t]
            for s in several[:extra]:
                m = row[s]
                add_alone(
                    t, here, source[s], m, row_weight[m], base, new, slope, peak, total, before, out
                )
            if own < 0 or turns:
                continue
            weight = row_weight[own]
            if (
                degree > targets.many
                and np.abs(new.alpha_dst[own] - base.alpha_dst[k]).max() <= SMALL
            ):
                for h in range(heads):
                    step = new.alpha_dst[own, h] - base.alpha_dst[k, h]
                    for f in range(width):
                        out[t, h, f] += weight * targets.slope[targets.place[k], h, f] * step
                continue
            n = neighbours(csr, k, c, slot, delta, neighbour)
            attend_in_full(
                0, new.alpha_dst[own], neighbour[:n], base, new, slope, slot, attention,
                spare_peak, spare_total, turned,
            )  # fmt: skip
            for h in range(heads):
                for f in range(width):
                    out[t, h, f] += weight * (turned[0, h, f] - before[h, f])
        clean(c, removed, changed, delta, slot)
