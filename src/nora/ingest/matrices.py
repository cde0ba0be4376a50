"""Matrix Market files (`.mtx`): edges as an adjacency matrix, features as nodes by features.

The rows have no names in such a file: nodes are called by their row's number, 1, 2, 3 …, as the file counts.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd

from nora.ingest.formats import kind_of
from nora.ingest.opening import content_of
from nora.ingest.table import FILE
from nora.limits import check_fits


def edge_frame(path: Path) -> pd.DataFrame:
    """The entries of an adjacency matrix as `source`, `target` and, unless it is a pattern, `weight`."""
    row, column, value, shape, field = _entries(path)
    if shape[0] != shape[1]:
        raise ValueError(
            f"{path.name} is a matrix of {shape[0]:,} by {shape[1]:,}: edges are a square one, nodes by "
            "nodes; is it the features?"
        )
    frame = _named(path, {"source": (row + 1).astype(str), "target": (column + 1).astype(str)})
    if field != "pattern":
        frame["weight"] = value
    return frame


def feature_frame(path: Path) -> pd.DataFrame:
    """The entries of a matrix of nodes by features as a list: `id`, `feature`, `value`."""
    row, column, value, shape, field = _entries(path)
    width = len(str(shape[1]))
    used, place = np.unique(column, return_inverse=True)  # a matrix may claim any number of columns
    named = np.array([f"f{at + 1:0{width}d}" for at in used.tolist()], dtype=object)
    frame = _named(path, {"id": (row + 1).astype(str), "feature": named[place]})
    if field != "pattern":
        frame["value"] = value
    return frame


def _named(path: Path, columns: dict[str, np.ndarray]) -> pd.DataFrame:
    """A frame that messages call by the file it is from."""
    frame = pd.DataFrame(columns)
    frame.attrs[FILE] = path.name
    return frame


def is_matrix(path: Path) -> bool:
    """Whether a file is a Matrix Market file, by its name."""
    return kind_of(path) == ".mtx"


def _entries(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, int], str]:
    from scipy.io import mminfo, mmread

    raw = memoryview(content_of(path)).tobytes()
    try:
        rows, columns, entries, _, field, _ = mminfo(io.BytesIO(raw))
        check_fits(path.name, 40 * entries, rows)
        if field == "complex":
            raise ValueError("its numbers are complex")
        found = mmread(io.BytesIO(raw))
    except (ValueError, OverflowError, OSError, gzip.BadGzipFile) as error:
        if "would take" in str(error):
            raise
        raise ValueError(f"{path.name} is not a readable Matrix Market file: {error}") from None
    if isinstance(found, np.ndarray):
        row, column = np.nonzero(found)
        values = found[row, column]
    else:
        stays = found.data != 0
        row, column, values = found.row[stays], found.col[stays], found.data[stays]
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise ValueError(
            f"{path.name}: the entry in row {row[at] + 1}, column {column[at] + 1} is not finite"
        )
    return row, column, values, (rows, columns), field
