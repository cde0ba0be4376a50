"""Files that become far more than fits are refused within seconds, with memory to spare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elsewhere import printed
from ingest import bombs

ALLOWED = 5 * 10**8  # what the child says by memory="500MB"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process answers to all of them, one after the other: its peak is that of the worst."""
    place = tmp_path_factory.mktemp("bombs")
    bombs.make(place)
    return json.loads(printed(Path(bombs.__file__), place))


def test_each_is_refused_within_ten_seconds(answers: dict[str, Any]) -> None:
    for name, (caught, seconds) in answers["answers"].items():
        assert seconds < 10, name
        if name == "wide.mtx":  # its one entry is read, whatever it claims
            assert caught == ""
        elif name in ("many rows", "many entries"):
            assert "are not those of a matrix" in caught
        elif name == "empty parts.csv.gz":
            assert caught == "empty parts.csv.gz is empty"
        else:
            assert "would take" in caught and "allows 500 MB" in caught, (name, caught)


def test_memory_stays_within_what_is_allowed(answers: dict[str, Any]) -> None:
    assert answers["peak"] < ALLOWED + 10**9
