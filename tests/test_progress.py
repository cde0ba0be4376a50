"""Progress bars: shown to people, and nothing else is to be seen of them."""

from __future__ import annotations

import os
import re
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


def stderr_of(code: str = CODE, **terminal: str) -> str:
    """What a process that has loaded nothing else says on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": os.pathsep.join(sys.path), **terminal},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr


def test_no_bar_is_shown_without_a_terminal():
    assert stderr_of() == ""


def test_a_terminal_shows_it_and_random_numbers_stay_as_they_were():
    assert "loss 0.5" in stderr_of(FORCE_COLOR="1", TERM="xterm", COLUMNS="120")


NARROW = """
import time
from nora.progress import progress_bar
fields = "loss {task.fields[loss]}  {task.fields[metric]}"
long = "influential edges, as many as there is time for"
for description, total, more in ((long, 200_000, ""), ("training", 2_000, fields)):
    with progress_bar(description, total, True, more) as advance:
        for _ in range(4):
            advance(0.1 * total, loss="0.532", metric="validation accuracy 0.876")
            time.sleep(0.11)
"""


def test_eighty_columns_show_figures_and_times_in_full():
    shown = stderr_of(NARROW, FORCE_COLOR="1", TERM="xterm", COLUMNS="80")
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown))
    for word, figures in (("influential", "80000/200000"), ("train", "800/2000")):
        last = [line for line in lines if line.startswith(word)][-1]
        assert len(last.rstrip()) <= 80
        assert figures in last and re.search(r"/s .*\d:\d\d:\d\d +\d:\d\d:\d\d *$", last)
    assert "loss 0.532  validation accuracy 0.876" in last
