"""Runs the notebooks in `docs/notebooks/` and keeps what they show.

    python docs/pictures/notebooks.py

Only outputs are written: no times, no counters that differ from run to run, so that a change in a notebook is
a change of what it shows.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook after all its cells have run in `folder`; a cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata = nbformat.NotebookNode()
        if cell.cell_type == "code":  # warnings of other packages name the machine's folders
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    notebook.metadata = nbformat.NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python", "pygments_lexer": "ipython3"},
    )
    return notebook


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)
        print(path.name)
