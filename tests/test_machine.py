"""What a process may use of its machine."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import pytest

from nora import machine
from nora.machine import collector_paused, release_memory, usable_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be assigned here")
def test_cores_that_were_taken_away_are_not_counted():
    code = (
        "import os; from nora.machine import usable_cores; "
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(usable_cores())"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "1"


def test_where_nothing_is_known_of_assigned_cores_all_of_them_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(os, "process_cpu_count", raising=False)
    assert usable_cores() == os.cpu_count()


class Circle:
    """An object that only it itself holds."""

    def __init__(self) -> None:
        self.itself = self


def test_memory_is_given_back_where_much_is_held_and_no_time_is_lost_where_little_is(monkeypatch):
    with collector_paused():  # or it might come by between two lines
        lost = weakref.ref(Circle())
        monkeypatch.setattr(machine, "LITTLE", 2**60)
        release_memory()
        assert lost() is not None
        monkeypatch.setattr(machine, "LITTLE", 1)
        release_memory()
        assert lost() is None


def test_a_paused_collector_is_as_it_was_afterwards_and_loses_nothing():
    with collector_paused():
        lost = weakref.ref(Circle())
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.collect()
    assert lost() is None
