"""The drawing of the graph: which part of it, and where each node is.

A graph of up to `DRAWN_NODES` nodes is drawn whole, except for nodes without any edge, whose removal changes
nothing. Of a larger one the page shows the most influential nodes and edges, the nodes that a removal
changes, and their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nora.report.layout import apart, force_layout
from nora.report.subject import Subject

DRAWN_NODES = 1500
DRAWN_EDGES = 9000
# Of how many of the first removals the changes are drawn.
INTERESTING = 30
# Radii of nodes, as shares of the drawing's half width.
SMALLEST, LARGEST = 0.004, 0.036


def drawing(subject: Subject, seed: int, linked: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """Drawn nodes, their places (0 … 10,000), sizes (0 … 1), and the edges among them.

    Edges are positions in the list of drawn nodes. `linked` are the graph's `edge_pairs`.
    """
    source, target = linked
    nodes = _chosen(subject, source, target)
    position = np.full(subject.num_nodes, -1)
    position[nodes] = np.arange(len(nodes))
    inside = (position[source] >= 0) & (position[target] >= 0)
    edges = np.stack([position[source[inside]], position[target[inside]]])
    groups = subject.predicted if subject.predicted is not None else subject.labels
    place = force_layout(len(nodes), edges, None if groups is None else groups[nodes], seed)
    size = _sizes(subject.influence[nodes])
    place = place / max(np.abs(place).max(initial=0), 1e-9)
    place = apart(place, SMALLEST + (LARGEST - SMALLEST) * size)
    shown = _some_edges(edges, size, seed)
    return {
        "node": nodes.tolist(),
        "x": _quantised(place[:, 0]),
        "y": _quantised(place[:, 1]),
        "size": [round(float(one), 3) for one in size],
        "edge": shown.T.ravel().tolist(),
        "connected": len(np.unique(np.concatenate([source, target]))),
        "edges": int(edges.shape[1]),
    }


def edge_pairs(edge_index: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of nodes with an edge, each once: smaller ids, larger ids; without self-loops."""
    source, target = edge_index[0], edge_index[1]
    low, high = np.minimum(source, target), np.maximum(source, target)
    key = np.unique(low[low != high] * np.int64(num_nodes) + high[low != high])
    return key // num_nodes, key % num_nodes


def _chosen(subject: Subject, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Ids of the nodes to draw, sorted."""
    connected = np.unique(np.concatenate([source, target]))
    if len(connected) <= DRAWN_NODES:
        return connected if len(connected) else np.arange(min(subject.num_nodes, DRAWN_NODES))
    taken = np.zeros(subject.num_nodes, dtype=bool)
    room = DRAWN_NODES
    for node in _by_interest(subject, source, target):
        if not taken[node]:
            taken[node] = True
            room -= 1
            if room == 0:
                break
    return np.flatnonzero(taken)


def _by_interest(subject: Subject, source: np.ndarray, target: np.ndarray) -> Iterator[int]:
    order = subject.order
    yield from order[:60]
    if subject.edges is not None:
        yield from np.stack([subject.edges.source, subject.edges.target], axis=1).ravel()
    first = list(subject.effects.values())[:INTERESTING]
    for effect in first:
        yield from effect.touched[: min(effect.flips, 40)]
    for effect in first:
        yield from effect.touched[effect.flips :][:12]
    near, start = _neighbours(source, target, subject.num_nodes)
    for node in order[:400]:
        yield from near[start[node] : start[node + 1]]
    yield from order


def _neighbours(source: np.ndarray, target: np.ndarray, num_nodes: int) -> tuple[Any, Any]:
    """Neighbours of all nodes in one list, and where each node's begin."""
    here, there = np.concatenate([source, target]), np.concatenate([target, source])
    start = np.zeros(num_nodes + 1, dtype=np.int64)
    start[1:] = np.bincount(here, minlength=num_nodes).cumsum()
    return there[np.argsort(here, kind="stable")], start


def _sizes(influence: np.ndarray) -> np.ndarray:
    """Radii between 0 and 1: areas in proportion to influence."""
    known = np.nan_to_num(influence, nan=0.0).clip(min=0)
    return np.sqrt(known / max(known.max(initial=0), 1e-12))


def _some_edges(edges: np.ndarray, size: np.ndarray, seed: int) -> np.ndarray:
    """At most `DRAWN_EDGES` of the edges, those at large nodes first."""
    if edges.shape[1] <= DRAWN_EDGES:
        return edges
    chance = np.random.default_rng(seed).random(edges.shape[1])
    weight = size[edges].sum(axis=0) + 0.2 * chance
    return edges[:, np.sort(np.argsort(-weight, kind="stable")[:DRAWN_EDGES])]


def _quantised(values: np.ndarray) -> list[int]:
    low, high = values.min(initial=0), values.max(initial=0)
    middle, half = (low + high) / 2, 1.2
    return np.rint(5000 + 5000 * (values - middle) / half).astype(int).tolist()
