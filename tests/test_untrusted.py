"""No folder runs code, whatever lies in it: every kind that is read, with a payload in every file of it."""

from __future__ import annotations

import gzip
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

import nora
import shell
from nora.datasets.ogbn_arxiv import FILES
from nora.datasets.ogbn_arxiv_stand_in import GRAPH, GUESSES
from nora.datasets.planetoid import PUBLISHED
from nora.datasets.twitter import PUBLISHED as TIMME
from nora.datasets.twitter import RELATIONS
from payload import KINDS, Payload, consistent, edited, of_earlier_version, put

MARK = Path("exploded")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of every kind of folder that is read, as it should be."""
    place = tmp_path_factory.mktemp("whole")
    run = nora.train("gcn", "karate", epochs=2, progress=False)
    run.save(place / "run")
    own = nora.datasets.Dataset("mine", nora.load_dataset("karate").data, 4)
    nora.train("gcn", own, epochs=1, progress=False).save(place / "own")
    shell.ok("prepare", place / "run")
    known = ("--nodes", "0,1,2,5,9,20,33", "--out")
    shell.ok("rank", place / "run", *known, place / "known.parquet")
    shell.ok("rank", place / "run", *known, place / "known.csv")
    shell.ok("tune", place / "run", "--labels", place / "known.parquet")
    shell.ok("rank", place / "run", "--method", "brute", "--checkpoint", place / "parts")
    (place / "pyg/processed").mkdir(parents=True)
    torch.save({"edge_index": run.data.edge_index}, place / "pyg/processed/data.pt")
    (place / "ogb/raw").mkdir(parents=True)
    with gzip.open(place / "ogb/raw/edge.csv.gz", "wt") as file:
        file.write("0,1\n1,2\n2,0\n")
    shell.ok("run", "--edges", place / "pyg", "--out", place / "results", "--method", "degree")
    return place


@pytest.fixture
def place(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(whole, tmp_path / "p")
    monkeypatch.chdir(tmp_path / "p")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("nora.explorer.serving.Explorer.wait", lambda explorer: explorer.close())
    return tmp_path / "p"


RUN = [
    "rank {} --method degree",
    "rank {} --method exact",
    "what-if {} --remove 1",
    "who {} --node 1",
    "group {} --size 2",
    "explore {} --no-browser",
    "prepare {} --out new",
]
# What reads each kind of folder; {} is its name.
READERS: dict[str, list[str]] = {
    "run": [*RUN, "rank {} --method nora --tuned", "tune {} --force"],
    "own": RUN,
    "parts": ["merge {} --out new.csv", "rank run --method brute --checkpoint {}"],
    "pyg": ["run --edges {} --out new --method degree"],
    "ogb": ["run --edges {} --out new --method degree"],
    "results": ["explore {} --no-browser"],
    "known.parquet": ["rank run --method predict-n --labels {}", "tune own --labels {}"],
    "known.csv": ["rank run --method predict-n --labels {}", "tune own --labels {}"],
}


def test_the_payloads_work(place: Path) -> None:
    for kind, made in KINDS.items():
        if kind in ("torch", "old torch"):
            put(Path("x.pt"), kind, MARK)
            torch.load("x.pt", weights_only=False)
        elif kind == "pickle":
            pickle.loads(made(Payload(MARK)))
        else:
            continue
        MARK.unlink()


def ask(command: str) -> None:
    """Whatever it answers, it answers in words: no traceback, and no payload has run."""
    result = shell.run(*command.split())
    assert not MARK.exists(), f"{command} ran the payload"
    assert result.exit_code in (0, 2), (command, result.exception, result.output)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("folder", READERS)
def test_no_file_of_a_folder_runs_code(folder: str, kind: str, place: Path) -> None:
    top = place / folder
    for file in [top] if top.is_file() else read_files(top):
        before = {one: one.read_bytes() for one in top.rglob("*") if one.is_file()}
        before |= {file: file.read_bytes()}
        put(file, kind, MARK)
        if file.name not in ("run.json", "manifest.json"):
            consistent(top)
            consistent(top / "run")
        commands = READERS[folder] if file.suffix != ".npy" else RUN[1:3]
        for command in commands if kind == "pickle" else commands[:3]:
            ask(command.format(folder))
        in_python(folder)
        assert not MARK.exists(), file
        for one, content in before.items():
            one.write_bytes(content)


def read_files(folder: Path) -> list[Path]:
    """The files of a folder that anything reads; of an engine's many arrays two."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    arrays = [file for file in files if file.suffix == ".npy"]
    unread = set(arrays[1:-1])
    if folder.name == "results":  # what its run holds is read as that of any other
        unread = {file for file in files if file.name not in ("scores.parquet", "run.json")}
    return [file for file in files if file not in unread]


def in_python(folder: str) -> None:
    """Open it without the command line."""
    readers: dict[str, Callable[[], Any]] = {
        "run": lambda: nora.load_run(folder).session(engine=f"{folder}/engine"),
        "own": lambda: nora.load_run(folder),
        "parts": lambda: nora.merge_checkpoints([folder]),
        "results": lambda: nora.load_run(f"{folder}/run"),
        "known.csv": lambda: nora.Influence.load(folder),
        "known.parquet": lambda: nora.Influence.load(folder),
    }
    with suppress(ValueError, OSError):
        readers.get(folder, list)()


def hostile_data(folder: Path) -> None:
    """A folder of datasets as `NORA_DATA` names one, of payloads alone."""
    for name, files in PUBLISHED.items():
        for file in files:
            put(folder / "Planetoid" / name / "raw" / file, "pickle", MARK)
        put(folder / "Planetoid" / name / "processed" / "data.pt", "torch", MARK)
    for file in GRAPH, GUESSES:
        put(folder / "ogbn_arxiv_graph" / file, "npz", MARK)
    for file in FILES:
        put(folder / "ogbn_arxiv" / file, "pickle", MARK)
    put(folder / "ogbn_arxiv" / "processed" / "geometric_data_processed.pt", "torch", MARK)
    for published in TIMME.values():
        for path in (*published.files, *(published.file(relation) for relation in RELATIONS)):
            put(folder / "TIMME" / path, "pickle", MARK)


OF_FILES = ["cora", "citeseer", "pubmed", "ogbn-arxiv", "ogbn-arxiv-stand-in", "pure-p", "p50"]


@pytest.mark.parametrize("dataset", OF_FILES)
@pytest.mark.parametrize("signed", [True, False])
def test_a_run_does_not_choose_what_is_read(
    dataset: str, signed: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("urllib.request.OpenerDirector.open", no_network)
    monkeypatch.delenv("NORA_DATA", raising=False)
    hostile_data(place / "run/data")
    edited(place / "run", dataset=dataset, data_folder="run/data")
    if not signed:
        of_earlier_version(place / "run", signed=False)
    with pytest.raises(nora.datasets.DatasetUnavailableError, match="NORA_DATA='run/data'"):
        nora.load_run("run")
    for command in RUN:
        result = shell.run(*command.format("run").split())
        assert result.exit_code == 2 and "folder if you trust" in result.output
        assert not MARK.exists()


@pytest.mark.parametrize("where", ["NORA_DATA", "cache"])
@pytest.mark.parametrize("dataset", OF_FILES)
def test_not_even_the_folder_of_datasets_runs_code(
    dataset: str, where: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NORA_DATA", raising=False)
    folder = place / "data" if where == "NORA_DATA" else place.parent / "cache" / "nora"
    hostile_data(folder)
    if where == "NORA_DATA":
        monkeypatch.setenv("NORA_DATA", str(folder))
    result = shell.run("train", "--dataset", dataset)
    assert not MARK.exists()
    assert result.exit_code == 2, result.exception
    if dataset in ("cora", "citeseer", "pubmed"):
        assert "is not the published file" in result.output


def no_network(*_: Any, **__: Any) -> None:
    raise OSError("no network")
