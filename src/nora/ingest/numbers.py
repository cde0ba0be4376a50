"""Cells as numbers.

Where columns are separated by semicolons, a comma may be the decimal mark, and a point the thousands
separator. Whether `1.967` is about two or about two thousand is decided by the column's other cells; where
they do not decide it, it is rejected.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from nora.ingest.table import Column, Table

# What other programs write into a numeric cell that is not known, in upper or lower case.
UNKNOWN = ("", "na", "n/a", "nan", "null", "none", "?")
# 1,5 and 351,75; 1.967 and 1.234.567; 1.967,14.
COMMA = r"[+-]?\d+,\d+"
THOUSANDS = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+"
BOTH = rf"{THOUSANDS},\d+"
# The same in the ways of other countries: 1,967.14, 1'967, 1 967 (the blank may be one that does not break).
WRITTEN = r"[+-]?(?:\d{1,3}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?|\d+,\d+)"

AS_PROGRAMS_DO = "Write numbers with a decimal point and without thousands separators: 1967.14"


def numbers(table: Table, at: int) -> np.ndarray:
    """A column as floats `[rows]`; NaN where a cell is not a number.

    >>> column = Column(pa.array(["1", "2,5", "1.967,14", "x"]))
    >>> numbers(Table("t.csv", ("w",), (column,), str, True), 0).tolist()
    [1.0, 2.5, 1967.14, nan]
    """
    column = table.cells[at]
    if column.numbers is not None:
        return column.numbers.astype(np.float64)
    if not table.decimal_comma:
        try:
            found = pc.cast(column.texts, pa.float64()).to_numpy(zero_copy_only=False)
            return np.asarray(found[column.codes], dtype=float)
        except pa.ArrowInvalid:  # some are not numbers
            pass
    texts = pd.Series(column.distinct, dtype=object)
    if table.decimal_comma:
        texts = _pointed(table, at, texts)
    values = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=float)
    return np.asarray(values[column.codes])


def _pointed(table: Table, at: int, texts: pd.Series) -> pd.Series:
    """A column's different texts with a decimal point for a comma, and without thousands separators."""
    thousands, both = texts.str.fullmatch(THOUSANDS), texts.str.fullmatch(BOTH)
    if both.any():
        texts = texts.mask(thousands | both, texts.str.replace(".", "", regex=False))
        # A point that does not separate thousands is then a typo, not a number.
        texts = texts.mask(texts.str.contains(".", regex=False), "")
    comma = texts.str.fullmatch(COMMA)
    if thousands.any() and not both.any():
        _check_points(table, at, texts, comma, thousands)
    return texts.mask(comma, texts.str.replace(",", ".", regex=False))


def _check_points(
    table: Table, at: int, texts: pd.Series, comma: pd.Series, thousands: pd.Series
) -> None:
    """Raise if a point may be a thousands separator or a decimal mark, and both readings give numbers."""
    whole = texts.str.fullmatch(r"[+-]?\d+")
    known = ~texts.str.lower().isin(UNKNOWN)
    beside = comma if comma.any() else whole
    if not beside.any() or not (comma | thousands | whole)[known].all():
        return
    text, other = texts[int(np.argmax(thousands))], texts[int(np.argmax(beside))]
    raise ValueError(
        f"{table.place(table.cells[at].first(text))}: {text!r} in the column {table.title(at)!r}, beside "
        f"{other!r}: is the point a thousands separator or a decimal point? {AS_PROGRAMS_DO}"
    )


def rewritten(cell: str) -> str:
    """A hint if a cell is a number in a notation for people, such as 1.967,14; else "".

    >>> rewritten("1.967,14"), rewritten("two")
    ('. Write numbers with a decimal point and without thousands separators: 1967.14', '')
    """
    return f". {AS_PROGRAMS_DO}" if re.fullmatch(WRITTEN, cell) else ""


def unknown(column: Column) -> np.ndarray:
    """Mask `[rows]` of the cells that mean an unknown number.

    >>> unknown(Column(pa.array(["", "NA", "0"]))).tolist()
    [True, True, False]
    """
    if column.numbers is not None:
        return np.isnan(column.numbers)
    found = pc.is_in(pc.utf8_lower(column.texts), pa.array(UNKNOWN))
    return np.asarray(found.to_numpy(zero_copy_only=False)[column.codes], dtype=bool)
