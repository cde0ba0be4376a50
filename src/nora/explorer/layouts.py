"""Positions of nodes, for graphs of any size; cached on disk.

Up to `SMALL` nodes all pairs repel each other (`nora.report.layout`). In a larger graph the repulsion is
that of a field: the nodes' masses are laid on a grid, the grid is convolved with the force of one mass by
FFT, and every node reads the force where it is. A step then costs about as much as looking at all edges once,
whatever the number of pairs. It starts from two slow modes of the random walk on the graph, which lay apart
what hangs together loosely.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from scipy import fft, sparse

from nora.datasets import cache_folder
from nora.files import written_atomically
from nora.report.layout import force_layout

SMALL = 1500
GRID = 256
VERSION = 1


def layout_of(
    num_nodes: int, edge_pairs: tuple[np.ndarray, np.ndarray], groups: np.ndarray | None = None
) -> np.ndarray:
    """Whole coordinates `[N, 2]`, 0 … 10,000, of all nodes.

    Args:
        num_nodes: Number of nodes.
        edge_pairs: Pairs of nodes with an edge, each once.
        groups: A group per node, which starts on its own side.
    """
    edges = np.stack(edge_pairs)
    if num_nodes <= SMALL:
        return _squared(force_layout(num_nodes, edges, groups))
    digest = hashlib.sha256(f"{VERSION} {num_nodes} ".encode() + edges.tobytes())
    digest.update(b"" if groups is None else groups.astype(np.int64).tobytes())
    cached = cache_folder() / "layouts" / f"{digest.hexdigest()[:32]}.npy"
    place = _read(cached, num_nodes)
    if place is None:
        place = _squared(field_layout(num_nodes, edges, groups))
        _save(cached, place)
    return place


def _read(path: Path, num_nodes: int) -> np.ndarray | None:
    try:
        place = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    fits = place.shape == (num_nodes, 2) and place.dtype == np.int32
    return place if fits and (not len(place) or 0 <= place.min() <= place.max() <= 10_000) else None


def _save(path: Path, place: np.ndarray) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_atomically(path) as temporary, temporary.open("wb") as file:
            np.save(file, place)
    except OSError:
        return  # where nothing can be written, the layout is made again next time


def _squared(place: np.ndarray) -> np.ndarray:
    """Into the square 0 … 10,000; who flew far away comes to its edge."""
    if not len(place):
        return np.empty((0, 2), dtype=np.int32)
    low, high = (
        np.percentile(place, [0.2, 99.8], axis=0)
        if len(place) > 500
        else (
            place.min(axis=0),
            place.max(axis=0),
        )
    )
    middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-9)
    inside = np.clip((place - middle) / half, -1.04, 1.04)
    return np.rint(5000 + 4700 * inside).astype(np.int32)


def field_layout(
    num_nodes: int,
    edges: np.ndarray,
    groups: np.ndarray | None = None,
    steps: int = 120,
) -> np.ndarray:
    """Seeded positions `[n, 2]` of a large graph, within a disc of radius about 1.

    Args:
        num_nodes: Number of nodes.
        edges: Node pairs `[2, E]`, each edge once, no self-loops.
        groups: A group per node `[n]`.
        steps: How many times all nodes move.

    Example:
        >>> ring = np.stack([np.arange(2000), (np.arange(2000) + 1) % 2000])
        >>> place = field_layout(2000, ring, steps=20)
        >>> distance = np.linalg.norm(place[0] - place[1])
        >>> bool(distance < np.linalg.norm(place[0] - place[1000]))
        True
    """
    degree = np.bincount(edges.ravel(), minlength=num_nodes)
    pull = (1 / np.sqrt(degree[edges[0]] * degree[edges[1]])).astype(np.float32)
    pulls = sparse.coo_array((pull, (edges[0], edges[1])), shape=(num_nodes, num_nodes)).tocsr()
    pulls = (pulls + pulls.T).astype(np.float32)
    total = np.asarray(pulls.sum(axis=1), dtype=np.float32)[:, None]
    mass = np.sqrt(1 + degree).astype(np.float32)
    place = _start(pulls, total, groups)
    # The same balance as in `force_layout`.
    strength = 0.35 / mass.sum()
    force = _kernel()
    for step in range(steps):
        push = _field(place, mass, force) * strength
        pull = pulls @ place - total * place
        move = push + 0.9 * pull / np.maximum(total, 1) - 0.12 * place
        length = np.linalg.norm(move, axis=1, keepdims=True)
        allowed = 0.12 * (1 - step / steps) + 0.002
        place += move * np.minimum(1, allowed / np.maximum(length, 1e-9))
    return place.astype(np.float64)


def _start(pulls: sparse.csr_array, total: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    random = np.random.default_rng(0)
    modes = random.normal(size=(pulls.shape[0], 2)).astype(np.float32)
    weight = total / max(float(total.sum()), 1e-9)
    for _ in range(40):
        modes = 0.5 * modes + 0.5 * (pulls @ modes) / np.maximum(total, 1e-6)
        # Without the constant, which is the slowest of all, and apart from each other.
        modes -= (weight * modes).sum(axis=0)
        first, second = modes.T
        second -= first * (first @ second) / max(float(first @ first), 1e-12)
        modes = np.stack([first, second], axis=1)
        modes /= np.maximum(np.linalg.norm(modes, axis=0), 1e-12)
    # By rank: a few far ends would leave all others in a heap.
    rank = np.argsort(np.argsort(modes, axis=0), axis=0) / max(len(modes) - 1, 1)
    place = (rank - 0.5) * 1.2 + random.normal(0, 0.05, modes.shape)
    if groups is not None and len(place):
        _, group = np.unique(groups, return_inverse=True)
        turn = np.pi + 2 * np.pi * group / (group.max() + 1)
        place += 0.6 * np.stack([np.cos(turn), np.sin(turn)], axis=1) * (group.max() > 0)
    return place.astype(np.float32)


def _kernel() -> tuple[np.ndarray, np.ndarray]:
    """The force of one mass on the doubled grid, across and up, transformed."""
    away = np.fft.fftfreq(2 * GRID, 1 / (2 * GRID)).astype(np.float32)
    across, up = np.meshgrid(away, away, indexing="ij")
    square = across**2 + up**2 + 0.5
    return fft.rfft2(across / square), fft.rfft2(up / square)


def _field(place: np.ndarray, mass: np.ndarray, force: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The force on every node `[n, 2]`, per unit of its mass."""
    low, high = place.min(axis=0), place.max(axis=0)
    cell = max(float((high - low).max()), 1e-6) / (GRID - 2)
    spot = (place - low) / cell
    corner = np.floor(spot).astype(np.int64)
    part = (spot - corner).astype(np.float32)
    corners = [
        (
            (corner[:, 0] + i) * GRID + corner[:, 1] + j,
            (part[:, 0] if i else 1 - part[:, 0]) * (part[:, 1] if j else 1 - part[:, 1]),
        )
        for i in (0, 1)
        for j in (0, 1)
    ]
    density = np.zeros(GRID * GRID)
    for at, share in corners:
        density += np.bincount(at, weights=mass * share, minlength=GRID * GRID)
    spectrum = fft.rfft2(density.reshape(GRID, GRID), s=(2 * GRID, 2 * GRID))
    found = []
    for one in force:
        whole = fft.irfft2(spectrum * one, s=(2 * GRID, 2 * GRID))[:GRID, :GRID].ravel()
        found.append(sum(whole[at] * share for at, share in corners))
    return (np.stack(found, axis=1) / cell).astype(np.float32)
