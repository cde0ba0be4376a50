"""The compiled loops behind `Aggregate`: sums that are corrected by the messages that change."""

from __future__ import annotations

import numpy as np

from nora.engine.exec.kernels.loops import correction, jit, jit_sums
from nora.engine.exec.kernels.prefetch import prefetch, prefetch_number, rows_ahead
from nora.engine.ir.changed_rows import MOST_MOVED

# Sums that are added to in no order are asked for this many edges ahead.
EDGES_AHEAD = 32


@jit_sums
def message_sizes(frontier, norm_src, y, y_rows, weight, size):
    """L1 change of every source's message, times its row's weight."""
    source, row, scale = frontier.source, frontier.row, frontier.scale
    for s in range(len(source)):
        j, m = source[s], row[s]
        total = 0.0
        if m >= 0:
            for f in range(y.shape[1]):
                total += abs(scale[s] * y_rows[m, f] - norm_src[j] * y[j, f])
            if len(weight) > 0:
                total *= weight[m]
        else:
            for f in range(y.shape[1]):
                total += abs(y[j, f])
            total *= abs(scale[s] - norm_src[j])
        size[s] = total


@jit_sums
def size_of(rows, at, unit, scale):
    """`Σ|row|` in one of two units."""
    size = rows.dtype.type(0)
    for f in range(rows.shape[1]):
        size += unit[scale, f] * abs(rows[at, f])
    return size


@jit_sums
def size_of_sum(a, at, b, place, unit, scale):
    """`Σ|a + b|` of two rows in one of two units."""
    size = a.dtype.type(0)
    for f in range(a.shape[1]):
        size += unit[scale, f] * abs(a[at, f] + b[place, f])
    return size


@jit_sums
def size_of_change(new, at, old, place, unit, scale):
    """`Σ|new − old|` of two rows in one of two units."""
    size = new.dtype.type(0)
    for f in range(new.shape[1]):
        size += unit[scale, f] * abs(new[at, f] - old[place, f])
    return size


@jit
def message_changes(frontier, norm_src, y, y_rows, weight, unit, change, sizes):
    """The change of every source's message `[S, F]`, times its row's weight, and its size `[S, 2]`."""
    source, row, scale = frontier.source, frontier.row, frontier.scale
    width, ahead = y.shape[1], rows_ahead(y)
    for s in range(len(source)):
        j, m = source[s], row[s]
        if s + ahead < len(source):
            prefetch(y, source[s + ahead])
        old = y.dtype.type(norm_src[j])
        new = y.dtype.type(scale[s])
        if m >= 0:
            for f in range(width):
                change[s, f] = new * y_rows[m, f] - old * y[j, f]
            if len(weight) > 0 and weight[m] != 1.0:
                factor = y.dtype.type(weight[m])
                for f in range(width):
                    change[s, f] *= factor
        else:
            for f in range(width):
                change[s, f] = (new - old) * y[j, f]
        for unit_ in range(2):
            sizes[s, unit_] = size_of(change, s, unit, unit_)


@jit
def gather_changes(csr, source, arriving, change, sizes, rows, out, masses):
    """The changes of all messages that arrive at the rows from `rows[0]` up to `rows[1]`, and their sizes.

    Row by row, so that each is written once: wide rows are far apart in memory.
    """
    indptr, weight = csr.indptr, csr.weight
    ptr, sender, position = arriving
    first, last = rows
    weighted = len(weight) > 0
    width = change.shape[1]
    end, ahead = ptr[last], rows_ahead(change)
    for t in range(first, last):
        to = t - first
        mass, plain = change.dtype.type(0), change.dtype.type(0)
        for f in range(width):
            out[to, f] = 0
        for at in range(ptr[t], ptr[t + 1]):
            s = sender[at]
            if at + ahead < end:
                prefetch(change, sender[at + ahead])
            if weighted:
                w = change.dtype.type(weight[indptr[source[s]] + position[at]])
                mass += abs(w) * sizes[s, 0]
                plain += abs(w) * sizes[s, 1]
                for f in range(width):
                    out[to, f] += w * change[s, f]
            else:
                mass += sizes[s, 0]
                plain += sizes[s, 1]
                for f in range(width):
                    out[to, f] += change[s, f]
        masses[to, 0] = mass
        masses[to, 1] = plain


@jit
def scatter(csr, frontier, change, sizes, out, masses):
    """The same for all rows, source by source: narrow rows stay in cache, and edges need no sorting."""
    indptr, weight, source = csr.indptr, csr.weight, frontier.source
    edge_ptr, slot = frontier.edge_ptr, frontier.slot
    weighted = len(weight) > 0
    width = change.shape[1]
    out[:] = 0
    masses[:] = 0
    for s in range(len(source)):
        first, row = indptr[source[s]] - edge_ptr[s], change[s]
        size, plain = sizes[s, 0], sizes[s, 1]
        for at in range(edge_ptr[s], edge_ptr[s + 1]):
            t = slot[at]
            if at + EDGES_AHEAD < len(slot):
                prefetch(out, max(slot[at + EDGES_AHEAD], 0))
            if t < 0:
                continue
            if weighted:
                w = change.dtype.type(weight[first + at])
                masses[t, 0] += abs(w) * size
                masses[t, 1] += abs(w) * plain
                for f in range(width):
                    out[t, f] += w * row[f]
            else:
                masses[t, 0] += size
                masses[t, 1] += plain
                for f in range(width):
                    out[t, f] += row[f]


@jit
def edge_messages(csr, frontier, y, change, unit, delta, scratch):
    """Messages along edges that are removed (negative) and added: the row of each, the message, its size.

    `change` is that of each source's messages along all edges of the graph, the removed ones included.
    """
    slot, row_of = scratch.slot, scratch.lost
    src_ptr, source, norm_src = frontier.source_ptr, frontier.source, csr.norm_src
    ptr, node, edges_changed = frontier.ptr, frontier.node, frontier.edges_changed
    weighted, width = len(csr.in_weight) > 0, y.shape[1]
    at = np.full(len(delta.source), -1, dtype=np.int64)
    message = np.empty((len(at), width), dtype=y.dtype)
    size = np.empty((len(at), 2), dtype=y.dtype)
    for c in range(len(ptr) - 1):
        if delta.ptr[c] == delta.ptr[c + 1]:
            continue
        for s in range(src_ptr[c], src_ptr[c + 1]):
            slot[source[s]] = s
        for t in range(ptr[c], ptr[c + 1]):
            if edges_changed[t]:
                row_of[node[t]] = t + 1
        for i in range(delta.ptr[c], delta.ptr[c + 1]):
            j, place = delta.source[i], delta.place[i]
            at[i] = row_of[delta.target[i]] - 1
            weight = delta.weight[i]
            if place >= 0:
                weight = -float(csr.in_weight[place]) if weighted else -1.0
            w, old, s = y.dtype.type(weight), y.dtype.type(norm_src[j]), slot[j]
            for f in range(width):
                message[i, f] = w * (old * y[j, f] + (change[s, f] if s >= 0 else 0))
            for scale in range(2):
                size[i, scale] = size_of(message, i, unit, scale)
        for s in range(src_ptr[c], src_ptr[c + 1]):
            slot[source[s]] = -1
        for t in range(ptr[c], ptr[c + 1]):
            if edges_changed[t]:
                row_of[node[t]] = 0
    return at, message, size


@jit
def add_edge_messages(messages, rows, out, masses):
    """Add messages along edges that are removed and added to the rows from `rows[0]` up to `rows[1]`."""
    at, message, size = messages
    for i in range(len(at)):
        if rows[0] <= at[i] < rows[1]:
            to = at[i] - rows[0]
            for scale in range(2):
                masses[to, scale] += size[i, scale]
            for f in range(out.shape[1]):
                out[to, f] += message[i, f]


@jit
def exchange(csr, frontier, base, more, own, digits, drift, rows, masses, out, doubtful):
    """New outputs from the changes of messages, in place: rescaled where `norm_dst` changed.

    `doubtful` is noted where the changes have eaten up the digits of a sum, or there is no number, or where
    what is written back has moved too far; how many of these rows are. What is written back has no `total`:
    it follows from the output, and so a change of what is added counts as one of the sum.
    """
    moved, new_moved, arriving = drift.moved, drift.new, csr.arriving
    node, new_norm_dst, norm_dst = frontier.node, frontier.norm_dst, csr.norm_dst
    total, size, unit, plus, whole = base.total, base.size, base.unit, base.plus, base.output
    more_rows = more.rows
    first, last = rows
    width, ahead, unsure = out.shape[1], rows_ahead(out), 0
    for t in range(first, last):
        k, to = node[t], t - first
        if t + ahead < last:
            soon = node[t + ahead]
            prefetch(whole, soon)
            prefetch(size, soon)
            prefetch_number(norm_dst, soon)
        if len(moved) > 0:
            start = moved[k] + correction(arriving[k])
            now = start
            doubtful[t] |= norm_dst[k] == 0.0 or new_norm_dst[t] == 0.0
            if len(own) > 0 and own[t] >= 0 and not doubtful[t]:
                factor = out.dtype.type(1 / new_norm_dst[t])
                for scale in range(2):
                    masses[to, scale] += factor * size_of_change(
                        more_rows, own[t], plus, k, unit, scale
                    )
            for scale in range(2):
                was, mass = size[k, scale], masses[to, scale]
                doubtful[t] |= not (np.isfinite(was) and mass <= (MOST_MOVED - start) * was)
            if not doubtful[t]:
                for scale in range(2):
                    if masses[to, scale] > 0:
                        now = max(now, start + masses[to, scale] / size[k, scale])
                new_moved[t] = now
        for scale in range(2 if len(moved) == 0 else 0):
            was, mass = size[k, scale], masses[to, scale]
            # What is small beside the sum leaves most of it; only else is the sum itself looked at.
            # Nothing is known of what is beyond all numbers.
            small = np.isfinite(was) and mass <= 0.5 * was
            doubtful[t] |= not small and not (
                np.isfinite(was + mass)
                and size_of_sum(total, k, out, to, unit, scale) >= digits * (was + mass)
            )
        unsure += doubtful[t]
        if doubtful[t]:
            continue
        factor = out.dtype.type(new_norm_dst[t])
        if new_norm_dst[t] == norm_dst[k]:
            for f in range(width):
                out[to, f] = whole[k, f] + factor * out[to, f]
        elif len(moved) > 0:
            ratio = out.dtype.type(new_norm_dst[t] / norm_dst[k])
            if len(plus) > 0:
                mine = k if len(plus) > 1 else 0
                for f in range(width):
                    rest = ratio * (whole[k, f] - plus[mine, f])
                    out[to, f] = rest + factor * out[to, f] + plus[mine, f]
            else:
                for f in range(width):
                    out[to, f] = ratio * whole[k, f] + factor * out[to, f]
        else:
            for f in range(width):
                out[to, f] = factor * (total[k, f] + out[to, f])
            if len(plus) > 0:
                mine = k if len(plus) > 1 else 0
                for f in range(width):
                    out[to, f] += plus[mine, f]
        if len(own) > 0 and own[t] >= 0:
            for f in range(width):
                out[to, f] += more_rows[own[t], f] - plus[k, f]
    return unsure


@jit
def add_message(frontier, s, j, edge_weight, norm_src, y, y_rows, weight, out, to):
    """Add to row `to` what `j` sends along an edge; `s` is its place among the sources, −1 for none."""
    m = frontier.row[s] if s >= 0 else -1
    old = norm_src[j] * edge_weight
    w = y.dtype.type(frontier.scale[s] * edge_weight if s >= 0 else old)
    if m < 0:
        for f in range(y.shape[1]):
            out[to, f] += w * y[j, f]
    elif len(weight) == 0 or weight[m] == 1.0:
        for f in range(y.shape[1]):
            out[to, f] += w * y_rows[m, f]
    else:
        w, rest = y.dtype.type(w * weight[m]), y.dtype.type((1.0 - weight[m]) * old)
        for f in range(y.shape[1]):
            out[to, f] += w * y_rows[m, f] + rest * y[j, f]


@jit
def resum_targets(csr, frontier, doubtful, base, y_rows, weight, more, own, delta, rows, out, slot):
    """`norm_dst_k Σ weight_jk norm_src_j y_j + plus_k` over the edges into doubtful rows after the edit.

    Of the rows from `rows[0]` up to `rows[1]`, which `out` has.
    """
    in_ptr, in_end, in_source, in_weight = csr.in_ptr, csr.in_end, csr.in_source, csr.in_weight
    norm_src = csr.norm_src
    src_ptr, source, row = frontier.source_ptr, frontier.source, frontier.row
    ptr, node = frontier.ptr, frontier.node
    y, plus = base.y, base.plus
    weighted = len(in_weight) > 0
    width, ahead = y.shape[1], rows_ahead(y)
    for c in range(len(ptr) - 1):
        start, end = max(ptr[c], rows[0]), min(ptr[c + 1], rows[1])
        if not doubtful[start:end].any():
            continue
        for s in range(src_ptr[c], src_ptr[c + 1]):
            slot[source[s]] = s
        for i in range(delta.ptr[c], delta.ptr[c + 1]):
            if delta.place[i] >= 0:
                delta.gone[delta.place[i]] = True
        for t in range(start, end):
            if not doubtful[t]:
                continue
            k, to = node[t], t - rows[0]
            out[to] = 0
            for at in range(in_ptr[k], in_end[k]):
                j = in_source[at]
                s = slot[j]
                if at + ahead < in_end[k]:
                    prefetch(y, in_source[at + ahead])
                if not delta.gone[at] and (s < 0 or row[s] != -2):
                    edge_weight = float(in_weight[at]) if weighted else 1.0
                    add_message(frontier, s, j, edge_weight, norm_src, y, y_rows, weight, out, to)
            for i in range(delta.ptr[c], delta.ptr[c + 1]):
                if delta.place[i] < 0 and delta.target[i] == k:
                    j = delta.source[i]
                    add_message(
                        frontier, slot[j], j, delta.weight[i], norm_src, y, y_rows, weight, out, to
                    )
            factor = y.dtype.type(frontier.norm_dst[t])
            for f in range(width):
                out[to, f] *= factor
            if len(own) > 0 and own[t] >= 0:
                for f in range(width):
                    out[to, f] += more.rows[own[t], f]
            elif len(plus) > 0:
                mine = k if len(plus) > 1 else 0
                for f in range(width):
                    out[to, f] += plus[mine, f]
        for s in range(src_ptr[c], src_ptr[c + 1]):
            slot[source[s]] = -1
        for i in range(delta.ptr[c], delta.ptr[c + 1]):
            if delta.place[i] >= 0:
                delta.gone[delta.place[i]] = False
