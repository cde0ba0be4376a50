"""Writing without halves: a file or folder is there complete, or not at all. Reading without waiting."""

from __future__ import annotations

import ctypes
import errno
import glob
import json
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

# renameat2(2): paths are relative to the working directory; the two names change places.
_HERE, _EXCHANGE = -100, 2
_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
_CANNOT_LINK = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def _umask() -> int:
    """The permissions that the caller removes from new files.

    Not by `os.umask`, which has to set one to read it: files that another thread makes meanwhile would be
    open to everybody.
    """
    with suppress(OSError, StopIteration, ValueError):  # Linux
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return int(next(line for line in lines if line.startswith("Umask:")).split()[1], 8)
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / "probe"
        made.mkdir()
        return 0o777 & ~made.stat().st_mode


def _prefix(path: Path) -> str:
    """How temporary names beside `path` begin: they name the process that made them."""
    host = re.sub(r"\W", "", platform.node())[:32]
    return f".{path.name}.{host}-{os.getpid()}-"


def _remove_left_over(path: Path) -> None:
    """Remove what processes of this machine have left beside `path` that were killed meanwhile."""
    own = re.escape(_prefix(path)).replace(rf"\-{os.getpid()}\-", r"\-(\d+)\-")
    for other in path.parent.glob(f".{glob.escape(path.name)}.*"):
        found = re.match(own, other.name)
        if found is None or _is_alive(int(found[1])):
            continue
        if other.is_dir() and not other.is_symlink():
            shutil.rmtree(other, ignore_errors=True)
        else:
            other.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


def _synced(path: Path) -> None:
    """Have the system write a file or folder to the disk now, where it can."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_regular(path: Path) -> None:
    """Raise for a pipe, a device or a socket: opening one may wait, or never end."""
    if not path.exists() or path.is_file() or path.is_dir():
        return
    mode = path.stat().st_mode
    what = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise ValueError(f"{path} is {what}, not a file; name a file")


def read_json(path: Path) -> Any:
    """The content of a JSON file; a `ValueError` with the reason if it is not JSON.

    >>> read_json(Path("/dev/null"))
    Traceback (most recent call last):
    ValueError: /dev/null is a device, not a file; name a file
    """
    check_regular(path)
    raw = path.read_bytes()
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None


@contextmanager
def written_atomically(path: Path, replace: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes its place, else it is deleted.

    Args:
        path: The file to be.
        replace: Take the place of a file that is there; else that is an error, also when it has come
            only while the temporary one was written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_over(path)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path), suffix=path.suffix)
    except OSError as error:  # it would name the temporary file
        raise type(error)(error.errno, error.strerror, str(path)) from error
    os.close(handle)
    temporary = Path(name)
    try:
        with _named(path):
            yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes private files
        _synced(temporary)
        if replace:
            temporary.replace(path)
        else:
            _take_free_place(temporary, path)
        _synced(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file that did not fit on a full disk, not none or a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write named tensors to `path`, in safetensors; what cannot be written is an `OSError`."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # Copies: safetensors refuses tensors that share their memory.
    copies = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
    try:
        save_file(copies, path)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def _take_free_place(temporary: Path, path: Path) -> None:
    """Give the file its name unless the name is taken."""
    try:
        path.hardlink_to(temporary)  # unlike renaming, this fails where something is
    except FileExistsError:
        raise FileExistsError(f"{path} exists already, and is left as it is") from None
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        if os.path.lexists(path):  # a file system without links leaves a gap of microseconds
            raise FileExistsError(f"{path} exists already, and is left as it is") from None
        temporary.replace(path)


@contextmanager
def folder_written_atomically(path: Path, replace: bool = False) -> Iterator[Path]:
    """The same for a folder; an existing one is an error unless `replace`."""
    if path.exists() and not replace:
        raise FileExistsError(f"{path} exists already; choose another folder or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_over(path)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=_prefix(path)))
    try:
        with _named(path):
            yield temporary
        # Some writers, safetensors' among them, make private files.
        mask = _umask()
        for file in temporary.rglob("*"):
            file.chmod((0o777 if file.is_dir() else 0o666) & ~mask)
            _synced(file)
        temporary.chmod(0o777 & ~mask)
        if replace and path.exists():
            _exchange(temporary, path)
        else:
            _move_folder(temporary, path)
        _synced(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move_folder(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise FileExistsError(f"{path} was created meanwhile, and is left as it is") from None


def _exchange(new: Path, old: Path) -> None:
    """Let the folders change places; where the system can, there is no moment without either."""
    if sys.platform == "linux":
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if rename and rename(_HERE, os.fsencode(new), _HERE, os.fsencode(old), _EXCHANGE) == 0:
            return
    # Deleting takes time, during which half of the old folder would be there.
    aside = Path(tempfile.mkdtemp(dir=old.parent, prefix=f".{old.name}."))
    old.replace(aside / "old")
    new.replace(old)
    (aside / "old").replace(new)
    aside.rmdir()


def check_folder(folder: Path) -> None:
    """Raise unless `folder` is there and writable, or can be made."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is a file, so nothing can be written inside it")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} is not writable; choose another place")
