"""The compiled loops of importance sampling: importances of rows, and which rows are computed."""

from __future__ import annotations

import math

import numpy as np

from nora.engine.exec.kernels.loops import jit
from nora.engine.exec.kernels.prefetch import prefetch_number
from nora.engine.exec.kernels.row_sampling import BITS, DECISIVE, SMALLEST

# How many rows ahead the values of their nodes are prefetched.
SOON = 16
# Sizes that are about the same: as many parts of each power of two, and how many in all.
PART_BITS = 3
PARTS = 1 << PART_BITS
BINS = 256 * PARTS


@jit
def threshold(sizes, error, sums, squares):
    """The largest `t` for which drawing by `sizes / t` keeps the relative error of their sum.

    The error grows with `t`, faster and faster, so that Newton's method comes down to it. `sums` and
    `squares` are room for sums over sizes that are about the same, `PARTS` for each power of two: these
    tell it so well that the sizes are seldom looked at again.
    """
    sums[:] = 0.0
    squares[:] = 0.0
    total = 0.0
    bits, lowest = sizes.view(np.int64), np.int64(1023 * PARTS - BINS // 2)
    for i in range(len(sizes)):
        b = sizes[i]
        total += max(b, 0.0) if b == b else b
        if b > 0.0 and np.isfinite(b):
            # Its power of two and the first bits after it, as they stand in the number.
            at = min(max((bits[i] >> (52 - PART_BITS)) - lowest, 0), BINS - 1)
            sums[at] += b
            squares[at] += b * b
    wanted = (error * total) ** 2
    # Every row counts where the total is NaN, or where its square overflows or underflows.
    if total != 0.0 and not SMALLEST < wanted < 1 / SMALLEST:
        return 0.0
    t, rest, square = np.inf, 0.0, 0.0
    low = math.ldexp(1.0, -BINS // (2 * PARTS))
    for at in range(BINS):
        edge = low + low * (at % PARTS + 1) / PARTS
        before, square_before = rest, square
        rest += sums[at]
        square += squares[at]
        if rest * edge - square >= wanted:
            t = edge
            if rest > 0.0:
                # An op of Newton's from there, and the most that the error can be with it.
                nearer = min((wanted + square) / rest, edge)
                smallest = low + low * (at % PARTS) / PARTS
                if (
                    0 < at < BINS - 1
                    and before * nearer - square_before + sums[at] * (nearer - smallest)
                    <= 1.05 * wanted
                ):
                    return nearer
            break
        if at % PARTS == PARTS - 1:
            low *= 2.0
    for _ in range(50):
        rest, square = 0.0, 0.0
        for b in sizes:
            if 0.0 < b < t:
                rest += b
                square += b * b
        if rest * t - square <= 1.05 * wanted:
            break
        smaller = (wanted + square) / rest
        if not smaller < t:
            break
        t = smaller
    return t


@jit
def arriving(csr, share, source, size, frontier, also, importance, mass, most, least, sizes, floor):
    """The importance of every reached row, −1 if it is certain, and its least inclusion probability."""
    edge_ptr, slot = frontier.edge_ptr, frontier.slot
    node, norm_dst = frontier.node, frontier.norm_dst
    indptr, old_norm_dst, own = csr.indptr, csr.norm_dst, frontier.also
    certain = frontier.edges_changed
    weighted = len(share) > 0
    for t in range(len(sizes)):
        sizes[t] = 0.0
    for s in range(len(source)):
        first = indptr[source[s]] - edge_ptr[s]
        for at in range(edge_ptr[s], edge_ptr[s + 1]):
            if slot[at] >= 0:
                sizes[slot[at]] += size[s] * (abs(share[first + at]) if weighted else 1.0)
    for t in range(len(sizes)):
        k = node[t]
        if t + SOON < len(sizes):
            prefetch_number(importance, node[t + SOON])
            prefetch_number(old_norm_dst, node[t + SOON])
        sizes[t] *= abs(norm_dst[t])
        if norm_dst[t] != old_norm_dst[k]:
            sizes[t] += abs(norm_dst[t] - old_norm_dst[k]) * mass[k]
    for m in range(len(also)):
        sizes[own[m]] += also[m]
    for t in range(len(sizes)):
        k, size_now = node[t], sizes[t]
        floor[t] = size_now * least[k] if len(least) > 0 else 0.0
        if most < size_now < np.inf:
            size_now = most
        sizes[t] = size_now * importance[k]
        if certain[t]:
            sizes[t] = -1.0


@jit
def sample(ptr, sizes, floor, error, start, chance, planned):
    """The inclusion probability of every row times `2^BITS`, 0 for those that were not drawn.

    `planned` becomes the variance of every removal's sum of sizes under independent draws.
    """
    unit = np.int64(1) << BITS
    sums, squares = np.empty(BINS), np.empty(BINS)
    for c in range(len(ptr) - 1):
        planned[c] = 0.0
        mine = sizes[ptr[c] : ptr[c + 1]]
        if error * len(mine) <= 1.0:
            for i in range(ptr[c], ptr[c + 1]):
                chance[i] = 0 if sizes[i] == 0.0 else unit
            continue
        t = threshold(mine, error, sums, squares)
        total = 0.0
        for b in mine:
            total += max(b, 0.0)
        if 0.0 < DECISIVE * error * total < t:
            t = DECISIVE * error * total
        passed = start[c]
        for i in range(ptr[c], ptr[c + 1]):
            b = sizes[i]
            q = unit
            if 0.0 <= b < t:
                share = (
                    max(b / t, floor[i]) if b > 0.0 else 0.0
                )  # what does not matter is not drawn
                q = min(np.int64(np.ceil(min(share, 1.0) * unit)), unit)
            if q == unit:
                chance[i] = unit
                continue
            if b > 0.0:
                planned[c] += b * b * (unit / q - 1.0)
            chance[i] = q if (passed + q) >> BITS > passed >> BITS else 0
            passed += q


@jit
def compacted(frontier, chance):
    """The drawn rows alone; slots of others become −1."""
    ptr, node, norm_dst, slot, own = (
        frontier.ptr, frontier.node, frontier.norm_dst, frontier.slot, frontier.also,
    )  # fmt: skip
    place = np.full(len(node), -1, dtype=np.int64)
    new_ptr = np.zeros(len(ptr), dtype=np.int64)
    n = np.int64(0)
    for c in range(len(ptr) - 1):
        for t in range(ptr[c], ptr[c + 1]):
            if chance[t] > 0:
                place[t] = n
                n += 1
        new_ptr[c + 1] = n
    new_node = np.empty(n, dtype=np.int64)
    new_norm_dst = np.empty(n)
    new_edges_changed = np.empty(n, dtype=np.bool_)
    drawn = np.empty(n, dtype=np.int64)
    for t in range(len(node)):
        if place[t] >= 0:
            new_node[place[t]] = node[t]
            new_norm_dst[place[t]] = norm_dst[t]
            new_edges_changed[place[t]] = frontier.edges_changed[t]
            drawn[place[t]] = chance[t]
    for at in range(len(slot)):
        if slot[at] >= 0:
            slot[at] = place[slot[at]]
    for m in range(len(own)):
        own[m] = place[own[m]]
    return new_ptr, new_node, new_norm_dst, new_edges_changed, drawn
