"""Finished numbers are as they were written, or computed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from nora.experiments.cache import read_numbers, write_numbers

ROWS = [{"metric": "pearson", "value": 0.91, "low": float("nan")}]


def test_cached_numbers_come_back(tmp_path: Path) -> None:
    assert read_numbers(tmp_path / "rows.json") is None
    write_numbers(ROWS, tmp_path / "rows.json")
    assert str(read_numbers(tmp_path / "rows.json")) == str(ROWS)


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '[{"value": 0.91}]', "changed"])
def test_what_is_damaged_is_computed_again(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    write_numbers(ROWS, path)
    path.write_text(path.read_text().replace("0.91", "0.97") if text == "changed" else text)
    with pytest.warns(UserWarning, match=r"rows\.json (is not|was changed).*computed"):
        assert read_numbers(path) is None
