"""What is done, how one sees that it is done, and whether it is right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import nora
from nora.artefact import sha256_of

TIES = "source,target\n" + "".join(
    f"n{a},n{(a * step + 1) % 20}\n" for a in range(20) for step in (3, 7, 11)
)


@dataclass(frozen=True)
class Errand:
    """A command about a place of its own.

    Attributes:
        name: What it is called.
        command: What is typed, in a place.
        result: What is there once it is done, and only then.
        facts: What must be the same whenever it is done; raises for what is not whole.
        prepare: What must be there before.
    """

    name: str
    command: Callable[[Path], list[Any]]
    result: Callable[[Path], Path]
    facts: Callable[[Path], Any]
    prepare: Callable[[Path, Path], None] = lambda _, __: None


def scores_of(path: Path) -> list[float]:
    return [round(value, 5) for value in nora.Influence.load(path).scores.tolist()]


def _weights(folder: Path) -> Any:
    return {
        key: value.double().sum().item()
        for key, value in nora.load_run(folder).model.state_dict().items()
    }


def _tables(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))["tables"]


def _copy_run(source: Path, place: Path) -> None:
    shutil.copytree(source / "run", place / "run")


def _table(path: Path) -> list[tuple[Any, ...]]:
    rows = pd.read_csv(path).round(5)
    return sorted(rows.itertuples(index=False, name=None))


def _with_edges(_: Path, place: Path) -> None:
    (place / "edges.csv").write_text(TIES)


ERRANDS = (
    Errand(
        "run",
        lambda p: ["run", "--edges", p / "edges.csv", "--out", p / "out", "--epochs", 5],
        lambda p: p / "out",
        lambda p: (scores_of(p / "out/scores.csv"), _weights(p / "out/run")),
        _with_edges,
    ),
    Errand(
        "train",
        lambda p: ["train", "--dataset", "karate", "--epochs", 40, "--out", p / "out"],
        lambda p: p / "out",
        lambda p: _weights(p / "out"),
    ),
    Errand(
        "rank",
        lambda p: f"rank {p}/run --method brute --checkpoint {p}/parts --out {p}/out.csv".split(),
        lambda p: p / "out.csv",
        lambda p: scores_of(p / "out.csv"),
        _copy_run,
    ),
    Errand(
        "tune",
        lambda p: ["tune", p / "run", "--share", 0.3],
        lambda p: p / "run/tuned/nora.json",
        lambda p: nora.Tuned.load(p / "run/tuned/nora.json").options,
        _copy_run,
    ),
    Errand(
        "reproduce",
        lambda p: [
            *[
                "reproduce",
                "ablation",
                "--datasets",
                "karate",
                "--models",
                "gcn",
                "--tasks",
                "node",
            ],
            *f"--profile quick --cycles 1 --cache {p}/cache --out {p}/out".split(),
        ],
        lambda p: p / "out/ablation.json",
        lambda p: _tables(p / "out/ablation.json"),
    ),
    Errand(
        "what-if",
        lambda p: ["what-if", p / "run", "--remove", 3, "--out", p / "out.csv"],
        lambda p: p / "out.csv",
        lambda p: round(nora.Effect.load(p / "out.csv").total, 5),
        _copy_run,
    ),
    Errand(
        "edges",
        lambda p: ["rank", p / "run", "--edges", "--out", p / "out.csv"],
        lambda p: p / "out.csv",
        lambda p: _table(p / "out.csv"),
        _copy_run,
    ),
    Errand(
        "group",
        lambda p: ["group", p / "run", "--size", 3, "--out", p / "out.csv"],
        lambda p: p / "out.csv",
        lambda p: _table(p / "out.csv"),
        _copy_run,
    ),
    Errand(
        "flip",
        lambda p: ["flip", p / "run", 3, "--out", p / "out.json"],
        lambda p: p / "out.json",
        lambda p: json.loads((p / "out.json").read_text(encoding="utf-8")),
        _copy_run,
    ),
)


def make_source(folder: Path) -> None:
    """The run that others are about."""
    nora.train("gcn", "karate", epochs=5, progress=False).save(folder / "run")


def inputs(place: Path) -> dict[str, str]:
    """What commands read: it must never change."""
    read = [*place.glob("edges.csv"), *place.glob("run/*.safetensors"), *place.glob("run/*.json")]
    return {str(file): sha256_of(file) for file in read}


def finished_parts(place: Path) -> dict[str, str]:
    """Finished work that must survive whatever comes: parts of checkpoints, cached results."""
    kept = [*place.glob("parts/part-*.parquet"), *place.glob("cache/**/[!.]*.parquet")]
    return {str(file): sha256_of(file) for file in kept}


def left_over(place: Path) -> int:
    """What killed processes have left half written, under names that are not read."""
    return sum(1 for file in place.rglob(".*"))
