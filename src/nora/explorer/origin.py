"""The origin of an explored model: how a program loads it, and which command starts the explorer again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """The source of model and graph, for the page's programs and messages.

    Attributes:
        program: Lines that make `run`, a trained run; none where only the caller has the model.
        command: The shell command that starts this explorer; "" where Python code did.
    """

    program: tuple[str, ...] = ()
    command: str = ""


def of_folder(folder: str) -> Origin:
    """A saved run. The program looks for it where it is called, or in the folder that is given to it."""
    program = (
        "import sys",
        "",
        "import nora",
        "",
        "# Call this in the folder of the run, or with that folder: python what_if.py FOLDER",
        'run = nora.load_run(sys.argv[1] if len(sys.argv) > 1 else ".")',
    )
    return Origin(program, f"nora explore {shlex.quote(folder)}")


DEMO = Origin(
    (
        "import nora",
        "",
        "# The network of the demo, and the model that is trained on it.",
        'run = nora.train("gcn", "polarised", progress=False)',
    ),
    "nora explore --demo",
)
