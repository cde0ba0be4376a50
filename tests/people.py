"""Thirty-two people of two camps, some with strange names, and files about them."""

from __future__ import annotations

import csv
import random
from itertools import combinations
from pathlib import Path

STRANGE = (
    "<script>alert(1)</script>",
    "Smith, J.",
    "汉字 ☃",
    "007",
    "../../etc",
    "=1+1",
    'say "hi"',
)
CAMP = 16


def people() -> list[str]:
    return [*STRANGE, *(f"p{number}" for number in range(2 * CAMP - len(STRANGE)))]


def write_rows(path: Path, *rows: tuple) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write_files(place: Path) -> Path:
    """Two camps of 16, dense within, three ties across; one in eight labels is blank."""
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


def inputs(folder: Path) -> list[object]:
    return ["--edges", folder / "edges.csv", "--labels", folder / "labels.csv"]
