"""Whether a run is whole: `run.json` holds the SHA-256 of every other file and of its own settings.

A byte that differs gives other numbers without a word; so it is looked for before anything is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nora.artefact import sha256_of
from nora.files import read_json, written_atomically
from nora.outputs import ENGINE, RUN_FILES
from nora.stacklevel import warn

ABOUT, KEY = "run.json", "checksums"
ENGINE_MANIFEST = f"{ENGINE}/manifest.json"
REMEDY = "copy the run again from where it was made, or train it again"


def with_checksums(about: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What `run.json` holds, with the checksums of itself and of the files in `folder`."""
    files = {file.name: sha256_of(file) for file in sorted(folder.iterdir())}
    return {**about, KEY: {ABOUT: _of_settings(about), **files}}


def check_whole(folder: Path, about: Mapping[str, Any]) -> None:
    """Raise unless everything in a run is as it was saved; the message names the file.

    Args:
        folder: The run.
        about: What its `run.json` holds.
    """
    kept = about.get(KEY)
    if kept is None:
        warn(
            f"the run in {folder} has no checksums, so that nobody can tell whether it is as it was "
            "saved; nora.load_run(…).save(…) to a new folder adds them",
            UserWarning,
        )
        return
    if not isinstance(kept, Mapping):
        raise ValueError(f"{folder / ABOUT} is not readable as a run: its checksums are no table")
    if kept.get(ABOUT) != _of_settings(about):
        raise ValueError(
            f"{folder / ABOUT} is not as it was saved: somebody has edited the settings; {REMEDY}"
        )
    for name, digest in kept.items():
        file = folder / name
        if name == ABOUT or (name == ENGINE_MANIFEST and not (folder / ENGINE).exists()):
            continue
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing, which belongs to the run; {REMEDY}")
        if sha256_of(file) != digest:
            raise ValueError(
                f"{file} is not as it was saved: it was edited or damaged, or is of another run; "
                f"{REMEDY}"
            )
    for name in RUN_FILES:
        if name not in kept and (folder / name).is_file():
            raise ValueError(
                f"{folder / name} does not belong to this run, which was saved without it; remove it"
            )


def cover_engine(folder: Path) -> None:
    """Add the manifest of the engine in a run, which has the checksums of its arrays, to those of the run."""
    about = read_json(folder / ABOUT)
    if KEY not in about:  # a run without any stays so
        return
    about[KEY] = {**about[KEY], ENGINE_MANIFEST: sha256_of(folder / ENGINE_MANIFEST)}
    with written_atomically(folder / ABOUT) as temporary:
        temporary.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _of_settings(about: Mapping[str, Any]) -> str:
    settings = {key: value for key, value in about.items() if key != KEY}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
