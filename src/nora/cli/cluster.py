"""A Ray cluster that a command shares its work with."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

# Not an error of the user's, nor a bug: something is left over.
INCOMPLETE = 3


@contextmanager
def joined(address: str | None, engines: Any, checkpoint: Path | None) -> Iterator[Any]:
    """The cluster at an address, for as long as a command takes; None without one.

    What could not be computed ends the command with status 3, and with the command that goes on.
    """
    if address is None:
        yield None
        return
    import nora
    from nora.questions.executors import IncompleteError

    with nora.RayCluster(address, engines=engines) as cluster:
        try:
            yield cluster
        except IncompleteError as error:
            typer.secho("incomplete: ", err=True, fg="red", bold=True, nl=False)
            typer.echo(str(error), err=True)
            if checkpoint is not None:
                again = shlex.join(["nora", *sys.argv[1:]])
                typer.echo(f"To retry only these: {again}", err=True)
            raise typer.Exit(INCOMPLETE) from None
