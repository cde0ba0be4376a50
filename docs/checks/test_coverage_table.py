"""The table of PyG's layers: complete, and written from what was measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from torch_geometric.nn import aggr, conv, norm

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
ROWS = json.loads((ROOT / "benchmarks" / "results" / "pyg_coverage.json").read_text("utf-8"))[
    "rows"
]


@pytest.mark.parametrize(
    ("title", "package"), [("Convolutions", conv), ("Norms", norm), ("Aggregations", aggr)]
)
def test_the_table_has_every_class_of_the_package(title, package):
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    listed = re.findall(r"`(\w+)[(`]", section)
    assert set(listed) == set(package.__all__)
    assert sorted(listed) == sorted(row["name"] for row in ROWS if row["package"] == title)


def test_what_is_followed_gives_the_numbers_of_a_full_pass():
    followed = [row for row in ROWS if row["kind"] in ("rule", "tape", "whole")]
    assert followed
    assert all(row["removals"] and row["difference"] < 1e-9 for row in followed)


def test_what_is_not_followed_says_why():
    others = [row for row in ROWS if row["kind"] not in ("rule", "tape", "whole")]
    assert {row["kind"] for row in others} <= {"falls back", "left out"}
    assert all(row["why"] in PAGE for row in others)


def test_every_shape_of_a_public_model_is_listed_with_how_and_why():
    shapes = json.loads((ROOT / "benchmarks" / "results" / "shapes.json").read_text("utf-8"))[
        "rows"
    ]
    section = PAGE.partition("\n## Shapes of public models\n")[2]
    assert re.findall(r"(?m)^\| [\w ]+ \| `(\w+)`", section) == [row["name"] for row in shapes]
    assert all(row["why"] in section for row in shapes if row["how"] != "engine")
