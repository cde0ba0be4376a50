"""Writing without halves: a file or folder is there complete, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _umask() -> int:
    """The permissions that the caller takes away from new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes its place, else it is deleted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes private files
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def folder_written_atomically(path: Path, replace: bool = False) -> Iterator[Path]:
    """The same for a folder; an existing one is an error unless `replace`."""
    if path.exists() and not replace:
        raise FileExistsError(f"{path} exists already; choose another folder or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        # Some writers, safetensors' among them, make private files.
        for file in temporary.rglob("*"):
            file.chmod((0o777 if file.is_dir() else 0o666) & ~_umask())
        temporary.chmod(0o777 & ~_umask())
        if path.exists():
            # Deleting takes time, during which half of the old folder would be there.
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as aside:
                path.replace(Path(aside) / "old")
                temporary.replace(path)
        else:
            temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_folder(folder: Path) -> None:
    """Raise unless `folder` is there and writable, or can be made."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is a file, so nothing can be written inside it")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} is not writable; choose another place")
