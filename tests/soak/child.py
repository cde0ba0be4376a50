"""One command in a process of its own, which may be killed, denied disk or given a wrong clock."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nora.cli import app

HANGS_AFTER = 300.0
CRASHED = 70


@dataclass(frozen=True)
class Child:
    """A process that was started, and the end of the pipe it speaks into."""

    pid: int
    pipe: int


@dataclass(frozen=True)
class End:
    """How a command ended: `status` is None when it was killed on purpose, -1 when it hung."""

    status: int | None
    seconds: float
    reply: str


def start(args: list[Any], most_bytes: int | None = None, clock: float | None = None) -> Child:
    """A command, by what is typed after `nora`; see `forked`."""
    return forked(lambda: app([str(arg) for arg in args]), most_bytes, clock)


def forked(
    work: Callable[[], Any], most_bytes: int | None = None, clock: float | None = None
) -> Child:
    """Fork: the child has everything imported already, so that a kill can hit the work itself.

    Args:
        work: What the child does.
        most_bytes: No file may grow beyond it, as on a full disk.
        clock: So many seconds the clock is off, every other time it is asked.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    status = CRASHED
    try:
        # A pipe, since a file would be cut off where the disk is full.
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        if most_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        if clock is not None:
            _unsettle(clock)
        try:
            work()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Whatever happens: a child that went on would be a second soak, and clear up the first one's folder.
        os._exit(status)


def _unsettle(clock: float) -> None:
    """A clock that jumps there and back."""
    real, asked = time.time, iter(range(sys.maxsize))
    time.time = lambda: real() + clock * (next(asked) % 2)  # type: ignore[assignment]


def ended(child: Child, kill_after: float | None = None) -> End:
    """Wait for a child, or kill it after so many seconds."""
    begun, reply = time.monotonic(), b""
    os.set_blocking(child.pipe, False)
    while True:
        done, status = os.waitpid(child.pid, os.WNOHANG)
        reply += _read(child.pipe)
        passed = time.monotonic() - begun
        if done:
            code: int | None = os.waitstatus_to_exitcode(status)
            break
        if passed > (HANGS_AFTER if kill_after is None else kill_after):
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            code = -1 if kill_after is None else None
            break
        time.sleep(0.01)
    os.close(child.pipe)
    return End(code, passed, reply.decode(errors="replace"))


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 20)
    except BlockingIOError:
        return b""
