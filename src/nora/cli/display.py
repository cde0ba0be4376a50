"""What commands print: tables for people, one JSON document for programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nora.strict_json import json_text
from nora.wording import cell

if TYPE_CHECKING:
    import pandas as pd

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of tables, for programs.")
]


def help_text(command: Callable[..., None]) -> str:
    """A command's docstring as `--help` shows it.

    Paragraphs are unwrapped, to be wrapped again to the terminal's width; those that start with
    backspace, click's mark for text to leave alone, keep their lines.
    """
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        "\b" + paragraph.lstrip("\b\n")
        if paragraph.startswith("\b")
        else paragraph.replace("\n", " ")
        for paragraph in paragraphs
    )


def print_json(document: Any) -> None:
    """Print `document` as strict JSON."""
    typer.echo(json_text(document))


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame for `print_json`."""
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False)]


def print_table(frame: pd.DataFrame, title: str = "") -> None:
    """Print a frame; numbers to the right, and every name in full."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if title:
        say(title)  # not the table's own title, which would wrap at the table's width
    table = Table(box=box.SIMPLE_HEAD)
    for column, kind in frame.dtypes.items():
        numeric = kind.kind in "iuf"
        table.add_column(str(column), justify="right" if numeric else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(Text(cell(value)) for value in row))
    _console().print(table)


def print_entries(entries: Sequence[Any]) -> None:
    """Print registry entries, one line each: name, summary."""
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        typer.echo(f"{entry.name:<{width}}  {entry.summary}")


def say(text: str) -> None:
    """Print text for people; a long line is left to the terminal, and whole when piped."""
    _console().print(text, markup=False, soft_wrap=True)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)
