"""The folder of a run: an artefact of the kind `run`; those of earlier versions have a `run.json` instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from nora.artefact import (
    MANIFEST,
    SEAL,
    Artefact,
    DamagedError,
    content_sha256,
    read_manifest,
    write_manifest,
)
from nora.files import read_json
from nora.outputs import ENGINE, OLD_RUN
from nora.stacklevel import warn

KIND, VERSION = "run", 1
WEIGHTS, SPLIT = "model.safetensors", "split.safetensors"
GRAPH, GRAPH_FACTS = "dataset.safetensors", "dataset.json"
ENGINE_MANIFEST = f"{ENGINE}/{MANIFEST}"
REMEDY = "copy the run again from where it was made, or train it again"


def open_run(folder: Path) -> Artefact:
    """A run's folder, its files compared with their digests; the message names the file that differs."""
    found = _manifest(folder)
    if not (folder / ENGINE).exists():  # an engine may be removed
        found.files.pop(ENGINE_MANIFEST, None)
    if all(found.files.values()):
        found.check(remedy=REMEDY)
    return found


def read_facts(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The content of a run's manifest, and the SHA-256 of its files."""
    found = _manifest(folder)
    return found.facts, {name: about[SEAL] for name, about in found.files.items()}


def cover_engine(folder: Path) -> None:
    """List the manifest of the engine in a run, which has the digests of its arrays, in that of the run."""
    if not (folder / MANIFEST).exists():  # a run of an earlier version stays as it is
        return
    found = _manifest(folder)
    found.include(ENGINE_MANIFEST)
    write_manifest(folder, KIND, VERSION, {**found.facts, "files": found.files})


def read_tensors(path: Path, what: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file; `what` it should hold, for messages."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing, which holds {what}; {REMEDY}")
    path.open("rb").close()  # "Permission denied" is not "does not hold a graph"
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} does not hold {what}: {error}") from error


def _manifest(folder: Path) -> Artefact:
    _check_is_run(folder)
    if not (folder / MANIFEST).exists():
        return _earlier(folder)
    facts = read_manifest(folder, KIND, VERSION, remedy=REMEDY)
    files = facts.pop("files", None)
    if not isinstance(files, dict) or not all(
        isinstance(one, dict) and SEAL in one for one in files.values()
    ):
        raise DamagedError(f"{folder / MANIFEST} is not readable as a run: it lists no files")
    return Artefact(folder, facts, files)


def _check_is_run(folder: Path) -> None:
    inside = folder / "run"
    if any((inside / name).exists() for name in (MANIFEST, OLD_RUN)):
        raise FileNotFoundError(
            f"{folder} holds results of 'nora run'; its trained run is {inside}"
        )
    if folder.is_file():
        raise NotADirectoryError(f"{folder} is a file; a trained run is a folder")
    if not any((folder / name).exists() for name in (MANIFEST, OLD_RUN)):
        raise FileNotFoundError(
            f"{folder} is not a trained run (no {MANIFEST}); make one with 'nora train --dataset cora --out "
            f"{folder}', or of your own files with 'nora run --edges FILE'"
        )


def _earlier(folder: Path) -> Artefact:
    """A run of an earlier version: `run.json` has the facts, and digests but in the first versions."""
    path = folder / OLD_RUN
    try:
        facts = read_json(path)
    except ValueError as error:
        raise ValueError(f"{path} is not readable as a run: {error}; {REMEDY}") from error
    if not isinstance(facts, dict):
        raise ValueError(f"{path} is not readable as a run: it holds no settings")
    digests = facts.pop("checksums", None)
    if digests is None:
        warn(
            f"the run in {folder} has no checksums, so that damage cannot be noticed; "
            "nora.load_run(…).save(…) to a new folder adds them",
            UserWarning,
        )
        names = (WEIGHTS, SPLIT, GRAPH, GRAPH_FACTS)
        return Artefact(folder, facts, {name: {} for name in names if (folder / name).exists()})
    if not isinstance(digests, dict):
        raise ValueError(f"{path} is not readable as a run: its checksums are not a table")
    if digests.pop(OLD_RUN, None) != content_sha256(facts):
        raise DamagedError(
            f"{path} was changed after it was written (its settings were edited); {REMEDY}"
        )
    return Artefact(folder, facts, {name: {SEAL: digest} for name, digest in digests.items()})
