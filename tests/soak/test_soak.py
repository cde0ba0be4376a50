"""A few of the mishaps that `make soak` draws for an hour."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from elsewhere import elsewhere


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.parametrize(
    "how",
    [
        ["soak", "--kills", "3"],
        ["soak", "--minutes", "0.05"],
        ["soak.shared", "pool", "--kills", "2"],
    ],
    ids=["kills", "mishaps", "shared"],
)
def test_nothing_is_lost_or_half_written(how: list[str], tmp_path: Path) -> None:
    module, *asked = how
    code = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    done = elsewhere(code, *asked, "--seed", 1, "--out", tmp_path / "counts.json", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "counts.json").read_text())
    assert found["problems"] == []
    well = "a last start ends well" if "shared" in how[0] else "a second start ends well"
    assert found["counts"][well] == found["trials"] > 0
