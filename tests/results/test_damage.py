"""A bit that has flipped on the disk changes no number: the file is refused, or says what it said."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import nora
from nora.results.checkpoint import read_parts

FLIPS = 250


def outcomes(file: Path, read: Callable[[], Any]) -> Counter[str]:
    """What comes of reading a file with one bit flipped, many times."""
    raw, right = file.read_bytes(), read()
    draw, found = random.Random(file.suffix), Counter[str]()
    for _ in range(FLIPS):
        damaged = bytearray(raw)
        damaged[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        file.write_bytes(bytes(damaged))
        try:
            found["same" if read() == right else "other"] += 1
        except (ValueError, OSError):
            found["refused"] += 1
    file.write_bytes(raw)
    return found


def scores() -> nora.Influence:
    return nora.Influence(torch.rand(12), "brute", names=tuple(f"node {n}" for n in range(12)))


@pytest.mark.parametrize("name", ["s.parquet", "s.csv", "s.csv.meta.json"])
def test_scores_are_as_saved_or_refused(name: str, tmp_path: Path) -> None:
    path = scores().save(tmp_path / name.removesuffix(".meta.json"))

    def read() -> Any:
        found = nora.Influence.load(path)
        return found.scores.tolist(), found.method, found.task, found.names

    found = outcomes(tmp_path / name, read)
    assert found["other"] == 0 and found["refused"] > FLIPS / 3


def test_parts_of_a_checkpoint_are_as_written_or_refused(tmp_path: Path) -> None:
    run = nora.train("gcn", "karate", epochs=2, progress=False)
    run.influence("brute", checkpoint=tmp_path / "parts", progress=False)
    (part,) = (tmp_path / "parts").glob("part-*.parquet")
    found = outcomes(part, lambda: read_parts(tmp_path / "parts").to_numpy().tolist())
    assert found["other"] == 0 and found["refused"] > FLIPS / 3


def test_what_is_no_path_is_another_mistake() -> None:
    with pytest.raises(TypeError, match="path"):
        nora.Influence.load(3)  # type: ignore[arg-type]


# Whole files that say something else: no bit has flipped, so no checksum of Parquet's notices.


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    run = nora.train("gcn", "karate", epochs=2, progress=False)
    run.influence("degree", nodes=range(30), checkpoint=tmp_path / "parts", progress=False)
    return tmp_path / "parts"


def test_a_folder_in_place_of_a_part_is_refused(parts: Path) -> None:
    (parts / "part-zz.parquet").mkdir()
    with pytest.raises(ValueError, match="it is not a file"):
        nora.merge_checkpoints([parts])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"task": None}, "lacks a fingerprint"),
        ({"num_nodes": 33}, "changed"),
        ({"fingerprint": "abc", "sha256": None}, "its fingerprint is not a table"),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(
    change: dict, says: str, parts: Path
) -> None:
    path = parts / "manifest.json"
    reply = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({key: one for key, one in reply.items() if one is not None}))
    with pytest.raises(ValueError, match=says):
        nora.merge_checkpoints([parts])


@pytest.fixture
def exact_parts(tmp_path: Path) -> tuple[nora.Run, Path]:
    run = nora.train("gcn", "karate", epochs=2, progress=False)
    run.influence("brute", checkpoint=tmp_path / "exact", progress=False)
    return run, tmp_path / "exact"


def poisoned(folder: Path, value: float) -> None:
    """One influence of another value, in a file whose own checksums fit."""
    (part,) = folder.glob("part-*.parquet")
    frame = pd.read_parquet(part)
    frame.loc[3, "influence"] = value
    frame.to_parquet(part, index=False, write_page_checksum=True)


@pytest.mark.parametrize("value", [9999.0, float("inf"), -1.0, float("nan")])
def test_an_influence_that_cannot_be_is_refused(value: float, exact_parts: Any) -> None:
    run, folder = exact_parts
    poisoned(folder, value)
    says = rf"exact: the value of 3 is {value}, expected a number from 0 to 68"
    with pytest.raises(ValueError, match=says):
        nora.merge_checkpoints([folder])
    with pytest.raises(ValueError, match=says):
        run.influence("brute", checkpoint=folder, progress=False)


def test_influences_that_the_model_does_not_give_are_refused(exact_parts: Any) -> None:
    run, folder = exact_parts
    (part,) = folder.glob("part-*.parquet")
    frame = pd.read_parquet(part)
    frame["influence"] += 1.0
    frame.to_parquet(part, index=False, write_page_checksum=True)
    with pytest.raises(ValueError, match=r"influence of node \d+.*model gives"):
        run.influence("brute", checkpoint=folder, progress=False)
