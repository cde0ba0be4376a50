"""Hostile files: unpickling what they hold makes a file, so that a test sees whether anything ran.

`put` writes such a file in the place of another; `consistent` makes the checksums beside it fit again, as
those who give a folder away can compute them as well as we can.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from nora.artefact import sha256_of
from nora.engine.store.folder import MANIFEST, _file_digest, _manifest_digest
from nora.training.run_checksums import ABOUT, KEY, _of_settings


@dataclass(frozen=True)
class Payload:
    """Unpickling it makes the file `mark`."""

    mark: Path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


# Every way in which a Python program keeps a pickle in a file.
KINDS: dict[str, Callable[[Payload], bytes]] = {
    "pickle": pickle.dumps,
    "torch": lambda one: _saved(lambda file: torch.save(one, file)),
    "old torch": lambda one: _saved(
        lambda file: torch.save(one, file, _use_new_zipfile_serialization=False)
    ),
    "npy": lambda one: _saved(lambda file: np.save(file, np.array([one], object))),
    "npz": lambda one: _saved(lambda file: np.savez(file, x=np.array([one], object))),
}


def put(path: Path, kind: str, mark: Path) -> None:
    """Write a payload in the place of a file, or where none is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(KINDS[kind](Payload(mark)))


def consistent(folder: Path) -> None:
    """Make the checksums of a run and of the engine in it, or of an engine, fit its files."""
    for engine in (folder, folder / "engine"):
        if (engine / MANIFEST).is_file():
            with_digests(engine)
    if (folder / ABOUT).is_file():
        about = json.loads((folder / ABOUT).read_text())
        files = {file.name: sha256_of(file) for file in folder.iterdir() if file.is_file()}
        about[KEY] = {**files, ABOUT: _of_settings(about)}
        (folder / ABOUT).write_text(json.dumps(about))


def with_digests(engine: Path) -> None:
    """Make the manifest of an engine fit its arrays."""
    manifest = json.loads((engine / MANIFEST).read_text())
    for about in manifest.get("files", ()):
        if about["file"]:
            path = engine / about["file"]
            about["bytes"] = path.stat().st_size
            about |= {"sha256": _file_digest(path, True), "quick": _file_digest(path, False)}
    manifest["sha256"] = _manifest_digest(manifest)
    (engine / MANIFEST).write_text(json.dumps(manifest))
