"""Cores and memory that this process may use."""

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
    """Number of cores that this process may run on; `taskset`, Slurm or a cpuset may limit them.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    count = getattr(os, "process_cpu_count", os.cpu_count)  # Python 3.13
    return count() or 1


def available_memory() -> int | None:
    """Bytes that this process may still allocate, within the machine or its container; None if unknown.

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
    """Peak memory of this process in bytes; None if the system does not count it.

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
    """Memory of this process in bytes; 0 if unknown.

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
    """Pause the garbage collector while a large library is imported.

    The many new objects would make the collector search all objects, torch's included, which takes a fifth of
    a second and finds nothing. Afterwards, all objects are in the oldest generation, as after such a search.

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
    """Return freed memory to the system, if the allocator allows it.

    Otherwise freed pieces of a few megabytes stay with the process, and add to the memory of the next phase.
    A small process is left alone, because searching all objects takes a fifth of a second per phase.
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
