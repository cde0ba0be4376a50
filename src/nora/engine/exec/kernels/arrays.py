"""Named tuples of arrays, which `numba` accepts as arguments of the compiled loops.

`Arrays` in `edges.py` is another one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class PairArrays(NamedTuple):
    """Pairs (edit, row): those of edit `c` are `node[ptr[c]:ptr[c + 1]]`."""

    ptr: np.ndarray
    node: np.ndarray


class Scratch(NamedTuple):
    """Marks of nodes (−1, 0, 0), clean on entry and on return."""

    slot: np.ndarray
    loss: np.ndarray
    lost: np.ndarray


class FrontierArrays(NamedTuple):
    """The fields of `Frontier`."""

    source_ptr: np.ndarray
    source: np.ndarray
    row: np.ndarray
    scale: np.ndarray
    edge_ptr: np.ndarray
    slot: np.ndarray
    also: np.ndarray
    ptr: np.ndarray
    node: np.ndarray
    norm_dst: np.ndarray
    edges_changed: np.ndarray


class SumArrays(NamedTuple):
    """The fields of `Sums`."""

    y: np.ndarray
    total: np.ndarray
    unit: np.ndarray
    size: np.ndarray
    plus: np.ndarray
    output: np.ndarray


class DriftArrays(NamedTuple):
    """The fields of `Drift`; empty where rows are not written back."""

    moved: np.ndarray
    new: np.ndarray
    peak: np.ndarray
    share: np.ndarray


class DeltaArrays(NamedTuple):
    """The fields of `EdgeDelta`, and marks for every place in `by_target`, clean on entry and on return."""

    ptr: np.ndarray
    source: np.ndarray
    target: np.ndarray
    loss: np.ndarray
    lost: np.ndarray
    place: np.ndarray
    weight: np.ndarray
    gone: np.ndarray


class NewRows(NamedTuple):
    """Changed rows of what is added to a sum."""

    node: np.ndarray
    rows: np.ndarray


class AttentionArrays(NamedTuple):
    """Messages and both parts of its score, on the whole graph or where they changed."""

    y: np.ndarray
    alpha_src: np.ndarray
    alpha_dst: np.ndarray


class Softmax(NamedTuple):
    """An attention step's output, and each softmax's largest score and denominator.

    `unit` is one over the usual size of each column, `size` how large messages is by that.
    """

    output: np.ndarray
    peak: np.ndarray
    share: np.ndarray
    unit: np.ndarray
    size: np.ndarray


class SlopeArrays(NamedTuple):
    """The fields of `TargetSlopes`."""

    many: int
    place: np.ndarray
    slope: np.ndarray


class CsrEdges(NamedTuple):
    """The edges of a weighted sum, in CSR form by where they start and by where they lead."""

    out_ptr: np.ndarray
    out_edge: np.ndarray
    in_ptr: np.ndarray
    in_edge: np.ndarray
    source: np.ndarray
    target: np.ndarray


class ChunkArrays(NamedTuple):
    """The changes of a chunk: rows `y`, weights `w`, removed edges and removed sums."""

    y: PairArrays
    w: PairArrays
    lost: PairArrays
    gone: PairArrays


class Terms(NamedTuple):
    """The numbers of a weighted sum, before and where they changed; weights are none or one per edge.

    `unit` is by what rows are measured (`scales`), `size` how large those of `y` are by that.
    """

    y: np.ndarray
    y_rows: np.ndarray
    w: np.ndarray
    w_rows: np.ndarray
    start: np.ndarray
    total: np.ndarray
    unit: np.ndarray
    size: np.ndarray


class Marks(NamedTuple):
    """Marks of targets, sources and edges (−1) and of lost edges, clean on entry and on return."""

    slot: np.ndarray
    y_slot: np.ndarray
    w_slot: np.ndarray
    lost: np.ndarray
