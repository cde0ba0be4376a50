"""Which files can be read, told by their names alone; light, so that a slip in a name is answered at once."""

from __future__ import annotations

from pathlib import Path

TABLES = (".csv", ".tsv", ".txt", ".parquet")
GRAPHS = (".graphml", ".gexf")
PICKLES = (".pkl", ".pickle", ".gpickle")


def existing(place: str | Path, kinds: tuple[str, ...] = (*TABLES, *GRAPHS)) -> Path:
    """The path of a file that is there, may be read, and is of a kind we know.

    Args:
        place: The file.
        kinds: The suffixes that are taken here.

    Example:
        >>> existing("nobody.csv")
        Traceback (most recent call last):
        FileNotFoundError: no such file: nobody.csv
    """
    path = Path(place)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    refuse_pickle(path)
    if path.suffix.lower() not in kinds:
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
