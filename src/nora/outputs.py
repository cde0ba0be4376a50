"""Checks of output paths: nothing is overwritten without --force, and inputs never.

Every command that writes asks here before any work, and passes `replace=force` on to what writes in the
end, so that a file that was created meanwhile is kept too:

    check_file(out, force, read_from(run, labels))     # one file
    check_table(out, force, read_from(run))            # a table, and what `save` puts beside it
    check_own_folder(folder, force, names, marks)       # a folder that is replaced as a whole
    …
    result.save(out, replace=force)

Light: no torch.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nora.artefact import MANIFEST, sha256_of
from nora.files import check_folder, check_regular, read_json
from nora.options import option
from nora.wording import listed

TABLES = (".csv", ".parquet")
# What a run holds; `tuned` is what 'nora tune' has found for it, `engine` what 'nora prepare' has made.
ENGINE = "engine"
# What a run of an earlier version has in place of a manifest.
OLD_RUN = "run.json"
RUN_FILES = (
    MANIFEST,
    OLD_RUN,
    "model.safetensors",
    "split.safetensors",
    "dataset.safetensors",
    "dataset.json",
    "tuned",
    ENGINE,
)


@dataclass(frozen=True)
class CommandInputs:
    """The files that a command reads, and therefore never overwrites.

    Attributes:
        files: Files, and folders with all that is in them.
        contents: Size and SHA-256 of files that a run was made from, wherever they are now.
    """

    files: tuple[Path, ...] = ()
    contents: frozenset[tuple[int, str]] = frozenset()

    def holds(self, path: Path) -> bool:
        """Whether `path`, which is there, is one of them."""
        real = path.resolve()
        for file in self.files:
            there = file.resolve()
            if real == there or there in real.parents or _same_file(real, there):
                return True
        if not path.is_file():
            return False
        size = path.stat().st_size
        return (
            any(size == other for other, _ in self.contents)
            and (
                size,
                sha256_of(path),
            )
            in self.contents
        )


def read_from(*sources: Path | None, made_from: Iterable[Mapping[str, Any]] = ()) -> CommandInputs:
    """The inputs of a command: what it reads, and what the runs among that were made from.

    Args:
        *sources: Files and folders; a run's manifest lists the files it was made from.
        made_from: More such files: `file`, `bytes` and `sha256` each.
    """
    files, origins = [], [*made_from]
    for source in (source for source in sources if source is not None):
        files += [source / name for name in RUN_FILES] if source.is_dir() else [source]
        files += [*source.glob("part-*.parquet")]
        for name in (MANIFEST, OLD_RUN):
            with suppress(OSError, ValueError, AttributeError, TypeError):  # no run, or damaged
                origins += read_json(source / name).get("inputs", ())
    contents = set()
    for origin in origins:
        with suppress(KeyError, ValueError, TypeError):  # what the run's own check refuses later
            files.append(Path(origin["file"]))
            contents.add((int(origin["bytes"]), str(origin["sha256"])))
    data = os.environ.get("NORA_DATA")
    if data:
        files.append(Path(data).expanduser())
    return CommandInputs(tuple(files), frozenset(contents))


def remedy() -> str:
    """The remedy if the output exists already."""
    return f"choose another {option('out')}, or add {option('force', True)} to replace it"


def check_file(path: Path, force: bool = False, inputs: CommandInputs | None = None) -> None:
    """Raise unless a file can be written to `path` without losing anything.

    Args:
        path: Where to.
        force: Something that is there may be replaced, unless it is an input.
        inputs: What is never replaced.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    check_regular(path)
    if os.path.lexists(path):
        if inputs is not None and inputs.holds(path):
            raise FileExistsError(
                f"{path} is an input of this run, which is never overwritten; choose another "
                f"{option('out')}"
            )
        if not force:
            raise FileExistsError(f"{path} exists already; {remedy()}")
    check_folder(path.absolute().parent)


def check_table(
    path: Path | None, force: bool = False, inputs: CommandInputs | None = None
) -> None:
    """Raise unless a table, and what stands beside it, can be written to `path`; None stands for no table."""
    if path is None:
        return
    if path.suffix not in TABLES:
        raise ValueError(f"cannot tell the format of {path.name!r}: use a .csv or .parquet name")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a .csv or .parquet file")
    check_file(path, force, inputs)
    for beside in (meta_beside(path), predictions_beside(path)):
        # What a killed process has left of a table that never came may be replaced.
        check_file(beside, force or _is_left_over(beside, path), inputs)


def meta_beside(table: Path) -> Path:
    """The path of a CSV file's provenance."""
    return table.with_name(table.name + ".meta.json")


def predictions_beside(table: Path) -> Path:
    """The path of the tensors of a result that are not in its table."""
    return table.with_name(table.name + ".predictions.safetensors")


def _is_left_over(beside: Path, table: Path) -> bool:
    if os.path.lexists(table) or not beside.is_file():
        return False
    if beside.suffix == ".safetensors":
        return True
    try:
        return "kind" in read_json(beside)
    except (OSError, ValueError, TypeError):
        return False


def check_own_folder(
    folder: Path, force: bool, names: Collection[str], marks: Collection[str], made_by: str
) -> None:
    """Raise unless a folder can be made, or one of ours be replaced with everything in it.

    Args:
        folder: Where to.
        force: Whether it may be replaced.
        names: What such a folder holds; anything else is the user's, and is never deleted.
        marks: The files of which one shows that it is one of ours.
        made_by: What makes such folders, for messages.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder")
    there = sorted(file.name for file in folder.iterdir()) if folder.exists() else []
    if there and not any(mark in there for mark in marks):
        raise FileExistsError(
            f"{folder} is not empty and was not made by {made_by} (no {next(iter(marks))}), so "
            f"{option('force', True)} does not replace it; choose another {option('out')}"
        )
    if there and not force:
        raise FileExistsError(f"{folder} exists already; {remedy()}")
    if others := [name for name in there if name not in names]:
        raise FileExistsError(
            f"{folder} holds files of yours ({listed(others, 3)}), so {option('force', True)} does not "
            "replace it"
        )
    check_folder(folder.absolute().parent)


def check_keeps(folder: Path, inputs: CommandInputs) -> None:
    """Raise when replacing `folder` would delete an input."""
    if not folder.is_dir():
        return
    real = folder.resolve()
    for file in inputs.files:
        if real in file.resolve().parents:
            raise FileExistsError(
                f"{file} is an input of this run, and lies in {folder}, which would be replaced; choose "
                f"another {option('out')}"
            )


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
