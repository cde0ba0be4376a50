"""Trained runs and files that commands are asked about; every file of tests has its own, to spoil."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import pytest

import nora
from people import CAMP, people, write_rows


@pytest.fixture(scope="module")
def karate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "karate"
    nora.train("gcn", "karate", epochs=20, progress=False).save(folder)
    return folder


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "links"
    nora.train("gcn", "karate", "link", epochs=5, progress=False).save(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two camps of 16, dense within, three ties across; one in eight labels is blank."""
    place = tmp_path_factory.mktemp("files")
    names, draw = people(), random.Random(1)
    ties = [
        (names[i], names[j])
        for i, j in combinations(range(2 * CAMP), 2)
        if draw.random() < (0.35 if i // CAMP == j // CAMP else 0.0)
    ]
    ties += [(names[0], names[CAMP]), (names[1], names[CAMP]), (names[2], names[-1])]
    side = ["left" if number < CAMP else "right" for number in range(2 * CAMP)]
    write_rows(place / "edges.csv", ("source", "target"), *ties)
    write_rows(
        place / "features.csv",
        ("id", "age", "land"),
        *((name, draw.randint(20, 80), draw.choice(["fr", "de"])) for name in names),
    )
    known = ["" if number % 8 == 5 else one for number, one in enumerate(side)]
    write_rows(place / "labels.csv", ("id", "label"), *zip(names, known, strict=True))
    return place
