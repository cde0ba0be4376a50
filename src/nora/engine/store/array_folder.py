"""A folder of arrays: `.npy` files that are mapped into memory, and a manifest that lists them.

Nothing in it is executed, and no array holds objects. The manifest holds the size and digest of every file,
and its own digest. A folder is written under a temporary name and renamed when it is complete.

To verify large arrays completely would take longer than the work itself. So files of up to 32 MB are read in
full when a folder is opened; of larger ones the size, both ends and 256 blocks in between. `check="all"`
reads everything.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nora.artefact import BLOCK, MANIFEST, Check, DamagedError, quick_digest, sha256_of
from nora.files import folder_written_atomically, read_json
from nora.wording import short

# Grows when an older version could not read what this one writes.
FORMAT = 1
# Kinds of numbers that NumPy has no name for, as those of the same size that it has.
_BITS = {"bfloat16": torch.int16}


def _manifest_digest(manifest: dict[str, Any]) -> str:
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


class Writer:
    """Writes tensors into a folder, each once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[dict[str, Any]] = []
        # Bindings are held, so that their memory stays their own.
        self._known: dict[tuple[Any, ...], tuple[int, Tensor]] = {}
        self._kept: set[int] = set()
        self._maps: list[np.memmap] = []

    def add(self, tensor: Tensor) -> int:
        """Write a tensor to a file, unless it already is in one; returns its number."""
        tensor = tensor.detach().cpu()
        key = _place(tensor)
        if not tensor.numel() or key not in self._known:
            self._known[key] = self._write(tensor), tensor
        number = self._known[key][0]
        self._kept.add(number)
        return number

    def move(self, tensor: Tensor) -> Tensor:
        """Write a tensor to a file and return it, memory-mapped. It is saved only if it is added as well."""
        if str(tensor.dtype).removeprefix("torch.") in _BITS or tensor.requires_grad:
            return tensor
        number = self._write(tensor.detach().cpu())
        array = np.load(self.folder / self.files[number]["file"], mmap_mode="r", allow_pickle=False)
        self._maps.append(array)
        self.release()
        with _without_warning():
            found = torch.from_numpy(np.asarray(array))
        self._known[_place(found)] = number, found
        return found

    def release(self) -> None:
        """Let go of what was read of files: it is read again where it is needed."""
        for one in self._maps:
            one._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]

    def _write(self, tensor: Tensor) -> int:
        name = str(tensor.dtype).removeprefix("torch.")
        plain = tensor.contiguous()
        array = plain.view(_BITS[name]).numpy() if name in _BITS else plain.numpy()
        number = len(self.files)
        path = self.folder / f"{number:04d}.npy"
        with path.open("wb") as file:
            header = np.lib.format.header_data_from_array_1_0(array)
            np.lib.format.write_array_header_1_0(file, header)
            # Not by `tofile`, which does not say why it could not write.
            file.write(array.reshape(-1).view(np.uint8).data)
        self.files.append({"file": path.name, "dtype": name, "shape": list(tensor.shape)})
        return number

    def finish(self, document: dict[str, Any]) -> None:
        """Write the manifest: from now on the folder is whole."""
        for number, about in enumerate(self.files):
            path = self.folder / about["file"]
            if number not in self._kept:  # not needed any more
                path.unlink()
                about["file"] = ""
                continue
            about["bytes"] = path.stat().st_size
            about["sha256"] = sha256_of(path)
            about["quick"] = quick_digest(path)
        manifest = {"format": FORMAT, **document, "files": self.files}
        manifest = json.loads(json.dumps(manifest))
        manifest["sha256"] = _manifest_digest(manifest)
        (self.folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


@contextmanager
def write_engine_folder(folder: Path, replace: bool = False) -> Iterator[Writer]:
    """A folder that is there when all of it is."""
    with folder_written_atomically(folder, replace) as temporary:
        yield Writer(temporary)


class Reader:
    """Reads a folder of arrays.

    Args:
        folder: Which.
        check: How much of it is read to see whether it is as it was written.

    Raises:
        FileNotFoundError: When it is not such a folder.
        DamagedError: When it was changed after it was written.
    """

    def __init__(self, folder: Path, check: Check = "quick") -> None:
        if check not in ("quick", "all"):
            raise ValueError(f"check is {check!r}; it must be 'quick' or 'all'")
        self.folder = folder
        path = folder / MANIFEST
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} holds no prepared engine: it has no {MANIFEST}. Make one by "
                "nora.prepare(model, data, folder) or 'nora prepare RUN'"
            )
        try:
            self.manifest: dict[str, Any] = read_json(path)
            known = isinstance(self.manifest, dict) and "format" in self.manifest
        except ValueError as error:
            raise DamagedError(f"{path} is damaged: {error}") from error
        if not known or "files" not in self.manifest:
            raise DamagedError(f"{path} is not the manifest of a prepared engine")
        if self.manifest["format"] != FORMAT:
            raise DamagedError(
                f"{folder} is in format {self.manifest['format']}, and this version of nora reads format "
                f"{FORMAT}: prepare it again"
            )
        if self.manifest.get("sha256") != _manifest_digest(self.manifest):
            raise DamagedError(f"{path} was changed after it was written: prepare the engine again")
        self._tensors: dict[int, Tensor] = {}
        try:
            for about in self.manifest["files"]:
                if about["file"]:
                    self._see(about, check == "all")
        except (LookupError, TypeError, AttributeError) as error:
            raise DamagedError(
                f"{path} lists no files ({error!r}): prepare the engine again"
            ) from error

    def _see(self, about: dict[str, Any], whole: bool) -> None:
        """Raise unless a file is as it was written."""
        path = self.folder / Path(about["file"]).name
        if not path.is_file():
            raise DamagedError(f"{path} is missing: prepare the engine again")
        size = path.stat().st_size
        if size != about["bytes"]:
            raise DamagedError(
                f"{path} has {size:,} bytes instead of {about['bytes']:,}: prepare the engine again"
            )
        if (sha256_of if whole else quick_digest)(path) != about["sha256" if whole else "quick"]:
            raise DamagedError(f"{path} was changed after it was written: prepare the engine again")

    @property
    def bytes(self) -> int:
        """Size of all arrays."""
        return sum(about["bytes"] for about in self.manifest["files"] if about["file"])

    def get(self, number: int, private: bool = False) -> Tensor:
        """A tensor, memory-mapped from its file.

        Args:
            number: Which.
            private: Whether the caller may write to it, in a copy of its own.
        """
        if number not in self._tensors:
            about = self.manifest["files"][number]
            path = self.folder / Path(about["file"]).name
            mode: Literal["r", "c"] | None = None
            if about["bytes"] > BLOCK:
                mode = "c" if private else "r"
            try:
                array = np.load(path, mmap_mode=mode, allow_pickle=False)
                with _without_warning():
                    found = torch.from_numpy(np.asarray(array))
            except (ValueError, TypeError, EOFError, OSError) as error:
                raise DamagedError(f"{path} holds no array of numbers: {short(error)}") from error
            if about["dtype"] in _BITS:
                found = found.view(getattr(torch, about["dtype"]))
            if list(found.shape) != about["shape"] or str(found.dtype) != f"torch.{about['dtype']}":
                raise DamagedError(f"{path} holds another array than the manifest says")
            self._tensors[number] = found
        return self._tensors[number]


@contextmanager
def _without_warning() -> Iterator[None]:
    """torch warns of arrays that cannot be written to; these are only read."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        yield
