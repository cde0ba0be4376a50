"""The layout: quick, seeded, and telling groups apart."""

from __future__ import annotations

import time

import numpy as np
import pytest

from nora.report.drawing import edge_pairs
from nora.report.layout import apart, force_layout


def two_cliques(size: int) -> np.ndarray:
    pairs = [(i, j) for i in range(size) for j in range(i)]
    return np.array([*pairs, *((i + size, j + size) for i, j in pairs), (0, size)]).T


def test_groups_that_are_tied_within_lie_apart():
    place = force_layout(20, two_cliques(10))
    middles = place[:10].mean(axis=0), place[10:].mean(axis=0)
    within = np.linalg.norm(place[:10] - middles[0], axis=1).mean()
    assert np.linalg.norm(middles[0] - middles[1]) > 2 * within


def test_the_same_seed_gives_the_same_places():
    edges = two_cliques(6)
    assert np.array_equal(force_layout(12, edges, seed=3), force_layout(12, edges, seed=3))
    assert not np.array_equal(force_layout(12, edges, seed=3), force_layout(12, edges, seed=4))


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_few_nodes_and_no_ties_are_no_obstacle(number):
    place = force_layout(number, np.empty((2, 0), dtype=int), np.zeros(number, dtype=int))
    assert place.shape == (number, 2) and np.isfinite(place).all()


def test_fifteen_hundred_nodes_take_seconds():
    edges = np.random.default_rng(0).integers(0, 1500, (2, 5000))
    start = time.perf_counter()
    assert np.isfinite(force_layout(1500, edges)).all()
    assert time.perf_counter() - start < 20


def test_circles_are_pushed_apart():
    random = np.random.default_rng(0)
    place, radius = random.normal(0, 0.3, (40, 2)), np.full(40, 0.05)
    moved = apart(place, radius)
    gap = np.linalg.norm(moved[:, None] - moved, axis=2) + np.eye(40)
    assert gap.min() > 0.09


def test_an_edge_counts_once_whatever_its_direction_and_number():
    source, target = edge_pairs(np.array([[0, 1, 1, 2, 2], [1, 0, 0, 2, 1]]), 3)
    assert list(zip(source, target, strict=True)) == [(0, 1), (1, 2)]
