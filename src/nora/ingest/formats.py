"""Which files can be read, told by their names alone; light, so that a slip in a name is answered at once."""

from __future__ import annotations

from pathlib import Path

from nora.arguments import shown
from nora.files import check_regular

WORKBOOK = ".xlsx"
TABLES = (".csv", ".tsv", ".txt", ".parquet", WORKBOOK)
GRAPHS = (".graphml", ".gexf")
MATRICES = (".mtx",)
# Text is read compressed, too: edges.csv.gz.
PACKED = ".gz"
WORKBOOKS = (".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
PICKLES = (".pkl", ".pickle", ".gpickle")


def kind_of(path: Path) -> str:
    """The suffix that says what a file is, without `.gz`.

    >>> kind_of(Path("edges.CSV")), kind_of(Path("edges.csv.gz"))
    ('.csv', '.csv')
    """
    name = path.name.lower()
    return Path(name.removesuffix(PACKED)).suffix


def existing(
    place: str | Path, kinds: tuple[str, ...] = (*TABLES, *GRAPHS, *MATRICES), folder: bool = False
) -> Path:
    """The path of a file that is there, may be read, and is of a kind we know.

    Args:
        place: The file.
        kinds: The suffixes that are taken here.
        folder: Whether a folder will do, too.

    Example:
        >>> existing("nobody.csv")
        Traceback (most recent call last):
        FileNotFoundError: no such file: nobody.csv
    """
    if not isinstance(place, str | Path):
        raise TypeError(f"a graph is read from a file or a pandas DataFrame, got {shown(place)}")
    path = Path(place)
    if path.is_dir():
        if folder:
            return path
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    check_regular(path)
    refuse_pickle(path)
    kind = kind_of(path)
    if kind in WORKBOOKS:
        raise ValueError(
            f"{path.name} is a spreadsheet; save its table as .xlsx or as CSV (in Excel: Save As, CSV UTF-8) "
            "and give that file"
        )
    packed = path.suffix.lower() == PACKED
    if kind not in kinds or (packed and kind in (".parquet", WORKBOOK, *GRAPHS)):
        raise ValueError(f"cannot tell what {path.name!r} is: use a {', '.join(kinds)} file")
    path.open("rb").close()  # "Permission denied" comes now, not from some parser
    return path


def refuse_pickle(path: Path) -> None:
    """Raise for a pickled graph."""
    if path.suffix.lower() in PICKLES:
        raise ValueError(
            f"{path.name} is a pickle, and reading a pickle runs whatever code it holds. In the "
            "program that made it, write the graph with "
            f"networkx.write_graphml(graph, '{path.stem}.graphml') and give that file"
        )
