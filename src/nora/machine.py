"""What this process may use of the machine it runs on."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Number of cores this process may run on; under `taskset`, Slurm or a cpuset not all there are.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    count = getattr(os, "process_cpu_count", os.cpu_count)  # Python 3.13
    return count() or 1
