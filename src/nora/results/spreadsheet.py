"""CSV files that no spreadsheet runs.

A cell that begins with `=`, `+`, `-`, `@` or a control character is a formula to a spreadsheet; names of
nodes and classes come from files of unknown origin. Such a text gets an apostrophe in front, which
spreadsheets take for "this is text". A text that already has apostrophes before such a character gets one
more, so that every text comes back as it was.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

# Some spreadsheets treat the wide forms of the four signs like the signs.
_FORMULA = re.compile(r"'*[=+\-@\x00-\x1f\x7f\uff1d\uff0b\uff0d\uff20]")


def escaped(text: Any) -> Any:
    """A text as a cell; other values are left alone.

    >>> [escaped(text) for text in ("=1+1", "Ada", "'=x", "'Ada'", -3)]
    ["'=1+1", 'Ada', "''=x", "'Ada'", -3]
    """
    return f"'{text}" if isinstance(text, str) and _FORMULA.match(text) else text


def unescaped(cell: str) -> str:
    """The text that `escaped` made a cell of.

    >>> [unescaped(cell) for cell in ("'=1+1", "Ada", "''=x", "'Ada'")]
    ['=1+1', 'Ada', "'=x", "'Ada'"]
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def write_csv(frame: pd.DataFrame, path: Path | TextIO) -> None:
    """Write a frame as CSV, with its texts and the names of its columns as cells."""
    safe = frame.rename(columns=escaped)
    returns = False
    for column, kind in safe.dtypes.items():
        if kind.kind not in "biufM":
            cells = [escaped(cell) for cell in safe[column].to_numpy(dtype=object)]
            safe[column] = pd.Series(cells, index=safe.index, dtype=object)
            # By itself, Python's writer leaves a carriage return bare, where readers end the line.
            returns |= any(isinstance(cell, str) and "\r" in cell for cell in cells)
    if returns:
        safe.to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC)
    else:
        safe.to_csv(path, index=False)
