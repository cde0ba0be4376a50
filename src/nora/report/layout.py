"""A force-directed layout in NumPy, for graphs of up to a few thousand nodes.

All pairs of nodes repel each other, edges pull. With positions `x`, the repulsion of node `i` is

    Σ_j m_i m_j (x_i − x_j) / |x_i − x_j|²  =  m_i (x_i Σ_j w_ij − Σ_j w_ij x_j),   w_ij = m_j / |x_i − x_j|²

so that one distance matrix and one matrix product are enough for all pairs; `m` grows with the degree,
which keeps hubs apart. Edges of hubs pull less, as in GCN's normalisation: else all hubs would meet in
the middle.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

# What draws every node to the middle, across and up: pages are wider than high.
GRAVITY = np.array([0.1, 0.135], dtype=np.float32)
# How often all nodes move, and how many of the largest circles are pushed apart.
STEPS, LARGEST = 150, 250


def force_layout(
    num_nodes: int,
    edges: np.ndarray,
    groups: np.ndarray | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Seeded positions `[n, 2]` within a disc of radius about 1.

    Args:
        num_nodes: Number of nodes.
        edges: Node pairs `[2, E]`, each edge once.
        groups: A group per node `[n]`; each group starts on its own side.
        seed: Seed of the start.

    Example:
        >>> path = np.array([[0, 1], [1, 2]])
        >>> place = force_layout(3, path)
        >>> bool(np.linalg.norm(place[0] - place[2]) > np.linalg.norm(place[0] - place[1]))
        True
    """
    random = np.random.default_rng(seed)
    place = random.normal(0, 0.35, (num_nodes, 2))
    if groups is not None and num_nodes:
        _, group = np.unique(groups, return_inverse=True)
        turn = np.pi + 2 * np.pi * group / (group.max() + 1)
        place += np.stack([np.cos(turn), np.sin(turn)], axis=1) * (group.max() > 0)
    if num_nodes < 2:
        return place
    edges = edges[:, edges[0] != edges[1]]
    degree = np.bincount(edges.ravel(), minlength=num_nodes)
    pull = 1 / np.sqrt(degree[edges[0]] * degree[edges[1]])
    pulls = sparse.coo_array((pull, (edges[0], edges[1])), shape=(num_nodes, num_nodes)).tocsr()
    pulls = (pulls + pulls.T).astype(np.float32)
    total_pull = np.asarray(pulls.sum(axis=1), dtype=np.float32)[:, None]
    mass = np.sqrt(1 + degree).astype(np.float32)
    place = place.astype(np.float32)
    # So strong that the repulsion of all and the pull of the edges balance at a radius of about 1.
    strength = 0.35 / mass.sum()
    for step in range(STEPS):
        repulsion = _repulsion(place, mass) * strength
        attraction = pulls @ place - total_pull * place
        gravity = -place * GRAVITY
        move = repulsion / mass[:, None] + 0.9 * attraction / np.maximum(total_pull, 1) + gravity
        length = np.linalg.norm(move, axis=1, keepdims=True)
        allowed = 0.12 * (1 - step / STEPS) + 0.002
        place += move * np.minimum(1, allowed / np.maximum(length, 1e-9))
    return place.astype(np.float64)


def _repulsion(place: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The push on every node from all others `[n, 2]`."""
    square = (place**2).sum(axis=1)
    weight = place @ place.T
    weight *= -2
    weight += square[:, None]
    weight += square
    # A floor on distances: nodes that coincide are not thrown away from each other.
    np.maximum(weight, 1e-5, out=weight)
    np.divide(mass, weight, out=weight)
    np.fill_diagonal(weight, 0)
    return mass[:, None] * (place * weight.sum(axis=1, keepdims=True) - weight @ place)


def apart(place: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Push the largest circles apart where they overlap.

    Args:
        place: Positions `[n, 2]`.
        radius: Radii `[n]`, in the same unit.

    Example:
        >>> moved = apart(np.array([[0.0, 0.0], [0.1, 0.0]]), np.array([0.5, 0.5]))
        >>> bool(np.linalg.norm(moved[0] - moved[1]) > 0.95)
        True
    """
    big = np.argsort(-radius, kind="stable")[:LARGEST]
    reach = radius[big][:, None] + radius[big]
    place = place.copy()
    for _ in range(60):
        x, y = place[big].T
        across, up = x[:, None] - x, y[:, None] - y
        distance = np.hypot(across, up)
        np.fill_diagonal(distance, np.inf)
        push = np.maximum(reach - distance, 0) / np.maximum(distance, 1e-9) * 0.35
        if not push.any():
            break
        place[big] += np.stack([(across * push).sum(axis=1), (up * push).sum(axis=1)], axis=1)
    return place
