"""Finished numbers are as they were written, or computed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from nora.experiments.kept import keep, kept

ROWS = [{"metric": "pearson", "value": 0.91, "low": float("nan")}]


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    assert kept(tmp_path / "rows.json") is None
    keep(tmp_path / "rows.json", ROWS)
    assert str(kept(tmp_path / "rows.json")) == str(ROWS)


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '[{"value": 0.91}]', "changed"])
def test_what_is_damaged_is_computed_again(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    keep(path, ROWS)
    path.write_text(path.read_text().replace("0.91", "0.97") if text == "changed" else text)
    with pytest.warns(UserWarning, match=r"rows\.json is not as it was written: it is computed"):
        assert kept(path) is None
