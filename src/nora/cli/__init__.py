"""The command line: `nora COMMAND`, for people by default, for programs with `--json`.

One file per kind of command; each calls the public API and nothing below it. Nothing here imports
torch before a command runs, so that `nora --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Annotated

import typer

from nora import __version__
from nora.cli.catalogue import datasets, methods, models
from nora.cli.certified import top
from nora.cli.demonstration import demo
from nora.cli.display import help_text
from nora.cli.errors import CommandGroup
from nora.cli.example import example
from nora.cli.experiments import reproduce
from nora.cli.explore import explore
from nora.cli.flags import Command, with_flags
from nora.cli.flipping import flip
from nora.cli.fragility import fragile
from nora.cli.grouping import group
from nora.cli.inspection import inspect
from nora.cli.prepare import prepare
from nora.cli.ranking import merge, rank
from nora.cli.relations import who
from nora.cli.running import run
from nora.cli.training import train
from nora.cli.tuning import tune
from nora.cli.what_if import what_if

app = typer.Typer(
    name="nora",
    cls=CommandGroup,
    invoke_without_command=True,
    rich_markup_mode="rich",
    # Tracebacks are for bugs; Python's own is complete and does not print local tensors.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nora {__version__}")
        raise typer.Exit


def _end_as_by_ctrl_c() -> None:
    """Let SIGTERM, as clusters send it before they end a job, keep finished work as Ctrl-C does."""
    command = os.getpid()

    def end(number: int, _: object) -> None:
        if os.getpid() == command:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)  # a process of a pool, which has nothing to keep
        os.kill(os.getpid(), number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)


def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="NORA_DEBUG", help="Show the traceback of every error."),
    ] = False,
) -> None:
    """Without this node, how would every other prediction change?

    [bold]nora demo[/] shows this on a small social network in a few seconds. For your own files, one
    command does everything ([bold]nora run --help[/] describes the files, [bold]nora example[/] writes
    sample files):

    \b
      nora run --edges edges.csv --features features.csv --labels labels.csv

    Step by step: train a model (or use your own, from Python), rank its nodes, and look at single
    removals:

    \b
      nora train --dataset cora --model gcn --out runs/cora-gcn
      nora rank runs/cora-gcn --top 20 --out scores.csv
      nora what-if runs/cora-gcn --remove 1358
    """
    _end_as_by_ctrl_c()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.callback(help=help_text(main))(main)
for command in (
    demo,
    run,
    example,
    explore,
    train,
    inspect,
    prepare,
    rank,
    top,
    fragile,
    what_if,
    who,
    flip,
    group,
    tune,
    merge,
    reproduce,
    methods,
    models,
    datasets,
):
    app.command(cls=Command, help=help_text(command))(with_flags(command))

__all__ = ["app"]
