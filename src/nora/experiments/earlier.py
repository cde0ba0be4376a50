"""Cells that were finished elsewhere, from the files of earlier reports of the same recipe.

A cache stays on its machine. The JSON file of a report holds everything that the report was made of, so that
its cells can stand in a later one.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nora.experiments import RECIPES
from nora.experiments.cells import Cell
from nora.experiments.lab import Lab
from nora.experiments.parts import Frames, Part, cell_names, rows_of_cells
from nora.experiments.protocol import CLEAN
from nora.files import read_json

# What must be the same, by its name in a report's file.
SETTINGS = ("experiment", "profile", "protocol", "cycles", "labelled_share", "seed")
# The provenance of cells that are taken over.
PROVENANCE = ("command", "nora", "torch", "python", "commit", "seconds", "machine")
TAKEN = "taken_over"


@dataclass(frozen=True)
class Earlier:
    """An earlier report.

    Attributes:
        path: Its file.
        frames: All parts, with the rows of its cells.
        origins: How each cell was made, by its name.
    """

    path: Path
    frames: Frames
    origins: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Taken:
    """Cells of earlier reports that stand in this one, each from the first file that has it.

    Attributes:
        cells: Their names in a lab.
        frames: Their rows, per file.
        about: How they were made, one entry per command that made some of them.
    """

    cells: Sequence[Cell] = ()
    frames: Sequence[Frames] = ()
    about: Sequence[Mapping[str, Any]] = ()


def check_takes_cells(name: str) -> Callable[[Lab], list[Part]]:
    """The parts of a recipe's report; raises for a recipe without any."""
    entry = RECIPES[name]
    if not entry.facts.takes_cells or entry.value.parts is None:
        takers = ", ".join(one.name for one in RECIPES if one.facts.takes_cells)
        raise ValueError(
            f"{name} cannot use an earlier report; --with and --beside are for {takers}"
        )
    return entry.value.parts


def read_earlier(name: str, lab: Lab, path: Path) -> Earlier:
    """Read an earlier report; one of another recipe or with other settings is rejected.

    Args:
        name: The recipe.
        lab: With the settings that are asked for.
        path: `<name>.json`, as `nora reproduce` writes it.
    """
    parts = check_takes_cells(name)(lab)
    try:
        document = read_json(path)
        if not isinstance(document, dict) or not all(
            isinstance(document.get(key), dict) for key in ("about", "tables")
        ):
            raise ValueError("it is not a report of 'nora reproduce'")
        about = document["about"]
        _check_settings(name, lab, about)
        frames = {part.heading: part.loaded(path, document) for part in parts}
        cells = _cells(frames)
        return Earlier(path, frames, _origins(about, cells))
    except ValueError as error:
        raise ValueError(f"cannot use the cells of {path}: {error}") from error


def settings_of(name: str, lab: Lab) -> dict[str, Any]:
    """The settings that two reports must share, so that one can use cells of the other."""
    values = (name, lab.profile.name, lab.protocol.name, lab.cycles, lab.share, lab.seed)
    return dict(zip(SETTINGS, values, strict=True))


def take_over(cells: Sequence[Cell], files: Sequence[Earlier]) -> Taken:
    """Those of some cells that earlier reports have."""
    taken: list[Cell] = []
    frames: list[Frames] = []
    about: dict[str, dict[str, Any]] = {}
    for file in files:
        mine = [cell for cell in cells if cell not in taken and str(cell) in file.origins]
        if not mine:
            continue
        taken += mine
        frames.append(rows_of_cells(file.frames, mine))
        for cell in mine:
            origin = file.origins[str(cell)]
            entry = about.setdefault(json.dumps(origin, sort_keys=True), {"cells": [], **origin})
            entry["cells"].append(str(cell))
    return Taken(taken, frames, list(about.values()))


def _check_settings(name: str, lab: Lab, about: Mapping[str, Any]) -> None:
    # Files of before do not name their recipe, but their command does; and there was one protocol.
    words = shlex.split(str(about.get("command", "")))
    named = words[2] if words[:2] == ["nora", "reproduce"] and len(words) > 2 else None
    theirs = {"experiment": named, "protocol": CLEAN.name, **about}
    differs = [
        f"its {key.replace('_', ' ')} is {theirs.get(key)}, and {value} is asked for"
        for key, value in settings_of(name, lab).items()
        if theirs.get(key) != value
    ]
    if differs:
        raise ValueError("; ".join(differs))


def _cells(frames: Frames) -> list[str]:
    """Its cells; raises when a part lacks one."""
    named = {heading: cell_names(table).unique().tolist() for heading, table in frames.items()}
    every = list(dict.fromkeys(cell for cells in named.values() for cell in cells))
    for heading, cells in named.items():
        if missing := [cell for cell in every if cell not in cells]:
            raise ValueError(f"its table {heading!r} has no rows of {', '.join(missing)}")
    if not every:
        raise ValueError("it has no cell")
    return every


def _origins(about: Mapping[str, Any], cells: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How each cell was made: those that the file has taken over itself keep their origin."""
    before: dict[str, dict[str, Any]] = {}
    try:
        for entry in about.get(TAKEN, ()):
            origin = {key: value for key, value in entry.items() if key != "cells"}
            before |= dict.fromkeys(entry["cells"], origin)
    except (TypeError, LookupError, AttributeError):
        raise ValueError(f"its list of cells it has {TAKEN.replace('_', ' ')} is damaged") from None
    own = {key: about.get(key) for key in PROVENANCE}
    own["cells_made"] = len([cell for cell in cells if cell not in before])
    return {cell: before.get(cell, own) for cell in cells}
