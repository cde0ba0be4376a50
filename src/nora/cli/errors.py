"""How errors end a command.

    2    the user can fix it, and one line on standard error explains how: a wrong argument, a missing
         file, a full disk, too little memory, an extra that is not installed
    3    some of the work could not be done, the rest is: `nora.cli.cluster`
    1    a bug of ours: Python's traceback, and a line that asks to report it
    130  interrupted

`nora --debug` shows the traceback in any case.

What can the user fix? Errors of files and the network, from any source. A `ValueError` or
`TypeError` is where one of our own checks raised it; from anywhere else (`len(None)`, a shape that NumPy
refuses) it is a bug. So it is asked whether the traceback ends at a `raise` statement of this package.
Exception classes of our own instead would have to be thought of at each of some hundred checks, and a
check that forgot would call a user's mistake a bug; a `raise` cannot be forgotten.
"""

from __future__ import annotations

import dis
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from nora import __version__

# Click's UsageError, whether typer brings its own copy of click or depends on it.
USAGE_ERROR: Any = typer.BadParameter.__base__
# Packages that are there on demand, with the extra that brings them.
EXTRAS = {
    "ogb": "ogb",
    "optuna": "tune",
    "starlette": "explore",
    "uvicorn": "explore",
    "openpyxl": "excel",
    "anywidget": "notebook",
    "ray": "ray",
}
RAISE = dis.opmap["RAISE_VARARGS"]


class CommandGroup(TyperGroup):
    """The command group whose commands fail as described above."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the options before the command's name."""
        with _reported():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command's own arguments and run it."""
        with _reported(ctx.params.get("debug", False)), _warnings_in_one_line():
            return super().invoke(ctx)


@contextmanager
def _reported(debug: bool = False) -> Iterator[None]:
    try:
        yield
    except USAGE_ERROR as error:
        command = error.ctx.command_path if error.ctx else "nora"
        _fail(f"{error.format_message()} See '{command} --help'", 2)
    except KeyboardInterrupt as interruption:
        typer.echo(f"interrupted: {str(interruption) or 'nothing was written'}", err=True)
        raise typer.Exit(130) from None
    except (typer.Exit, typer.Abort, BrokenPipeError):
        # Not errors: typer ends quietly, also when a reader like `head` has seen enough.
        raise
    except Exception as error:
        advice = _advice(error)
        if advice is None:
            error.add_note(_request())  # Python shows it below the traceback
        if advice is None or debug:
            raise
        _fail(advice, 2)


def _advice(error: Exception) -> str | None:
    """The message for the user; None for a bug."""
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}" if error.strerror else str(error) or type(error).__name__
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
    ):
        own = str(error) if isinstance(error, MemoryError) else ""
        return own or "not enough memory: free some, or use a smaller graph or model"
    # Looked up rather than imported: the module imports torch, and cannot have raised otherwise.
    datasets = sys.modules.get("nora.datasets")
    unavailable = (datasets.DatasetUnavailableError,) if datasets else ()
    checks = (ValueError, TypeError, ImportError, *unavailable)
    if isinstance(error, checks) and str(error) and _is_raised_by_us(error):
        return str(error)
    package = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if package in EXTRAS:
        remedy = f"pip install 'nora-influence[{EXTRAS[package]}]'"
        return f"this needs the package {package}, which is not installed: {remedy}"
    return None


def _is_raised_by_us(error: Exception) -> bool:
    """Whether the traceback ends at a `raise` statement of this package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    # The instruction rather than the line of source: that need not be installed, and may hold more.
    code, module = trace.tb_frame.f_code.co_code, trace.tb_frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == "nora" and code[trace.tb_lasti] == RAISE


def _request() -> str:
    versions = [f"nora {__version__}", f"Python {platform.python_version()}"]
    loaded = (sys.modules.get(name) for name in ("torch", "torch_geometric"))
    versions += [f"{module.__name__} {module.__version__}" for module in loaded if module]
    return (
        "This looks like a bug in NORA. Please report it, with the command and all of the above "
        f"({', '.join(versions)}, {platform.system()})."
    )


def _fail(message: str, status: int) -> NoReturn:
    typer.secho("error: ", err=True, fg="red", bold=True, nl=False)
    typer.echo(" ".join(message.split()), err=True)
    raise typer.Exit(status) from None


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Warnings without file names and source lines, which mean nothing to a user."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo("warning: " + " ".join(str(message).split()), err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        # Torch warns whenever sparse features speed things up; the user can do nothing about it.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        # For programmers of libraries, e.g. from newer torch whenever PyG is imported.
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)
        yield
