"""The page of verdicts and the list of results are what the results say today."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nora.experiments import published

ROOT = Path(__file__).parents[2]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "pictures"))
    return runpy.run_path(str(ROOT / "docs" / "pictures" / "paper.py"))


@pytest.mark.parametrize(
    "name", ["docs/paper.md", "docs/politicians.md", "results/README.md", "results/cells.md"]
)
def test_it_is_up_to_date(name: str, made: dict[str, Any]) -> None:
    write: Callable[[], str] = made["PAGES"][name]
    assert (ROOT / name).read_text(encoding="utf-8") == write(), "python docs/pictures/paper.py"


def test_every_figure_of_the_paper_has_its_place(made: dict[str, Any]) -> None:
    page, cells = made["page"](), made["cells"]()
    figures = published()
    for task, datasets in figures["pearson"].items():
        for dataset, models in datasets.items():
            for model, methods in models.items():
                (row,) = (
                    line
                    for line in cells.splitlines()
                    if f"| {task} | {dataset} | {model} |" in line
                )
                assert all(f"{value:.3f} →" in row for value in methods.values())
    for values in figures["brute_seconds_gpu"]["link"]["pubmed"].values():
        assert f"{values:,.0f} s" in page
    verdicts = [line for line in page.splitlines() if line.startswith("| ") and "**" in line]
    words = ("reproduced", "close", "differs", "not possible here")
    assert all(any(f"**{word}**" in line for word in words) for line in verdicts)


def test_verdicts_follow_their_bounds(made: dict[str, Any]) -> None:
    verdict = made["verdict"]
    assert [verdict(0.9, paper) for paper in (0.886, 0.914, 0.94, 0.96, 0.8)] == [
        "reproduced",
        "reproduced",
        "close",
        "differs",
        "differs",
    ]
    assert verdict(46.2, 45.1, made["PERCENT"]) == "close"


def test_every_result_is_listed_with_its_command(made: dict[str, Any]) -> None:
    listed = made["index"]()
    for path in (ROOT / "results").rglob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        about = document.get("about", document)
        assert f"`{about['command']}`" in listed
        if path.parent.name == "paper":
            assert f"| {about['commit']} | {about['seconds']:,.0f} |" in listed
