"""Benchmarks are run by hand; that they can be run at all is seen here."""

from __future__ import annotations

import importlib
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
