"""The output of commands: tables for people, one JSON document for programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nora.strict_json import json_text
from nora.wording import cell, fixed

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
    if title:
        print_text(title)  # not the table's own title, which would wrap at the table's width
    numeric = {str(column) for column, kind in frame.dtypes.items() if kind.kind in "iuf"}
    _print_texts(frame.rename(columns=str).map(cell), numeric)


def print_wide_table(frame: pd.DataFrame, title: str, keys: Sequence[str]) -> None:
    """Print a frame that may be wider than the terminal: columns that do not fit go below.

    Args:
        frame: Texts, or numbers that are shown with three digits after the point.
        title: Its heading.
        keys: Columns that identify a row, and are repeated.
    """
    print_text(title)
    numeric = {str(column) for column, kind in frame.dtypes.items() if kind.kind in "iuf"}
    texts = frame.rename(columns=str).map(fixed)
    widths = {
        name: max(len(name), *(len(text) for text in texts[name]), 1) for name in texts.columns
    }
    for columns in column_blocks(widths, keys, _console().width):
        _print_texts(texts[columns], numeric)


def column_blocks(widths: Mapping[str, int], keys: Sequence[str], room: int) -> list[list[str]]:
    """Columns in blocks that fit a width, each beginning with the key columns.

    >>> column_blocks({"method": 6, "pearson": 7, "spearman": 8}, ["method"], 26)
    [['method', 'pearson'], ['method', 'spearman']]
    """
    repeated = [name for name in widths if name in keys]
    space, edges = 3, 1  # between columns, and around the table
    taken = edges + sum(widths[name] + space for name in repeated)
    blocks, used = [list(repeated)], taken
    for name in widths:
        if name in repeated:
            continue
        if used + widths[name] + space > room and len(blocks[-1]) > len(repeated):
            blocks.append(list(repeated))
            used = taken
        blocks[-1].append(name)
        used += widths[name] + space
    return blocks


def _print_texts(texts: pd.DataFrame, numeric: set[str]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name in texts.columns:
        table.add_column(name, justify="right" if name in numeric else "left", overflow="fold")
    for row in texts.itertuples(index=False):
        table.add_row(*(Text(text) for text in row))
    _console().print(table)


def print_entries(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print members of a registry, one line each: name, summary."""
    width = max(len(entry["name"]) for entry in entries)
    for entry in entries:
        typer.echo(f"{entry['name']:<{width}}  {entry['summary']}")


def print_text(text: str) -> None:
    """Print text for people; a long line is left to the terminal, and whole when piped."""
    _console().print(text, markup=False, soft_wrap=True)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)
