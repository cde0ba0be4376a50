"""One command in a process of its own, which may be killed, denied disk or given a wrong clock."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nora.cli import app

HANGS_AFTER = 300.0


@dataclass(frozen=True)
class End:
    """How a command ended: `status` is None when it was killed on purpose, -1 when it hung."""

    status: int | None
    seconds: float
    told: str


def start(args: list[Any], log: Path, most_bytes: int | None, clock: float | None) -> int:
    """Fork: the child has everything imported already, so that a kill can hit the work itself."""
    child = os.fork()
    if child:
        return child
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        if most_bytes is not None:  # every write beyond fails, as on a full disk
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        if clock is not None:
            real = time.time
            time.time = lambda: real() + clock  # type: ignore[assignment]
        app([str(arg) for arg in args])
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)
    os._exit(0)


def ended(child: int, log: Path, kill_after: float | None = None) -> End:
    """Wait for a child, or kill it after so many seconds."""
    begun = time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        passed = time.monotonic() - begun
        if done:
            code = os.waitstatus_to_exitcode(status)
            return End(code, passed, log.read_text(encoding="utf-8", errors="replace"))
        if passed > (HANGS_AFTER if kill_after is None else kill_after):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return End(-1 if kill_after is None else None, passed, "")
        time.sleep(0.01)
