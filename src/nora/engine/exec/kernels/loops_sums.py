"""The compiled loop behind `WeightedSum`: sums in which both messages and weights may change."""

from __future__ import annotations

import numpy as np

from nora.engine.exec.kernels.loops import jit, jit_sums


@jit_sums
def resum(t, edges, terms, marks, out):
    """`start_t + Σ w_e y_source(e)` over what is left of the edges into `t`."""
    y, y_rows, w, w_rows, start = terms.y, terms.y_rows, terms.w, terms.w_rows, terms.start
    in_ptr, in_edge = edges.in_ptr, edges.in_edge
    y_slot, w_slot, lost = marks.y_slot, marks.w_slot, marks.lost
    out[:] = start[t if len(start) > 1 else 0]
    weighted = len(w) > 0
    for at in range(in_ptr[t], in_ptr[t + 1]):
        e = in_edge[at]
        if lost[e]:
            continue
        j = edges.source[e]
        m = y_slot[j]
        factor = w[e] if weighted else y.dtype.type(1)
        if w_slot[e] >= 0:
            factor = w_rows[w_slot[e]]
        if m >= 0:
            for f in range(y.shape[1]):
                out[f] += factor * y_rows[m, f]
        else:
            for f in range(y.shape[1]):
                out[f] += factor * y[j, f]


@jit
def reach(t, slot, node, touched, n):
    """Note one more edge that arrives at `t` otherwise; how many rows are reached by now."""
    if slot[t] == -1:
        slot[t] = n
        node[n] = t
        touched[n] = 0
        n += 1
    if slot[t] >= 0:
        touched[slot[t]] += 1
    return n


@jit
def reached_rows(edges, changes, marks):
    """The targets of other changes: `ptr`, `node`, and their number of edges."""
    out_ptr, out_edge, target = edges.out_ptr, edges.out_edge, edges.target
    y_ptr, y_node = changes.y
    w_ptr, w_edge = changes.w
    lost_ptr, lost_edge = changes.lost
    gone_ptr, gone = changes.gone
    slot, lost = marks.slot, marks.lost
    count = len(y_ptr) - 1
    bound = len(w_edge) + len(lost_edge)
    for j in y_node:
        bound += out_ptr[j + 1] - out_ptr[j]
    node = np.empty(bound, dtype=np.int64)
    touched = np.empty(bound, dtype=np.int64)
    ptr = np.zeros(count + 1, dtype=np.int64)
    n = 0
    for c in range(count):
        first = n
        for at in range(gone_ptr[c], gone_ptr[c + 1]):
            slot[gone[at]] = -2
        for at in range(lost_ptr[c], lost_ptr[c + 1]):
            lost[lost_edge[at]] = True
            n = reach(target[lost_edge[at]], slot, node, touched, n)
        for m in range(y_ptr[c], y_ptr[c + 1]):
            for at in range(out_ptr[y_node[m]], out_ptr[y_node[m] + 1]):
                e = out_edge[at]
                if not lost[e]:
                    n = reach(target[e], slot, node, touched, n)
        for q in range(w_ptr[c], w_ptr[c + 1]):
            n = reach(target[w_edge[q]], slot, node, touched, n)
        ptr[c + 1] = n
        for at in range(first, n):
            slot[node[at]] = -1
        for at in range(gone_ptr[c], gone_ptr[c + 1]):
            slot[gone[at]] = -1
        for at in range(lost_ptr[c], lost_ptr[c + 1]):
            lost[lost_edge[at]] = False
    return ptr, node[:n].copy(), touched[:n].copy()


@jit_sums
def corrections(c, edges, changes, terms, marks, corrected, rows, mass):
    """Add what arrives otherwise to the rows that are corrected, and note how much of it there is."""
    out_ptr, out_edge, source, target = edges.out_ptr, edges.out_edge, edges.source, edges.target
    y_ptr, y_node = changes.y
    w_ptr, w_edge = changes.w
    lost_ptr, lost_edge = changes.lost
    y, y_rows, w, w_rows, size = terms.y, terms.y_rows, terms.w, terms.w_rows, terms.size
    slot, y_slot, w_slot, lost = marks
    weighted = len(w) > 0
    one = y.dtype.type(1)
    for m in range(y_ptr[c], y_ptr[c + 1]):
        j = y_node[m]
        for at in range(out_ptr[j], out_ptr[j + 1]):
            e = out_edge[at]
            p = slot[target[e]]
            if lost[e] or p < 0 or not corrected[p]:
                continue
            old = w[e] if weighted else one
            new = w_rows[w_slot[e]] if w_slot[e] >= 0 else old
            for f in range(y.shape[1]):
                rows[p, f] += new * y_rows[m, f] - old * y[j, f]
    for q in range(w_ptr[c], w_ptr[c + 1]):
        e = w_edge[q]
        j, p = source[e], slot[target[e]]
        if y_slot[j] >= 0 or p < 0 or not corrected[p]:
            continue
        change = w_rows[q] - w[e]
        mass[p, 0] += abs(change) * size[j, 0]
        mass[p, 1] += abs(change) * size[j, 1]
        for f in range(y.shape[1]):
            rows[p, f] += change * y[j, f]
    for at in range(lost_ptr[c], lost_ptr[c + 1]):
        e = lost_edge[at]
        j, p = source[e], slot[target[e]]
        if p < 0 or not corrected[p]:
            continue
        old = w[e] if weighted else one
        mass[p, 0] += abs(old) * size[j, 0]
        mass[p, 1] += abs(old) * size[j, 1]
        for f in range(y.shape[1]):
            rows[p, f] -= old * y[j, f]


@jit
def all_there(rows, p, total, t, unit, mass, digits):
    """Whether a corrected row has kept the digits of what it was made of."""
    for scale in range(2):
        left, was = 0.0, mass[p, scale]
        for f in range(rows.shape[1]):
            left += unit[scale, f] * abs(rows[p, f])
            was += unit[scale, f] * abs(total[t, f])
        if not left >= digits * was:
            return False
    return True


@jit
def weighted_sums(edges, changes, terms, few, digits, reached, touched, marks, rows):
    """New sums of the reached rows: corrected, or summed again where that is as cheap or safer."""
    in_ptr, total, unit = edges.in_ptr, terms.total, terms.unit
    y_ptr, y_node = changes.y
    w_ptr, w_edge = changes.w
    lost_ptr, lost_edge = changes.lost
    ptr, node = reached
    slot, y_slot, w_slot, lost = marks
    corrected = np.zeros(len(node), dtype=np.bool_)
    mass = np.zeros((len(node), 2))
    for c in range(len(ptr) - 1):
        for at in range(lost_ptr[c], lost_ptr[c + 1]):
            lost[lost_edge[at]] = True
        for q in range(w_ptr[c], w_ptr[c + 1]):
            w_slot[w_edge[q]] = q
        for m in range(y_ptr[c], y_ptr[c + 1]):
            y_slot[y_node[m]] = m
        for p in range(ptr[c], ptr[c + 1]):
            t = node[p]
            slot[t] = p
            degree = in_ptr[t + 1] - in_ptr[t]
            if degree > few and 2 * touched[p] < degree:
                corrected[p] = True
                rows[p] = total[t]
            else:
                resum(t, edges, terms, marks, rows[p])
        corrections(c, edges, changes, terms, marks, corrected, rows, mass)
        for p in range(ptr[c], ptr[c + 1]):
            t = node[p]
            slot[t] = -1
            if corrected[p] and not all_there(rows, p, total, t, unit, mass, digits):
                resum(t, edges, terms, marks, rows[p])
        for at in range(lost_ptr[c], lost_ptr[c + 1]):
            lost[lost_edge[at]] = False
        for q in range(w_ptr[c], w_ptr[c + 1]):
            w_slot[w_edge[q]] = -1
        for m in range(y_ptr[c], y_ptr[c + 1]):
            y_slot[y_node[m]] = -1
