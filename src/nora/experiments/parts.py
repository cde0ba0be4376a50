"""Parts of a report: tables with rows of single cells, which cells of other reports can join.

A recipe that names its parts makes its report from them and nothing else. Numbers have as many digits there
as its JSON file keeps, so that it makes no difference whether a cell's rows were computed here or read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from nora.experiments.cells import Cell
    from nora.experiments.lab import Lab

WHERE = ("dataset", "model", "task")

# Tables by the names of their parts.
Frames = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Part:
    """One of the tables that a report is made from.

    Attributes:
        heading: Its name in the JSON file.
        make: Its rows for the cells of a lab.
        columns: Its columns, with the type of what they hold; unknown numbers are None or NaN.
        each: Columns, with all values of which every cell must have rows.
        keys: Further columns that distinguish rows.
        read: Its rows from a report's file and what that holds; None takes the table of this name.
        rounded: Its file has six digits, not all.
    """

    heading: str
    make: Callable[[Lab], pd.DataFrame]
    columns: Mapping[str, type]
    each: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    read: Callable[[Path, Mapping[str, Any]], pd.DataFrame] | None = None
    rounded: bool = True

    def made(self, lab: Lab) -> pd.DataFrame:
        """Its rows for the cells of a lab, as they would be read from a file."""
        table = self.make(lab)[list(self.columns)]
        return frame(rows_of_table(table)) if self.rounded else table

    def loaded(self, path: Path, document: Mapping[str, Any]) -> pd.DataFrame:
        """Its rows from a report's file; raises where they are not what they should be.

        Args:
            path: The file.
            document: What it holds.
        """
        found = table_of(document, self.heading) if self.read is None else self.read(path, document)
        for name, kind in self.columns.items():
            if name not in found or not _holds(found[name], kind):
                raise ValueError(
                    f"column {name!r} of its table {self.heading!r} is missing or damaged"
                )
        if "method" in self.each:
            found = found[found["method"].isin(list(self.each["method"]))]
        self._check_rows(found)
        return found[list(self.columns)]

    def _check_rows(self, found: pd.DataFrame) -> None:
        """Raise unless every cell has a row for everything it must have one for, and none twice."""
        where = [name for name in ("cell", *WHERE) if name in self.columns]
        if found.duplicated(subset=[*where, *self.each, *self.keys]).any():
            raise ValueError(f"rows of its table {self.heading!r} occur twice")
        wanted = pd.MultiIndex.from_product(
            [list(values) for values in self.each.values()] or [[0]]
        )
        for cell, rows in found.groupby(where, sort=False):
            keys = list(self.each)
            there = pd.MultiIndex.from_frame(rows[keys]) if keys else wanted
            if len(missing := wanted.difference(there.unique(), sort=False)):
                name = "-".join(str(one) for one in cell)
                what = ", ".join(str(one) for one in missing[0])
                raise ValueError(f"its table {self.heading!r} has no row of {what} in {name}")


def frames_of(lab: Lab, parts: Sequence[Part]) -> dict[str, pd.DataFrame]:
    """All parts for the cells of a lab."""
    return {part.heading: part.made(lab) for part in parts}


def cell_names(table: pd.DataFrame) -> pd.Series:
    """The cell of every row, by name.

    >>> row = {"dataset": "cora", "model": "gcn", "task": "node"}
    >>> cell_names(pd.DataFrame([row])).tolist()
    ['cora-gcn-node']
    """
    if "cell" in table:
        return table["cell"].astype(str)
    dataset, model, task = (table[name].astype(str) for name in WHERE)
    return dataset + "-" + model + "-" + task


def rows_of_cells(frames: Frames, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    """The rows that some cells have in all parts."""
    names = [str(cell) for cell in cells]
    return {key: table[cell_names(table).isin(names)] for key, table in frames.items()}


def joined_rows(
    several: Sequence[Frames], parts: Sequence[Part], cells: Sequence[Cell]
) -> dict[str, pd.DataFrame]:
    """All rows of several frames, in the order that one lab with all cells would give them."""
    place = {str(cell): number for number, cell in enumerate(cells)}
    found = {}
    for part in parts:
        tables = [table for frames in several if len(table := frames[part.heading])]
        whole = pd.concat(tables, ignore_index=True)
        order = [cell_names(whole).map(place).to_numpy()]
        if "method" in part.each:
            rank = {name: number for number, name in enumerate(part.each["method"])}
            order.insert(0, whole["method"].map(rank).to_numpy())
        found[part.heading] = whole.iloc[np.lexsort(order)].reset_index(drop=True)
    return found


def table_of(document: Mapping[str, Any], heading: str) -> pd.DataFrame:
    """A table of a report's JSON file."""
    if heading not in document["tables"]:
        raise ValueError(f"it has no table {heading!r}; was it written by an earlier version?")
    return frame(document["tables"][heading])


def rows_of_table(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as a JSON file keeps them: six digits, None for what is unknown.

    >>> rows_of_table(pd.DataFrame({"method": ["nora"], "pearson": [0.12345678], "error": [float("nan")]}))
    [{'method': 'nora', 'pearson': 0.123457, 'error': None}]
    """
    rows = json.loads(table.to_json(orient="records", double_precision=6))
    return rows


def frame(rows: Any) -> pd.DataFrame:
    """A table from its rows; a column in which nothing is known is one of numbers."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("one of its tables is damaged")
    table = pd.DataFrame(rows)
    unknown = [name for name in table if table[name].isna().all()]
    return table.astype(dict.fromkeys(unknown, float))


def _holds(column: pd.Series, kind: type) -> bool:
    if kind is str:
        return bool(column.map(lambda value: isinstance(value, str)).all())
    boolean = pd.api.types.is_bool_dtype(column)
    return boolean if kind is bool else pd.api.types.is_numeric_dtype(column) and not boolean
