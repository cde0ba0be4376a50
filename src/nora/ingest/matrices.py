"""Matrix Market files (`.mtx`): edges as an adjacency matrix, features as nodes by features.

The rows have no names in such a file: nodes are called by their row's number, 1, 2, 3 …, as the file counts.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa

from nora.ingest.opening import content_of
from nora.ingest.table import Table, Wanted, arrow_table
from nora.limits import check_fits


def read(path: Path, wanted: Wanted) -> dict[str, Table]:
    """The entries of a matrix: edges with their weight, unless it is a pattern; or a list of features."""
    row, column, values, shape, field = _entries(path)
    ids = pa.array(row + 1).cast(pa.string())
    if wanted.role == "edges":
        if shape[0] != shape[1]:
            raise ValueError(
                f"{path.name} is a matrix of {shape[0]:,} by {shape[1]:,}: edges are a square one, nodes "
                "by nodes; is it the features?"
            )
        columns = {"source": ids, "target": pa.array(column + 1).cast(pa.string())}
        valued = "weight"
    else:
        width = len(str(shape[1]))
        used, place = np.unique(column, return_inverse=True)  # it may claim any number of columns
        names = pa.array([f"f{at + 1:0{width}d}" for at in used.tolist()], pa.string())
        columns = {"id": ids, "feature": names.take(pa.array(place))}
        valued = "value"
    if field != "pattern":
        columns[valued] = pa.array(values)
    return {wanted.role: arrow_table(pa.table(columns), path.name, wanted.ignore)}


def _entries(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, int], str]:
    from scipy.io import mminfo, mmread

    raw = memoryview(content_of(path)).tobytes()
    try:
        rows, columns, entries, _, field, _ = mminfo(io.BytesIO(raw))
        check_fits(path.name, 40 * entries, rows)
        if field == "complex":
            raise ValueError("its numbers are complex")
        found = mmread(io.BytesIO(raw))
    except (ValueError, OverflowError, OSError) as error:
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
