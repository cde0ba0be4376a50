"""Cells as numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from nora.ingest.table import Table

# What other programs write into a numeric cell that is not known.
UNKNOWN = ("", "na", "n/a", "nan", "null", "none", "?")


def numbers(table: Table, at: int) -> np.ndarray:
    """A column as floats `[rows]`; NaN where a cell is no number.

    >>> import numpy as np
    >>> table = Table("t.csv", ("w",), (np.array(["1", "2,5", "x"], dtype=object),), str, True)
    >>> numbers(table, 0).tolist()
    [1.0, 2.5, nan]
    """
    typed = table.numbers(at)
    if typed is not None:
        return typed.floats()
    words = table.words(at)
    try:
        found = pc.cast(words.texts, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # some are no numbers, or written otherwise
        found = _looked_at(words.distinct, table.decimal_comma)
    return np.asarray(found[words.codes], dtype=float)


def _looked_at(texts: np.ndarray, decimal_comma: bool) -> np.ndarray:
    """Texts as floats, one by one; NaN where one is no number."""
    cells = pd.Series(texts, dtype=object)
    values = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=float, copy=True)
    if decimal_comma and bool(np.isnan(values).any()):
        pointed = cells.str.replace(r"^([+-]?\d+),(\d+)$", r"\1.\2", regex=True)
        values = pd.to_numeric(pointed, errors="coerce").to_numpy(dtype=float, copy=True)
    return values


def unknown(cells: np.ndarray) -> np.ndarray:
    """Mask `[rows]` of the cells that stand for a number that is not known.

    >>> unknown(np.array(["", "NA", "0"], dtype=object)).tolist()
    [True, True, False]
    """
    return pd.Series(cells, dtype=object).str.lower().isin(UNKNOWN).to_numpy()
