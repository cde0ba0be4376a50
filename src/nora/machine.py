"""What this process may use of the machine it runs on."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Bytes; a process that has done no more than load torch, PyG and pandas holds a third of it.
LITTLE = 1_500_000_000


def usable_cores() -> int:
    """Number of cores this process may run on; under `taskset`, Slurm or a cpuset not all there are.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    count = getattr(os, "process_cpu_count", os.cpu_count)  # Python 3.13
    return count() or 1


def available_memory() -> int | None:
    """Bytes that this process may still take: what is free, or what a container leaves; None if unknown.

    >>> (available_memory() or 1) > 0
    True
    """
    found = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(int(free.split()[1]) * 1024)
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        if limit.isdecimal():
            found.append(max(0, int(limit) - used))
    except (OSError, ValueError, StopIteration):  # not Linux, or no container
        pass
    return min(found) if found else None


def peak_memory() -> int | None:
    """The most bytes this process has held so far; None where the system does not count them.

    >>> (peak_memory() or 1) > 0
    True
    """
    try:
        # Since this program began: the other count has what the process was before, as a copy of its parent.
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if os.uname().sysname == "Darwin" else 1024 * peak


def held_memory() -> int:
    """The bytes this process holds now; 0 where that is unknown.

    >>> held_memory() >= 0
    True
    """
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for cycles of objects while a large library is loaded, nor right after it for its sake.

    So many new objects make the collector look through all there are, torch's included, to find that nothing
    can go: a fifth of a second. What is there in the end counts as old, as it would after the search.

    >>> with collector_paused():
    ...     gc.isenabled()
    False
    """
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            if gc.get_freeze_count() == 0:  # else other code keeps objects frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def release_memory() -> None:
    """Give back to the system what was freed and is still kept at hand for later, where that can be done.

    Pieces of a few megabytes, which layers and features are made of, otherwise stay with the process, and
    the next phase begins with what the last one has left. Where little is held nothing is done: to look
    through all objects takes a fifth of a second, which a small graph would wait for once per phase.
    """
    if 0 < held_memory() < LITTLE:
        return
    gc.collect()  # tensors that only a cycle of objects holds
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):  # another system, or another allocator
        return
