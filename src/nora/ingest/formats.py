"""Which files can be read, by their names alone; light, so that a slip in a name is answered at once.

A format is an entry of `FORMATS` and the module it names, which has a function
`read(path, wanted) -> {role: Table}`: see `nora.ingest.table.Wanted`. Nothing else knows of formats.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nora.arguments import shown
from nora.files import check_regular

ROLES = ("edges", "features", "labels")
# Text is read compressed, too: edges.csv.gz.
PACKED = ".gz"
WORKBOOKS = (".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
PICKLES = (".pkl", ".pickle", ".gpickle")


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        module: The module of this package that reads it.
        roles: What such a file can be given as.
        packed: Whether it is read compressed, too.
    """

    module: str
    roles: tuple[str, ...] = ROLES
    packed: bool = False

    @property
    def read(self) -> Callable[[Path, Any], dict[str, Any]]:
        """The module's function of this name, imported on first use."""
        found: Callable[[Path, Any], dict[str, Any]]
        found = importlib.import_module(f"nora.ingest.{self.module}").read
        return found


FORMATS = {
    ".csv": Format("text", packed=True),
    ".tsv": Format("text", packed=True),
    ".txt": Format("text", packed=True),
    ".parquet": Format("parquet"),
    ".xlsx": Format("text"),
    ".graphml": Format("graphfile", ("edges",)),
    ".gexf": Format("graphfile", ("edges",)),
    ".mtx": Format("matrices", ("edges", "features"), packed=True),
}
FOLDER = Format("folders", ("edges",))


def kind_of(path: Path) -> str:
    """The suffix of a file's format, without `.gz`.

    >>> kind_of(Path("edges.CSV")), kind_of(Path("edges.csv.gz"))
    ('.csv', '.csv')
    """
    return Path(path.name.lower().removesuffix(PACKED)).suffix


def format_of(path: Path) -> Format:
    """The format of a file or folder that is `existing`."""
    return FOLDER if path.is_dir() else FORMATS[kind_of(path)]


def existing(place: str | Path, role: str = "edges") -> Path:
    """The path of a file that is there, may be read, and is of a format that can be given as `role`.

    Example:
        >>> existing("missing.csv")
        Traceback (most recent call last):
        FileNotFoundError: no such file: missing.csv
    """
    if not isinstance(place, str | Path):
        raise TypeError(f"a graph is read from a file or a pandas DataFrame, got {shown(place)}")
    path = Path(place)
    if path.is_dir():
        if role in FOLDER.roles:
            return path
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    check_regular(path)
    kind, packed = kind_of(path), path.suffix.lower() == PACKED
    if path.suffix.lower() in PICKLES:
        raise ValueError(
            f"{path.name} is a pickle, and reading a pickle runs whatever code it holds. In the "
            "program that made it, write the graph with "
            f"networkx.write_graphml(graph, '{path.stem}.graphml') and give that file"
        )
    if kind in WORKBOOKS:
        raise ValueError(
            f"{path.name} is a spreadsheet; save its table as .xlsx or as CSV (in Excel: Save As, CSV UTF-8) "
            "and give that file"
        )
    taken = {suffix: one for suffix, one in FORMATS.items() if role in one.roles}
    if kind not in taken or (packed and not taken[kind].packed):
        raise ValueError(f"unknown format of {path.name!r}: use a {', '.join(taken)} file")
    path.open("rb").close()  # "Permission denied" comes now, not from some parser
    return path
