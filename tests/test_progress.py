"""Progress bars: shown to people, and nothing else is to be seen of them."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import random, sys
from nora.progress import progress_bar
random.seed(0)
before = random.getstate()
for show in (False, True):
    with progress_bar("work", 3, show, "loss {task.fields[loss]}") as advance:
        advance(1, loss=0.5)
assert random.getstate() == before
"""


def said(**terminal: str) -> str:
    """What a process that has loaded nothing else says on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"PYTHONPATH": os.pathsep.join(sys.path), **terminal},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr


def test_nobody_sees_a_bar_where_nobody_looks():
    assert said() == ""


def test_a_terminal_shows_it_and_random_numbers_stay_as_they_were():
    assert "loss 0.5" in said(FORCE_COLOR="1", TERM="xterm", COLUMNS="120")
