"""Benchmarks are run by hand; that they can be run at all is seen here."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_every_benchmark_can_be_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    assert Path(module.__file__ or "").parent == BENCHMARKS
    monkeypatch.delitem(sys.modules, name)


def test_what_is_told_of_files_was_measured_by_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    files = importlib.import_module("files")
    report = json.loads((BENCHMARKS / "results" / "files.json").read_text(encoding="utf-8"))
    assert set(report) <= {*files.PARTS, "command", "cores", "size"}
    for case in report["large"].values():
        assert "stopped" in case or set(case["seconds"]) == set(
            case["computing_seconds"] or case["seconds"]
        )
    monkeypatch.delitem(sys.modules, "files")
