"""The folder of results: what is in it, and where it may go.

Light, so that a place that cannot be written to is refused before torch is loaded.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from nora.files import check_folder, read_json
from nora.options import option
from nora.outputs import CommandInputs, check_keeps
from nora.wording import listed

MADE_BY = "nora run"
ABOUT = "run.json"
# What a folder of results holds, in the order in which a reader may want it.
FILES = {
    "report.html": "the findings as a page; open it in a browser",
    "scores.csv": "every node with influence, rank, degree and prediction",
    "scores.csv.meta.json": "how these scores were made",
    "scores.parquet": "the same table for programs",
    "effects": "for each of the first nodes, the predictions that its removal changes",
    "models.csv": "every trained model: its accuracy, and its agreement with the others",
    "agreement.csv": "every pair of these models: correlations, and how many of the first nodes they share",
    "stability.png": "the first nodes by every model",
    "graph.graphml": "the graph with the scores, for Gephi, Cytoscape, NetworkX",
    "graph.gexf": "the same for Gephi",
    "run": "the trained model and its graph, for 'nora what-if' and 'nora rank'",
    ABOUT: "how the results were made: files, seeds, versions, notes, times",
}

# Of these, what is there only where several models were trained.
OF_SEVERAL = ("models.csv", "agreement.csv", "stability.png")


def check_results(folder: Path, force: bool, inputs: CommandInputs | None = None) -> None:
    """Raise unless results can go to `folder`: only our own results are ever replaced.

    Args:
        folder: Where to.
        force: Whether earlier results may be replaced.
        inputs: What was read, which is never deleted.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder for the results")
    check_folder(folder.absolute().parent)
    if not folder.exists() or not any(folder.iterdir()):
        _try_to_write(folder)
        return
    try:
        made = read_json(folder / ABOUT)["made_by"] == MADE_BY
    except (OSError, ValueError, KeyError, TypeError):
        made = False
    if not made:
        raise FileExistsError(
            f"{folder} is not empty and was not made by 'nora run', so {option('force', True)} does not "
            "replace it; choose another folder"
        )
    others = sorted(file.name for file in folder.iterdir() if file.name not in FILES)
    if others:
        raise FileExistsError(
            f"{folder} holds files of yours ({listed(others, 3)}), so {option('force', True)} does not "
            "replace it"
        )
    if not force:
        raise FileExistsError(
            f"{folder} is not empty; choose another folder, or add {option('force', True)}"
        )
    if inputs is not None:
        check_keeps(folder, inputs)
    _try_to_write(folder)


def page_title(folder: Path) -> str | None:
    """A title from the folder's name, None where it is a general word.

    >>> page_title(Path("trade-influence")), page_title(Path("results"))
    ('trade', None)
    """
    name = folder.absolute().name.removesuffix("-influence")
    if name.lower() in ("edges", "graph", "nora", "out", "output", "result", "results"):
        return None
    return name


def _try_to_write(folder: Path) -> None:
    """Raise when a folder cannot be made there, before hours of work show it; leave nothing."""
    parent = folder.absolute().parent
    missing = [place for place in (parent, *parent.parents) if not place.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
        Path(tempfile.mkdtemp(dir=parent, prefix=f".{folder.name}.")).rmdir()
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot write to {folder} ({reason}); choose another folder") from error
    finally:
        with suppress(OSError):  # never made, or another process writes there by now
            for place in missing:
                place.rmdir()
