"""The compiled loops that draw rows: how much may arrive at each, and which are computed."""

from __future__ import annotations

import math

import numpy as np

from nora.engine.backends.loops import jit
from nora.engine.backends.prefetch import prefetch_number

# How many rows ahead of the one at hand what is known of their nodes is asked for.
SOON = 16


@jit
def threshold(sizes, error, sums, squares):
    """The largest `t` for which drawing by `sizes / t` keeps the relative error of their sum.

    `sums` and `squares` are room for sums by powers of two, which tell it roughly; then Newton's method:
    the error grows with `t`, faster and faster, so that `t` comes down to it.
    """
    sums[:] = 0.0
    squares[:] = 0.0
    total = 0.0
    bits = sizes.view(np.int64)
    for i in range(len(sizes)):
        b = sizes[i]
        total += max(b, 0.0) if b == b else b
        if b > 0.0 and np.isfinite(b):
            # The power of two above it, as its bits have it: `frexp` would be called for every row.
            above = (bits[i] >> 52) - 1022
            power = min(max(above + len(sums) // 2, 0), len(sums) - 1)
            sums[power] += b
            squares[power] += b * b
    if not np.isfinite(total):
        return 0.0
    wanted = (error * total) ** 2
    t, rest, square = np.inf, 0.0, 0.0
    for power in range(len(sums)):
        rest += sums[power]
        square += squares[power]
        edge = math.ldexp(1.0, power - len(sums) // 2)
        if rest * edge - square >= wanted:
            t = edge
            break
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
def arriving(csr, share, source, size, reached, also, worth, mass, certain, sizes):
    """How much may arrive at every reached row, by what it is worth; −1 for those that are certain."""
    edge_ptr, slot, node, left = reached.edge_ptr, reached.slot, reached.node, reached.left
    indptr, old_left, own = csr.indptr, csr.left, reached.also
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
            prefetch_number(worth, node[t + SOON])
            prefetch_number(old_left, node[t + SOON])
        if left[t] == old_left[k]:
            sizes[t] *= abs(left[t]) * worth[k]
        else:
            turned = abs(left[t] - old_left[k]) * mass[k]
            sizes[t] = (abs(left[t]) * sizes[t] + turned) * worth[k]
    for m in range(len(also)):
        sizes[own[m]] += also[m] * worth[node[own[m]]]
    for t in range(len(sizes)):
        if certain[t]:
            sizes[t] = -1.0


@jit
def draw(ptr, sizes, error, start, bits, chance):
    """The chance of every row as a multiple of `2^-bits`, 0 for those that were not drawn."""
    unit = np.int64(1) << bits
    sums, squares = np.empty(256), np.empty(256)
    for c in range(len(ptr) - 1):
        mine = sizes[ptr[c] : ptr[c + 1]]
        t = threshold(mine, error, sums, squares)
        passed = start[c]
        for i in range(ptr[c], ptr[c + 1]):
            if sizes[i] < 0.0 or not sizes[i] < t:
                chance[i] = unit
                continue
            q = np.int64(np.ceil(sizes[i] / t * unit))
            chance[i] = q if (passed + q) >> bits > passed >> bits else 0
            passed += q


@jit
def compacted(ptr, node, left, chance, slot, own):
    """The drawn rows alone; slots of others become −1."""
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
    new_left = np.empty(n)
    drawn = np.empty(n, dtype=np.int64)
    for t in range(len(node)):
        if place[t] >= 0:
            new_node[place[t]] = node[t]
            new_left[place[t]] = left[t]
            drawn[place[t]] = chance[t]
    for at in range(len(slot)):
        if slot[at] >= 0:
            slot[at] = place[slot[at]]
    for m in range(len(own)):
        own[m] = place[own[m]]
    return new_ptr, new_node, new_left, drawn
