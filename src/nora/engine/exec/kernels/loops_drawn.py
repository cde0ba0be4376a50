"""The compiled loops behind `Attend` where rows were drawn: some changes count several times."""

from __future__ import annotations

import numpy as np

from nora.engine.exec.kernels.loops import by_slot, jit
from nora.engine.exec.kernels.loops_attention import (
    attend_corrected,
    attend_in_full,
    leaky,
    neighbours,
)

# Changes of a target's part of the scores up to this are small.
SMALL = 0.3


@jit
def exchange(here, j, m, row_weight, base, new, slope, peak, total, out, added):
    """Add what one sender's change alone makes of a softmax-weighted sum, as often as it counts."""
    y, alpha_src, new_y, new_alpha_src = base.y, base.alpha_src, new.y, new.alpha_src
    heads = alpha_src.shape[1]
    width = y.shape[1] // heads
    for h in range(heads):
        gone = np.exp(leaky(alpha_src[j, h] + here[h], slope) - peak[h])
        come = np.exp(leaky(new_alpha_src[m, h] + here[h], slope) - peak[h])
        rest = max(total[h] - gone, y.dtype.type(0)) + come
        for f in range(h * width, (h + 1) * width):
            then = (out[f] * total[h] - gone * y[j, f] + come * new_y[m, f]) / rest
            added[f] += row_weight * (then - out[f])


@jit
def attend(
    csr,
    removed,
    changed,
    row_weight,
    senders,
    reached,
    base,
    new,
    slope,
    softmax,
    delta,
    edges_changed,
    digits,
    many,
    place,
    steep,
    out,
    slot,
):
    """Softmax-weighted sums of the reached nodes, where row `m` of the changed ones counts `often[m]` times.

    What counts once is exchanged together; then what each of the others alone would change is added.
    """
    rem_ptr, rem_node = removed
    chg_ptr, chg_node = changed
    ptr, node = reached.ptr, reached.node
    heads, longest = base.alpha_src.shape[1], np.int64(0)
    width = base.y.shape[1] // heads
    for k in range(len(csr.in_ptr) - 1):
        longest = max(longest, csr.in_ptr[k + 1] - csr.in_ptr[k])
    longest += len(delta.source)
    sends = np.empty(longest, dtype=np.int64)
    sure = np.empty(len(senders.source), dtype=np.int64)
    weight = np.empty((longest, heads), dtype=base.y.dtype)
    peak, total = np.empty(heads, dtype=base.y.dtype), np.empty(heads, dtype=base.y.dtype)
    spare_peak, spare_total = np.empty_like(peak), np.empty_like(total)
    before = np.empty(base.y.shape[1], dtype=base.y.dtype)
    turned = np.empty_like(before)
    arriving, sender, _ = by_slot(reached.slot, reached.edge_ptr, len(node), False)
    own = np.full(len(node), -1, dtype=np.int64)
    for c in range(len(rem_ptr) - 1):
        for t in range(ptr[c], ptr[c + 1]):
            slot[node[t]] = t
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            if slot[chg_node[m]] >= 0:
                own[slot[chg_node[m]]] = m
        for t in range(ptr[c], ptr[c + 1]):
            slot[node[t]] = -1
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -2
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            if row_weight[m] == 1.0:
                slot[chg_node[m]] = m
        for i in range(delta.ptr[c], delta.ptr[c + 1]):
            if delta.place[i] >= 0:
                delta.gone[delta.place[i]] = True
        for t in range(ptr[c], ptr[c + 1]):
            k = node[t]
            mine = sender[arriving[t] : arriving[t + 1]]
            degree = csr.in_ptr[k + 1] - csr.in_ptr[k]
            mine_once = own[t] >= 0 and row_weight[own[t]] == 1.0 and degree <= many
            here = new.alpha_dst[own[t]] if mine_once else base.alpha_dst[k]
            n = 0
            for s in mine:
                if senders.row[s] < 0 or row_weight[senders.row[s]] == 1.0:
                    sure[n] = s
                    n += 1
            anew = mine_once or edges_changed[t] or 2 * n >= degree
            if not anew:
                peak[:], total[:], before[:] = softmax.peak[k], softmax.share[k], softmax.output[k]
                anew = n > 0 and not attend_corrected(
                    k, sure[:n], senders, base, new, slope, softmax, digits, total, before
                )
            if anew:
                n = neighbours(csr, k, c, slot, delta, sends)
                attend_in_full(here, sends[:n], base, new, slope, slot, weight, peak, total, before)
            out[t] = before
            for s in mine:
                m = senders.row[s]
                if m >= 0 and row_weight[m] != 1.0:
                    exchange(
                        here, senders.source[s], m, row_weight[m], base, new, slope, peak, total, before,
                        out[t],
                    )  # fmt: skip
            if own[t] >= 0 and not mine_once:
                m = own[t]
                if degree > many and np.abs(new.alpha_dst[m] - base.alpha_dst[k]).max() <= SMALL:
                    for f in range(len(before)):
                        h = f // width
                        out[t, f] += (
                            row_weight[m]
                            * steep[place[k], f]
                            * (new.alpha_dst[m, h] - base.alpha_dst[k, h])
                        )
                    continue
                n = neighbours(csr, k, c, slot, delta, sends)
                attend_in_full(
                    new.alpha_dst[m], sends[:n], base, new, slope, slot, weight, spare_peak, spare_total,
                    turned,
                )  # fmt: skip
                for f in range(len(before)):
                    out[t, f] += row_weight[m] * (turned[f] - before[f])
        for i in range(rem_ptr[c], rem_ptr[c + 1]):
            slot[rem_node[i]] = -1
        for m in range(chg_ptr[c], chg_ptr[c + 1]):
            slot[chg_node[m]] = -1
        for i in range(delta.ptr[c], delta.ptr[c + 1]):
            if delta.place[i] >= 0:
                delta.gone[delta.place[i]] = False
