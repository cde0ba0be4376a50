"""A kept engine that is damaged, or of another model, task or version, is refused; nothing in it is run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nora
from graphs import hundred, labelled_camps
from networks import network, patchwork
from nora.artefact import MANIFEST, quick_digest, sha256_of
from nora.engine.store.array_folder import _manifest_digest
from payload import with_digests

pytestmark = pytest.mark.usefixtures("everything_is_large")


def refused(folder: Path, model: nn.Module, words: str, **more: Any) -> None:
    with pytest.raises(ValueError, match=words):
        nora.Session.open(folder, model, **more)


def test_every_damaged_byte_is_noticed(engine) -> None:
    folder, model = engine
    files = sorted(folder.glob("*.npy"))
    assert len(files) > 10
    for file in files[::4]:
        whole = file.read_bytes()
        for damaged in (
            whole[: len(whole) // 2],
            whole[:-1] + bytes([whole[-1] ^ 1]),
            whole + b"\0",
            b"",
        ):
            file.write_bytes(damaged)
            refused(folder, model, file.name)
        file.unlink()
        refused(folder, model, f"{file.name} is missing")
        file.write_bytes(whole)
    nora.Session.open(folder, model, check="all")


def test_large_files_are_looked_at_in_parts_or_in_full(engine, monkeypatch) -> None:
    monkeypatch.setattr("nora.artefact.READ_IN_FULL", 1000)
    monkeypatch.setattr("nora.artefact.END", 64)
    monkeypatch.setattr("nora.artefact.BLOCKS", 2)
    monkeypatch.setattr("nora.artefact.BLOCK", 8)
    model = network("gcn")
    data = hundred()
    data.x = data.x[:, :3]
    folder = nora.prepare(model, data, engine[0].with_name("larger"), progress=False)
    files = json.loads((folder / MANIFEST).read_text())["files"]
    rows = max(
        (f for f in files if f["file"] and f["dtype"] == "float64"), key=lambda f: f["bytes"]
    )
    file = folder / rows["file"]
    whole = bytearray(file.read_bytes())
    whole[210] ^= 1
    file.write_bytes(whole)
    nora.Session.open(folder, model)
    refused(folder, model, "was changed", check="all")
    whole[-1] ^= 1
    file.write_bytes(whole)
    refused(folder, model, "was changed")


def test_a_manifest_that_was_changed_is_refused(engine) -> None:
    folder, model = engine
    path = folder / MANIFEST
    text = path.read_text()
    manifest = json.loads(text)
    manifest["num_nodes"] += 1
    path.write_text(json.dumps(manifest))
    refused(folder, model, "was changed")
    path.write_text(text[:-100])
    refused(folder, model, "damaged")
    path.write_text("[]")
    refused(folder, model, "not the manifest")
    path.unlink()
    with pytest.raises(FileNotFoundError, match="holds no prepared engine"):
        nora.Session.open(folder, model)


def rewritten(folder: Path, **facts: Any) -> None:
    """A manifest that says something else, and is consistent with itself."""
    path = folder / MANIFEST
    manifest = {**json.loads(path.read_text()), **facts}
    manifest["sha256"] = _manifest_digest(manifest)
    path.write_text(json.dumps(manifest))


def test_another_version_is_refused(engine) -> None:
    folder, model = engine
    rewritten(folder, nora="0.0.1")
    refused(folder, model, r"prepared by nora 0\.0\.1")
    rewritten(folder, format=99)
    refused(folder, model, "format 99")


def test_another_model_is_refused(engine) -> None:
    folder, model = engine
    refused(folder, patchwork(seed=3), "another model")
    refused(folder, network("gcn"), "another model")
    with torch.no_grad():
        model.shared.bias[0] += 1e-6
    refused(folder, model, "another model")


def test_another_task_or_call_is_refused(engine) -> None:
    folder, model = engine
    refused(folder, model, "another task", task=nora.NodeRegression())
    refused(folder, model, "way it is called", forward=lambda m, d: m(d.x, d.edge_index) * 2)


def test_a_plan_of_other_steps_is_refused(engine) -> None:
    folder, model = engine
    kept = json.loads((folder / MANIFEST).read_text())["engine"]
    kept["plan"][0][0] = "SomethingElse"
    rewritten(folder, engine=kept)
    refused(folder, model, "differs from the saved one")
    kept["recording"]["sizes"][0]["operations"].pop()
    rewritten(folder, engine=kept)
    refused(folder, model, "operations differ")


class Trap:
    def __reduce__(self):
        return (Path.touch, (Path("trap"),))


def test_nothing_in_it_is_executed(engine, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder, model = engine
    manifest = json.loads((folder / MANIFEST).read_text())
    first = next(one for one in manifest["files"] if one["file"])
    file = folder / first["file"]
    np.save(file, np.array([Trap()], dtype=object), allow_pickle=True)
    assert pickle.dumps(Trap())[:2] in file.read_bytes()
    first |= {
        "bytes": file.stat().st_size,
        "sha256": sha256_of(file),
        "quick": quick_digest(file),
    }
    rewritten(folder, files=manifest["files"])
    with pytest.raises(ValueError, match=r"holds no array.*numbers: Object arrays"):
        nora.Session.open(folder, model)
    assert not Path("trap").exists()


def test_files_outside_of_the_folder_are_not_read(engine) -> None:
    folder, model = engine
    files = json.loads((folder / MANIFEST).read_text())["files"]
    first = next(one for one in files if one["file"])
    (folder / first["file"]).rename(folder.parent / first["file"])
    first["file"] = f"../{first['file']}"
    rewritten(folder, files=files)
    refused(folder, model, "is missing")


def test_an_engine_whose_numbers_were_changed_is_refused(engine) -> None:
    folder, model = engine
    manifest = json.loads((folder / MANIFEST).read_text())
    floats = [one for one in manifest["files"] if one["file"] and one["dtype"].startswith("float")]
    changed = 0
    for about in floats:
        file = folder / about["file"]
        whole, before = file.read_bytes(), (folder / MANIFEST).read_text()
        np.save(file, np.load(file) * 3 + 7)
        with_digests(folder)
        try:
            session = nora.Session.open(folder, model, data=labelled_camps())
        except ValueError as error:
            assert "not answer as the model" in str(error)
            changed += 1
        else:  # an array that no answer depends on
            right = nora.Session(model, labelled_camps()).what_if(3)
            assert torch.allclose(session.what_if(3).after, right.after, equal_nan=True)
        file.write_bytes(whole)
        (folder / MANIFEST).write_text(before)
    assert changed >= 8


@pytest.mark.parametrize(
    "facts",
    [
        {"files": [3]},
        {"files": {"a": 1}},
        {"graph": {}},
        {"graph": 3},
        {"engine": {}},
        {"engine": {"objects": {}}},
        {"output": 99},
        {"output": None},
        {"verified": [1]},
        {"verified": {"verified": "many"}},
        {"fingerprint": {}},
        {"task": 3},
    ],
    ids=str,
)
def test_a_manifest_that_describes_no_engine_is_refused(engine, facts: dict[str, Any]) -> None:
    folder, model = engine
    rewritten(folder, **facts)
    refused(folder, model, r"manifest\.json|another model")
