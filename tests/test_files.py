"""A file or folder is there complete, or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from nora.files import (
    _prefix,
    _umask,
    folder_written_atomically,
    read_json,
    write_tensors,
    written_atomically,
)


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    with written_atomically(path) as temporary:
        temporary.write_text("half")
        assert not path.exists()
        assert temporary.parent == path.parent
        temporary.write_text("whole")
    assert path.read_text() == "whole"
    assert [file.name for file in path.parent.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_an_interrupted_file_leaves_what_was_there(
    error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(error), written_atomically(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_a_file_gets_the_permissions_of_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        with written_atomically(tmp_path / "file") as temporary:
            temporary.write_text("x")
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(mask)


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """No file grows beyond so many bytes."""
    resource = pytest.importorskip("resource")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    with full_disk(10):
        with pytest.raises(OSError, match=r"scores\.csv'$"), written_atomically(path) as temporary:
            temporary.write_text("a" * 100)
        with (
            pytest.raises(OSError, match=r"weights'$"),
            written_atomically(tmp_path / "weights") as file,
        ):
            write_tensors({"a": torch.ones(100)}, file)
        with (
            pytest.raises(OSError, match=r"run'$"),
            folder_written_atomically(tmp_path / "run") as folder,
        ):
            write_tensors({"a": torch.ones(100)}, folder / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_json_is_read_or_the_reason_given(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text, says in (("{", "it is not JSON"), ("[" * 100_000, "nested too deeply")):
        path.write_text(text)
        with pytest.raises(ValueError, match=says):
            read_json(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a pipe, not a file"):
        read_json(tmp_path / "pipe")


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with folder_written_atomically(folder) as temporary:
        (temporary / "a").write_text("a")
        assert not folder.exists()
    assert [file.name for file in folder.iterdir()] == ["a"]
    assert list(tmp_path.iterdir()) == [folder]


def test_an_existing_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with (
        pytest.raises(FileExistsError, match="run exists already; choose another folder"),
        folder_written_atomically(tmp_path / "run"),
    ):
        pytest.fail("the work was started")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("replace", [False, True])
def test_an_interrupted_folder_leaves_what_was_there(
    error: type[BaseException], replace: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    if replace:
        folder.mkdir()
        (folder / "old").write_text("old")
    with pytest.raises(error), folder_written_atomically(folder, replace) as temporary:
        (temporary / "half").write_text("half")
        raise error
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == (["run", "run/old"] if replace else [])


def test_a_replaced_folder_has_only_the_new_content(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "old").write_text("old")
    with folder_written_atomically(folder, replace=True) as temporary:
        (temporary / "new").write_text("new")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "run",
        "run/new",
    ]


def test_a_folder_that_comes_meanwhile_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with (
        pytest.raises(FileExistsError, match="created meanwhile"),
        folder_written_atomically(folder) as temporary,
    ):
        (temporary / "ours").write_text("ours")
        folder.mkdir()
        (folder / "theirs").write_text("theirs")
    assert [file.name for file in tmp_path.rglob("*")] == ["run", "theirs"]


@pytest.mark.parametrize("system", ["linux", "elsewhere"])
def test_folders_change_places_on_every_system(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nora.files.sys.platform", system)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "old").write_text("old")
    with folder_written_atomically(folder, replace=True) as temporary:
        (temporary / "new").write_text("new")
    assert [file.name for file in tmp_path.rglob("*")] == ["run", "new"]


def test_a_file_system_without_links_is_written_to_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with written_atomically(tmp_path / "a", replace=False) as temporary:
        temporary.write_text("ours")
    with (
        pytest.raises(FileExistsError, match="left as it is"),
        written_atomically(tmp_path / "a", replace=False) as temporary,
    ):
        temporary.write_text("again")
    assert (tmp_path / "a").read_text() == "ours"


def test_a_place_that_cannot_be_written_is_named_and_not_the_temporary_file() -> None:
    with (
        pytest.raises(OSError, match=r"'/proc/scores\.csv'"),
        written_atomically(Path("/proc/scores.csv")),
    ):
        pytest.fail("the work was started")


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    killed = subprocess.Popen([sys.executable, "-c", "pass"])
    killed.wait()
    mine = str(os.getpid())
    for name in ("run", "table.csv"):
        prefix = _prefix(tmp_path / name)
        (tmp_path / prefix.replace(mine, str(killed.pid))).mkdir()
        (tmp_path / f"{prefix}alive").mkdir()
    (tmp_path / ".run.of-yours").mkdir()
    with folder_written_atomically(tmp_path / "run"):
        pass
    with written_atomically(tmp_path / "table.csv") as temporary:
        temporary.write_text("a")
    left = sorted(file.name for file in tmp_path.iterdir())
    kept = [f"{_prefix(tmp_path / name)}alive" for name in ("run", "table.csv")]
    assert left == sorted([".run.of-yours", "run", "table.csv", *kept])


def test_the_umask_is_read_without_being_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("changed"))
        assert _umask() == 0o027
    finally:
        monkeypatch.undo()
        os.umask(before)
