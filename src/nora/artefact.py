"""One format for everything NORA saves to a folder: plain files and a `manifest.json` with their digests.

    manifest.json    {"kind": "run", "version": 1, … facts …,
                      "files": {"model.safetensors": {"bytes": 4096, "sha256": "…"}}, "sha256": "…"}
    *.safetensors, *.npy    arrays
    *.parquet, *.json       tables, documents

Nothing in a folder can execute. `sha256` is the digest of the manifest without it, so that edited numbers are
noticed like a damaged file. A folder is complete or not there:

    with artefact.write_artefact(folder, "run", 1) as new:
        write_tensors(model.state_dict(), new.folder / "model.safetensors")
        new.facts["seed"] = 0                          # what the manifest holds beside the files

    found = artefact.open_artefact(folder, "run", 1, remedy="train it again")
    found.facts["seed"], found.path("model.safetensors")

`open_artefact` reads every file to compare its digest. Arrays that are mapped into memory may be large: with
`check="quick"` it reads files of up to 32 MB in full, of larger ones both ends and 256 blocks in between.
Folders that grow (a checkpoint and its parts) list no files: `write_manifest` and `read_manifest` alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from nora.files import folder_written_atomically, read_json, written_atomically

MANIFEST = "manifest.json"
SEAL = "sha256"
Check = Literal["quick", "all"]
# A quick check reads larger files in part: both ends, and blocks in between.
READ_IN_FULL, BLOCKS, BLOCK, END = 32 * 2**20, 256, 4096, 2**20


class DamagedError(ValueError):
    """An artefact that was changed after it was written; the message names the file."""


# Digests


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def quick_digest(path: Path) -> str:
    """The SHA-256 of a file of up to 32 MB; of a larger one, of both ends and blocks in between."""
    size = path.stat().st_size
    if size <= READ_IN_FULL:
        return sha256_of(path)
    total = hashlib.sha256()
    with path.open("rb") as file:
        total.update(file.read(END))
        for at in range(BLOCKS):
            file.seek(END + at * ((size - 2 * END) // BLOCKS))
            total.update(file.read(BLOCK))
        file.seek(size - END)
        total.update(file.read())
    return total.hexdigest()


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as JSON holds it, with the digest of its content.

    >>> unsealed(sealed({"seed": 0}))
    {'seed': 0}
    >>> unsealed({**sealed({"seed": 0}), "seed": 1})
    Traceback (most recent call last):
    nora.artefact.DamagedError: the document was changed after it was written
    """
    plain = json.loads(json.dumps(dict(document)))
    return {**plain, SEAL: content_sha256(plain)}


def unsealed(document: Mapping[str, Any], name: str = "the document") -> dict[str, Any]:
    """The content of a sealed document; `DamagedError` when it has changed."""
    rest = {key: value for key, value in document.items() if key != SEAL}
    if document.get(SEAL) != content_sha256(rest):
        raise DamagedError(f"{name} was changed after it was written")
    return rest


def content_sha256(content: Any) -> str:
    """The SHA-256 of a JSON document, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# Folders


@dataclass
class Artefact:
    """A folder that is open.

    Attributes:
        folder: Where its files are.
        facts: What its manifest holds beside the files.
        files: Size and digests of each file, by name.
    """

    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """The path of one of its files; `DamagedError` for a file that it does not list."""
        if name not in self.files:
            raise DamagedError(f"{self.folder / name} is missing from the manifest")
        return self.folder / name

    def include(self, name: str) -> None:
        """List a file of the folder in the manifest."""
        path = self.folder / name
        self.files[name] = {"bytes": path.stat().st_size, SEAL: sha256_of(path)}
        if path.stat().st_size > READ_IN_FULL:
            self.files[name]["quick"] = quick_digest(path)

    def check(self, check: Check = "all", remedy: str = "make it again") -> None:
        """Compare every file with its size and digest.

        Args:
            check: How much is read: `all`, or `quick` for parts of large files.
            remedy: What to do, for the message.
        """
        for name, about in self.files.items():
            place = PurePosixPath(name)
            if place.is_absolute() or ".." in place.parts:
                raise DamagedError(
                    f"{self.folder / MANIFEST} lists {name!r}, outside of its folder"
                )
            path = self.folder / name
            if not path.is_file():
                raise DamagedError(f"{path} is missing; {remedy}")
            whole = check == "all" or "quick" not in about
            if whole:
                same = sha256_of(path) == about[SEAL]
            else:
                same = (
                    path.stat().st_size == about["bytes"] and quick_digest(path) == about["quick"]
                )
            if not same:
                raise DamagedError(
                    f"{path} was changed after it was written (edited or damaged); {remedy}"
                )


@contextmanager
def write_artefact(
    folder: Path, kind: str, version: int, *, replace: bool = False
) -> Iterator[Artefact]:
    """A temporary folder for files and `facts`, which is renamed to its final path when complete.

    Args:
        folder: Where it will be; an existing folder is an error unless `replace`.
        kind: What it is.
        version: The version of its layout; grows when older code could not read it.
        replace: Whether it may take the place of a folder.
    """
    with folder_written_atomically(folder, replace) as temporary:
        new = Artefact(temporary)
        yield new
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                new.include(file.relative_to(temporary).as_posix())
        write_manifest(temporary, kind, version, {**new.facts, "files": new.files})


def open_artefact(
    folder: Path, kind: str, version: int, *, check: Check = "all", remedy: str = "make it again"
) -> Artefact:
    """A folder that `write_artefact` has made, its files compared with their digests.

    Raises:
        FileNotFoundError: When there is no manifest.
        DamagedError: When it is of another kind or version, or not as it was written.
    """
    facts = read_manifest(folder, kind, version, remedy=remedy)
    files = facts.pop("files", {})
    if not isinstance(files, dict) or not all(
        isinstance(one, dict) and {"bytes", SEAL} <= one.keys() for one in files.values()
    ):
        raise DamagedError(f"{folder / MANIFEST} has no readable list of files; {remedy}")
    found = Artefact(folder, facts, files)
    found.check(check, remedy)
    return found


def write_manifest(folder: Path, kind: str, version: int, facts: Mapping[str, Any]) -> None:
    """Write or replace the manifest of a folder."""
    text = json.dumps(sealed({"kind": kind, "version": version, **facts}), indent=2)
    with written_atomically(folder / MANIFEST) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_manifest(
    folder: Path, kind: str, version: int, *, remedy: str = "make it again"
) -> dict[str, Any]:
    """The facts in a folder's manifest, `files` included; files are not looked at."""
    path = folder / MANIFEST
    if not path.exists():
        raise FileNotFoundError(f"{folder} is not a saved {kind}: it has no {MANIFEST}")
    try:
        document = read_json(path)
    except ValueError as error:
        raise DamagedError(f"{path} is not readable: {error}; {remedy}") from error
    if not isinstance(document, dict) or document.get("kind") != kind:
        found = document.get("kind") if isinstance(document, dict) else None
        raise DamagedError(f"{path} is of kind {found!r}, expected {kind!r}")
    facts = unsealed(document, str(path))
    if facts.pop("version") != version:
        raise DamagedError(
            f"{folder} has format version {document['version']}, and this version of nora reads version "
            f"{version}; {remedy}"
        )
    del facts["kind"]
    return facts
