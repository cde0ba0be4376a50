"""Thirty-two people of two camps, some with strange names, and files about them."""

from __future__ import annotations

import csv
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


def inputs(folder: Path) -> list[object]:
    return ["--edges", folder / "edges.csv", "--labels", folder / "labels.csv"]
