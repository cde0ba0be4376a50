"""A few of the mishaps that `make soak` draws for an hour."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


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
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", *how, "--seed", "1", "--out", str(tmp_path / "counts.json")],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "counts.json").read_text())
    assert found["problems"] == []
    well = "a last start ends well" if "shared" in how[0] else "a second start ends well"
    assert found["counts"][well] == found["trials"] > 0
