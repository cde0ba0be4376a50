"""One format of folders: sealed manifest, digests of all files, complete or not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nora import artefact
from nora.artefact import MANIFEST, DamagedError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "thing"
    with artefact.write_artefact(place, "thing", 1) as new:
        (new.folder / "a.json").write_text("[1, 2]")
        (new.folder / "part").mkdir()
        (new.folder / "part" / "b.npy").write_bytes(b"numbers")
        new.facts["seed"] = 3
    return place


def test_what_was_written_is_read(folder: Path) -> None:
    found = artefact.open_artefact(folder, "thing", 1)
    assert found.facts == {"seed": 3}
    assert sorted(found.files) == ["a.json", "part/b.npy"]
    assert found.path("part/b.npy").read_bytes() == b"numbers"
    with pytest.raises(DamagedError, match=r"c\.json"):
        found.path("c.json")


@pytest.mark.parametrize("check", ["quick", "all"])
def test_an_edited_or_missing_file_is_named(folder: Path, check: artefact.Check) -> None:
    (folder / "a.json").write_text("[1, 3]")
    with pytest.raises(DamagedError, match=r"a\.json.*train it"):
        artefact.open_artefact(folder, "thing", 1, check=check, remedy="train it")
    (folder / "a.json").unlink()
    with pytest.raises(DamagedError, match=r"a\.json is missing"):
        artefact.open_artefact(folder, "thing", 1, check=check)


def test_a_quick_check_reads_parts_of_large_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artefact, "READ_IN_FULL", 2**22)
    place = tmp_path / "large"
    with artefact.write_artefact(place, "thing", 1) as new:
        (new.folder / "x.npy").write_bytes(bytes(2**23))
    assert "quick" in artefact.open_artefact(place, "thing", 1, check="quick").files["x.npy"]
    with (place / "x.npy").open("r+b") as file:
        file.seek(2**23 - 5)
        file.write(b"!")
    with pytest.raises(DamagedError, match=r"x\.npy"):
        artefact.open_artefact(place, "thing", 1, check="quick")


def test_an_edited_manifest_is_noticed(folder: Path) -> None:
    document = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**document, "seed": 4}))
    with pytest.raises(DamagedError, match="changed after it was written"):
        artefact.open_artefact(folder, "thing", 1)


def test_another_kind_or_version_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="'thing', expected 'run'"):
        artefact.open_artefact(folder, "run", 1)
    with pytest.raises(DamagedError, match=r"version 1.*version 2"):
        artefact.open_artefact(folder, "thing", 2)
    with pytest.raises(FileNotFoundError, match="saved run"):
        artefact.open_artefact(tmp_path, "run", 1)
    (folder / MANIFEST).write_text("[")
    with pytest.raises(DamagedError, match="not readable"):
        artefact.open_artefact(folder, "thing", 1)


def test_a_manifest_cannot_name_files_elsewhere(folder: Path) -> None:
    document = json.loads((folder / MANIFEST).read_text())
    document["files"]["../x"] = {"bytes": 1, "sha256": ""}
    del document["sha256"]
    (folder / MANIFEST).write_text(json.dumps(artefact.sealed(document)))
    with pytest.raises(DamagedError, match="outside"):
        artefact.open_artefact(folder, "thing", 1)


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), artefact.write_artefact(tmp_path / "x", "thing", 1) as new:
        (new.folder / "a").write_text("a")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_folders_that_grow_have_a_manifest_alone(tmp_path: Path) -> None:
    artefact.write_manifest(tmp_path, "checkpoint", 1, {"columns": ["change"]})
    (tmp_path / "part-1.parquet").write_bytes(b"")
    assert artefact.read_manifest(tmp_path, "checkpoint", 1) == {"columns": ["change"]}
