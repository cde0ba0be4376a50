"""Hostile files: unpickling what they hold makes a file, so that a test sees whether anything ran.

`put` writes such a file in the place of another; `consistent` makes the checksums beside it fit again, as
those who give a folder away can compute them as well as we can.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nora.artefact import MANIFEST, quick_digest, sealed, sha256_of
from nora.engine.store.array_folder import _manifest_digest


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
    """Make the digests of a run and of the engine in it, or of an engine, fit its files."""
    for engine in (folder, folder / "engine"):
        if (engine / MANIFEST).is_file() and not is_run(engine):
            with_digests(engine)
    if is_run(folder):
        edited(folder)


def is_run(folder: Path) -> bool:
    """Whether a folder has the manifest of a run."""
    path = folder / MANIFEST
    return path.is_file() and json.loads(path.read_text()).get("kind") == "run"


def facts_of(run: Path) -> dict[str, Any]:
    """What the manifest of a run holds."""
    return json.loads((run / MANIFEST).read_text())


def edited(run: Path, **facts: Any) -> None:
    """Change facts of a run, with digests that fit again."""
    about = {**facts_of(run), **facts}
    del about["sha256"]
    files = {file.name: file for file in run.iterdir() if file.is_file() and file.name != MANIFEST}
    if (run / "engine").is_dir() and "engine/manifest.json" in about["files"]:
        files["engine/manifest.json"] = run / "engine" / MANIFEST
    about["files"] = {
        name: {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
        for name, file in files.items()
    }
    (run / MANIFEST).write_text(json.dumps(sealed(about)))


def of_earlier_version(run: Path, signed: bool = True) -> Path:
    """Lay a run out as versions before `manifest.json` wrote it, the first of them without digests."""
    about = facts_of(run)
    for key in ("kind", "version", "sha256", "files"):
        del about[key]
    (run / MANIFEST).unlink()
    files = {file.name: sha256_of(file) for file in sorted(run.iterdir()) if file.is_file()}
    settings = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    if signed:
        about["checksums"] = {"run.json": settings, **files}
    (run / "run.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return run


def with_digests(engine: Path) -> None:
    """Make the manifest of an engine fit its arrays."""
    manifest = json.loads((engine / MANIFEST).read_text())
    for about in manifest.get("files", ()):
        if about["file"]:
            path = engine / about["file"]
            about["bytes"] = path.stat().st_size
            about |= {"sha256": sha256_of(path), "quick": quick_digest(path)}
    manifest["sha256"] = _manifest_digest(manifest)
    (engine / MANIFEST).write_text(json.dumps(manifest))
