"""`nora example`: files like those that `nora run` reads, to try it with and to copy."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nora.cli.display import Json, print_json, print_text
from nora.files import check_folder

# Every tenth label is left blank, as in most real label files.
BLANK = 10


def example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder for the files.")],
    json: Json = False,
) -> None:
    """Write example files for 'nora run': edges, features and labels of a small social network.

    1,000 generated accounts in two camps: their edges, the words they use, and the camp of most of them.

    \b
    Example:
      nora example demo-data
      nora run --edges demo-data/edges.csv --features demo-data/features.csv \\
               --labels demo-data/labels.csv
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists already; name a new folder")
    check_folder(folder.absolute().parent)

    from nora.datasets import load_dataset
    from nora.files import folder_written_atomically

    network = load_dataset("polarised")
    names, camps, data = network.node_names or (), network.class_names or (), network.data
    source, target = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].tolist()
    words = data.x.expm1().round().int().tolist()
    label = [camps[k] if node % BLANK else "" for node, k in enumerate(data.y.tolist())]
    with folder_written_atomically(folder, replace=folder.exists()) as new:
        _write(
            new / "edges.csv",
            ("source", "target"),
            ((names[i], names[j]) for i, j in zip(source, target, strict=True)),
        )
        _write(
            new / "features.csv",
            ("id", *(f"word {number + 1}" for number in range(len(words[0])))),
            ((name, *row) for name, row in zip(names, words, strict=True)),
        )
        _write(new / "labels.csv", ("id", "label"), zip(names, label, strict=True))
    files = {kind: folder / f"{kind}.csv" for kind in ("edges", "features", "labels")}
    command = " ".join(["nora run", *(f"--{kind} {path}" for kind, path in files.items())])
    if json:
        print_json({"files": {kind: str(path) for kind, path in files.items()}, "try": command})
        return
    print_text(
        f"{len(names):,} accounts in {folder}: edges, words as features, and camps as labels (for most)."
    )
    print_text(f"Try:\n  {command}")


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
