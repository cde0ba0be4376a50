"""The compiled loops behind predictions: which pairs have a changed end, their dot products, and changes."""

from __future__ import annotations

import numpy as np

from nora.engine.exec.kernels.loops import jit, jit_sums
from nora.engine.exec.kernels.prefetch import prefetch, rows_ahead


@jit
def touched_pairs(incident, pairs, removed, changed, seen, slot):
    """Surviving node pairs with a changed end, each once, and their ends' changed rows."""
    indptr, pair_at = incident
    rem_ptr, rem_node = removed
    chg_ptr, chg_node = changed
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
                p = pair_at[e]
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
def dot_products(pair, pairs, ends, z, rows, out):
    """Dot product of every pair's two rows."""
    for q in range(len(pair)):
        i, j = ends[0, q], ends[1, q]
        a = rows[i] if i >= 0 else z[pairs[0, pair[q]]]
        b = rows[j] if j >= 0 else z[pairs[1, pair[q]]]
        total = out.dtype.type(0)
        for f in range(z.shape[1]):
            total += a[f] * b[f]
        out[q] = total


@jit_sums
def differences(before, item, after, change):
    """`Σ|before − after|` of every item."""
    ahead = rows_ahead(before)
    for q in range(len(item)):
        i = item[q]
        if q + ahead < len(item):
            prefetch(before, item[q + ahead])
        total = change.dtype.type(0)
        for f in range(before.shape[1]):
            total += abs(before[i, f] - after[q, f])
        change[q] = total
