"""Processes of their own that need not load torch and PyG first, which takes five seconds.

They are forked from one that has imported these, and nothing else; what the tests have loaded and changed is
not in them.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "torch_geometric"])


def started(
    code: str | Path, *arguments: Any, cwd: Path | None = None, out: Path | None = None
) -> ForkServerProcess:
    """A process that runs this code, or this script, as the interpreter would.

    Args:
        code: What it runs.
        arguments: The rest of its `sys.argv`.
        cwd: The folder it runs in: that of the tests, if not given.
        out: A folder for what it prints: in the files `out` and `err`.
    """
    words = ["-c" if isinstance(code, str) else str(code), *map(str, arguments)]
    given = (code, words, cwd or Path.cwd(), dict(os.environ), out)
    process = CONTEXT.Process(target=_run, args=given)
    process.start()
    return process


def elsewhere(
    code: str | Path, *arguments: Any, cwd: Path | None = None, timeout: float = 300
) -> CompletedProcess[str]:
    """What such a process prints, and its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        process = started(code, *arguments, cwd=cwd, out=Path(folder))
        process.join(timeout)
        process.kill()
        process.join()
        texts = [Path(folder, name).read_text(encoding="utf-8") for name in ("out", "err")]
    assert process.exitcode is not None
    return CompletedProcess(code, process.exitcode, *texts)


def printed(code: str | Path, *arguments: Any, cwd: Path | None = None) -> str:
    """What such a process prints; it must end well."""
    done = elsewhere(code, *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(
    code: str | Path, words: list[str], cwd: Path, environment: dict[str, str], out: Path | None
) -> None:
    import torch  # loaded already

    torch.set_num_threads(1)
    os.chdir(cwd)
    os.environ.update(environment)
    for stream, name in ((1, "out"), (2, "err")) if out is not None else ():
        os.dup2(os.open(out / name, os.O_CREAT | os.O_WRONLY), stream)
    sys.argv = words
    try:
        if isinstance(code, str):
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_path(str(code), run_name="__main__")
    except Exception:  # printed as the interpreter does, not as multiprocessing does
        sys.excepthook(*sys.exc_info())
        raise SystemExit(1) from None
