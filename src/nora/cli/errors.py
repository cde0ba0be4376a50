"""How the command line fails: one line on standard error and a status, no traceback.

    2    the user can mend it: a wrong argument, a missing file, a full disk
    130  interrupted

Anything else is a bug of ours and keeps its traceback; `nora --debug` shows it for all of them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from nora.cli.flags import flags_of, in_flags

# Click's UsageError, whether typer brings its own copy of click or depends on it.
USAGE_ERROR: Any = typer.BadParameter.__base__


class Group(TyperGroup):
    """The command group whose commands report their errors in one line."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the options before the command's name."""
        with _reported():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command's own arguments and run it."""

        def reworded(message: str) -> str:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            return in_flags(message, flags_of(command)) if command else message

        debug = ctx.params.get("debug", False)
        with _reported(debug, reworded), _warnings_in_one_line(reworded):
            return super().invoke(ctx)


@contextmanager
def _reported(debug: bool = False, reworded: Callable[[str], str] = str) -> Iterator[None]:
    try:
        yield
    except USAGE_ERROR as error:
        command = error.ctx.command_path if error.ctx else "nora"
        _fail(f"{error.format_message()} See '{command} --help'", 2)
    except KeyboardInterrupt as interruption:
        typer.echo(f"interrupted: {str(interruption) or 'nothing was written'}", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise  # a reader like `head` has seen enough; typer ends quietly
    except Exception as error:
        if debug or not isinstance(error, _user_errors()):
            raise
        _fail(reworded(_message(error)), 2)


def _user_errors() -> tuple[type[Exception], ...]:
    """Errors that the public API raises for bad input."""
    # Looked up rather than imported: the module imports torch, and cannot have raised otherwise.
    datasets = sys.modules.get("nora.datasets")
    unavailable = (datasets.DatasetUnavailableError,) if datasets else ()
    return (ValueError, TypeError, OSError, *unavailable)


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return str(error) or type(error).__name__


def _fail(message: str, status: int) -> NoReturn:
    typer.secho("error: ", err=True, fg="red", bold=True, nl=False)
    typer.echo(" ".join(message.split()), err=True)
    raise typer.Exit(status) from None


@contextmanager
def _warnings_in_one_line(reworded: Callable[[str], str]) -> Iterator[None]:
    """Warnings without file names and source lines, which mean nothing to a user."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo("warning: " + " ".join(reworded(str(message)).split()), err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        # Torch says so whenever sparse features speed things up; nobody can act on it.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        yield
