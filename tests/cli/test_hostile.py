"""Hostile and broken input: one line that helps, nothing run, nothing lost, nothing half written."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import nora
from payload import Payload
from shell import ok, refused

Files = dict[str, bytes]
EDGES = "source,target\n" + "".join(f"n{a},n{(a * 7 + 3) % 12}\n" for a in range(12) for _ in "ab")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of everything, as it should be: a run, one of one's own graph, tables, checkpoints, labels."""
    place = tmp_path_factory.mktemp("whole")
    nora.train("gcn", "karate", epochs=2, progress=False).save(place / "run")
    nora.train("gcn", "karate", "link", epochs=1, progress=False).save(place / "links")
    names = tuple(f"node {number}" for number in range(34))
    own = nora.datasets.Dataset("edges", nora.load_dataset("karate").data, 4, node_names=names)
    nora.train("gcn", own, epochs=1, progress=False).save(place / "own")
    ok("rank", place / "run", "--method", "brute", "--checkpoint", place / "part")
    ok("rank", place / "run", "--method", "degree", "--checkpoint", place / "other")
    nodes = "member 1,member 2,member 5,member 9,member 20,member 33"
    for suffix in ("csv", "parquet"):
        ok("rank", place / "run", "--nodes", nodes, "--out", place / f"known.{suffix}")
    ok("what-if", place / "run", "--remove", "member 1", "--out", place / "effect.csv")
    ok("tune", place / "run", "--labels", place / "known.parquet")
    (place / "edges.csv").write_text(EDGES)
    (place / "file").write_text("a file")
    (place / "folder.csv").mkdir()
    (place / "mine").mkdir()
    (place / "mine" / "thesis.tex").write_text("mine")
    return place


@pytest.fixture
def place(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(whole, tmp_path / "p")
    monkeypatch.chdir(tmp_path / "p")
    return tmp_path / "p"


def content(place: Path) -> Files:
    return {
        str(file.relative_to(place)): file.read_bytes() if file.is_file() else b"(folder)"
        for file in place.rglob("*")
    }


def is_refused(place: Path, args: list[Any], says: str) -> None:
    """One line on standard error that says this, and not a byte in the folder has changed."""
    before = content(place)
    message = refused(*args)
    assert says in message, message
    assert len(message) < 900
    assert content(place) == before


# What is typed.

TYPED: list[tuple[str, str]] = [
    ("rank nowhere", "nowhere is not a trained run"),
    ("rank file", "file is a file; a trained run is a folder"),
    ("rank mine", "mine is not a trained run"),
    ("rank run --method magic", "unknown method 'magic'"),
    ("rank run --method Exact", "Did you mean 'exact'?"),
    ("rank run --top 0", "--top"),
    ("rank run --top ten", "--top"),
    ("rank run --top -1", "--top"),
    ("rank run --topp 3", "No such option"),
    ("rank run --tpo 3", "--top"),
    ("rank run --out scores.xlsx", "use a .csv or .parquet name"),
    ("rank run --out scores", "use a .csv or .parquet name"),
    ("rank run --out folder.csv", "folder.csv is a folder"),
    ("rank run --out file/scores.csv", "is a file"),
    ("rank run --out known.csv", "or add --force"),
    ("rank run --out run/tuned/nora-labels.parquet --force", "is an input of this run"),
    ("rank run --labels known.csv --out known.csv --force", "is an input of this run"),
    ("rank run --option tolerance", "not of the form key=value"),
    ("rank run --option =3", "not of the form key=value"),
    ("rank run --method exact --option tolerance=low", "takes a number, got 'low'"),
    ("rank run --method exact --option tolerance=-1", "tolerance"),
    ("rank run --method exact --option tolerance=true", "takes a number, got True"),
    ("rank run --method exact --option speed=3", "has no option 'speed'"),
    ("rank run --method exact --option workers=all", "takes a whole number or None"),
    ("rank run --method nora --option betta=1", "Did you mean 'beta'?"),
    ("rank run --method nora --option weighting=1", "takes 'sum' or 'own'"),
    ("rank run --method nora --option k1=7", "out of range"),
    ("rank run --method cauchy --option samples=2.5", "takes a whole number, got 2.5"),
    ("rank run --method cauchy --option seed=99999999999999999999", "must fit into 64 bits"),
    ("rank run --budget soon", "--budget"),
    ("rank run --budget -1", "budget must be positive"),
    ("rank run --budget nan", "budget must be positive"),
    ("rank run --method exact --budget 3", "--budget is for --method auto or --certify"),
    ("rank run --certify --method exact", "leave out --nodes"),
    ("rank run --certify --budget 0", "budget must be positive"),
    ("rank run --nodes 99", "node 99 is out of range"),
    ("rank run --nodes membre_1", "no node is named 'membre_1'"),
    ("rank run --nodes 'membr 2'", "Did you mean 'member 2'?"),
    ("rank run --nodes ,", "no node is named: give ids or names"),
    ("rank run --targets member_1", "Did you mean"),
    ("rank run --method degree --targets 1", "does not look at predictions"),
    ("rank links --targets 9999", "is out of range"),
    ("rank links --targets x", "invalid pair 'x'"),
    ("rank run --shard 0/2", "not of the form i/n"),
    ("rank run --shard 3/2", "not of the form i/n"),
    ("rank run --shard 1", "not of the form i/n"),
    ("rank run --shard 1/2", "--shard needs --checkpoint or --out"),
    ("rank run --shard 40/99 --checkpoint new --method brute", "is empty: there are 34 nodes"),
    ("rank run --checkpoint file", "is a file"),
    ("rank run --method brute --checkpoint mine", "is not empty and not a checkpoint"),
    ("rank run --method brute --checkpoint other", "belongs to another run"),
    ("rank links --method brute --checkpoint part", "belongs to another run"),
    ("rank run --tuned --paper", "choose one"),
    ("rank run --method mask --tuned", "'nora tune' makes one"),
    ("rank run --method nora --paper", "paper publishes no options of 'nora'"),
    ("rank run --method predict-n", "label"),
    ("rank run --method predict-n --labels nowhere.csv", "no such file: nowhere.csv"),
    ("rank run --method predict-n --labels file", "cannot tell the format of 'file'"),
    ("rank run --method predict-n --labels effect.csv", "holds 'effect', expected 'influence'"),
    ("rank run --method predict-n --labels edges.csv", "needs its provenance file"),
    ("rank run --edges --certify", "leave out --edges"),
    ("rank run --edges --nodes 3", "leave out --nodes"),
    ("rank run --edges --option budget=3", "no option 'budget'"),
    ("rank run --measure flip", "Did you mean 'flips'"),
    ("rank run --measure loss:tset", "Did you mean 'test'"),
    ("rank run --measure class:9", "'9' is not a class of this model"),
    ("rank run --measure flips --method cauchy", "use --method exact"),
    ("rank run --by colour", "not an attribute of the nodes"),
    ("top run --top 0", "'--top'"),
    ("top run --budget 0", "budget must be positive"),
    ("top run --targets 99", "target 99 is out of range"),
    ("top run --measure flip", "Did you mean 'flips'"),
    ("top run --out top.txt", "use a .csv or .parquet name"),
    ("fragile run --by node", "must be nodes or edges"),
    ("fragile links", "predicts classes"),
    ("flip run 99", "out of range"),
    ("flip run 1,2", "ask about one at a time"),
    ("flip run 1 --by links", "must be nodes or edges"),
    ("flip run 1 --to 9", "'9' is not a class of this model"),
    ("flip run 1 --out edits.txt", "use a .json name"),
    ("what-if run", "give --remove 17"),
    ("what-if run --remove 34", "node 34 is out of range"),
    ("what-if run --remove -1", "out of range"),
    ("what-if run --remove @missing", "no node is named"),
    ("what-if own --remove", "requires an argument"),
    ("what-if run --remove-edge 3", "not of the form A-B"),
    ("what-if run --remove-edge member", "not of the form A-B"),
    ("what-if run --remove-edge a-b", "no node is named 'a'"),
    ("what-if run --remove-edge 0-33", "edge 0–33 is not in the graph"),
    ("what-if run --remove-edge 0-34", "node 34 is out of range"),
    ("what-if run --add-edge 0-1", "edge 0–1 is in the graph already"),
    ("what-if run --set nowhere.csv", "no such file: nowhere.csv"),
    ("what-if nowhere --remove 1", "nowhere is not a trained run"),
    ("what-if run --remove x --out effect.csv", "effect.csv exists already"),
    ("who run --node missing", "no node is named 'missing'"),
    ("who run --node 99", "out of range"),
    ("who run --node 1,2", "one at a time"),
    ("who run", "Missing option '--node'"),
    ("who run --node a --top 0", "--top"),
    ("group run --size 0", "--size"),
    ("group run --size 34", "which is every node"),
    ("group run --size 35", "must be 1 … 34"),
    ("group run --recheck -1", "--recheck"),
    ("group run --candidates missing", "no node is named 'missing'"),
    ("group run --out known.csv", "known.csv exists already"),
    ("group run --out group.txt", "use a .csv or .parquet name"),
    ("tune run", "nora is tuned. Add --force to tune it again"),
    ("tune run --method exact", "nothing to tune"),
    ("tune run --method norra", "Did you mean 'nora'?"),
    ("tune own --share 2", "--share"),
    ("tune own --share 0", "share"),
    ("tune own --share 0.01", "label more nodes"),
    ("tune own --trials 0", "--trials"),
    ("tune own --seed -1", "--seed"),
    ("tune own --labels nowhere.csv", "no such file: nowhere.csv"),
    ("tune nowhere", "nowhere is not a trained run"),
    ("merge part", "Missing option '--out'"),
    ("merge --out new.csv", "Missing argument"),
    ("merge nowhere --out new.csv", "nowhere is not a checkpoint"),
    ("merge file --out new.csv", "file is not a checkpoint"),
    ("merge run --out new.csv", "run is not a checkpoint"),
    ("merge part other --out new.csv", "belongs to another run"),
    ("merge part --out known.parquet", "known.parquet exists already"),
    ("train", "Missing option '--dataset'"),
    ("train --dataset karat", "Did you mean 'karate'?"),
    ("train --dataset karate --model gnc", "Did you mean 'gcn'?"),
    ("train --dataset karate --task edge", "must be 'node' or 'link'"),
    ("train --dataset karate --epochs 0", "--epochs"),
    ("train --dataset karate --hidden 0", "--hidden"),
    ("train --dataset karate --layers 0", "--layers"),
    ("train --dataset karate --dropout 2", "--dropout"),
    ("train --dataset karate --lr -1", "--lr"),
    ("train --dataset karate --cycle 9", "cycle"),
    ("train --dataset karate --seed 99999999999999999999", "must fit into 64 bits"),
    ("train --dataset karate --seed -1", "--seed"),
    ("train --dataset karate --out run", "run exists already"),
    ("train --dataset karate --out mine --force", "was not made by 'nora train'"),
    ("train --dataset karate --out file", "file is a file; name a folder"),
    ("train --dataset karate --out file/run", "is a file, so nothing can be written"),
    ("train --dataset karate --paper", "the paper gives no settings for gcn on karate"),
    ("train --dataset karate --model timme", "graphs with several relations"),
    ("run", "Missing option '--edges'"),
    ("run --edges nowhere.csv", "no such file: nowhere.csv"),
    ("run --edges folder.csv", "folder.csv is a folder"),
    ("run --edges file", "unknown format of 'file'"),
    ("run --edges edges.csv --model gnc", "Did you mean 'gcn'?"),
    ("run --edges edges.csv --method magic", "unknown method 'magic'"),
    ("run --edges edges.csv --also degre", "Did you mean 'degree'?"),
    ("run --edges edges.csv --task edge", "must be 'node' or 'link'"),
    ("run --edges edges.csv --task node", "give --labels"),
    ("run --edges edges.csv --encoding magic", "magic"),
    ("run --edges edges.csv --top 0", "--top"),
    ("run --edges edges.csv --out mine --force", "was not made by 'nora run'"),
    ("run --edges edges.csv --out file", "file is a file; name a folder"),
    ("run --edges edges.csv --method predict-n", "learns from known influences"),
    ("run --edges edges.csv --method degree --also degree", "names a method twice"),
    ("run --edges edges.csv --also auto", "--also names a method twice"),
    ("run --edges edges.csv --also predict-n", "learns from known influences"),
    ("run --edges edges.csv --seed 99999999999999999999", "must fit into 64 bits"),
    ("run --edges edges.csv --seed -1", "--seed"),
    ("example mine", "mine exists already; name a new folder"),
    ("example file", "file exists already; name a new folder"),
    ("example file/new", "is a file, so nothing can be written"),
    ("demo --method magic", "unknown method 'magic'"),
    ("demo --out file", "is a file, so nothing can be written"),
    ("reproduce", "Missing argument"),
    ("reproduce citaton", "Did you mean 'citation'?"),
    ("reproduce citation --datasets core", "Did you mean 'cora'?"),
    ("reproduce citation --models gnc", "Did you mean 'gcn'?"),
    ("reproduce citation --datasets ,", "no name is given"),
    ("reproduce citation --tasks edge", "--tasks names 'edge'"),
    ("reproduce citation --profile huge", "unknown profile 'huge'"),
    ("reproduce citation --cycles 9", "--cycles"),
    ("reproduce citation --share 0", "--share must lie between 0 and 1"),
    ("reproduce citation --out file", "is a file, so nothing can be written"),
    ("reproduce skew --profile qick", "Did you mean 'quick'?"),
    ("reproduce skew --finished", "puts cells together"),
    ("reproduce skew --beside skew.json", "--with and --beside are for"),
    ("reproduce citation --protocol publish", "Did you mean 'published'?"),
    ("reproduce citation --protocol published --datasets karate", "no options of 'nora'"),
    ("reproduce citation --datasets karate --finished --cache new", "none of 8 cells is finished"),
    ("rnak run", "No such command"),
    ("--colour", "No such option"),
]


@pytest.mark.parametrize(("typed", "says"), TYPED, ids=[typed for typed, _ in TYPED])
def test_wrong_input_is_explained(typed: str, says: str, place: Path) -> None:
    is_refused(place, shlex.split(typed), says)


# Files that are damaged, edited, exchanged or gone.


BOMB = Payload(Path("exploded"))


def flip(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda _: None,
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "flipped": flip,
    "longer": lambda data: data + b"\n ",
    "zeros": lambda data: bytes(len(data)),
    "pickle": lambda _: pickle.dumps(BOMB),
}
RUN_FILES = [
    ("run", "model.safetensors"),
    ("run", "split.safetensors"),
    ("own", "dataset.safetensors"),
    ("own", "dataset.json"),
    ("own", "model.safetensors"),
]


def damaged(*files: tuple[str, str]) -> Iterator[tuple[str, str, str]]:
    return ((folder, name, how) for folder, name in files for how in DAMAGE)


def do(path: Path, how: str) -> None:
    after = DAMAGE[how](path.read_bytes())
    path.unlink()
    if after is not None:
        path.write_bytes(after)


@pytest.mark.parametrize(("folder", "name", "how"), list(damaged(*RUN_FILES)))
def test_a_damaged_run_is_refused_by_the_file(
    folder: str, name: str, how: str, place: Path
) -> None:
    do(place / folder / name, how)
    says = "is missing" if how == "gone" else "was changed"
    is_refused(place, ["what-if", folder, "--remove", "member 1"], f"{folder}/{name} {says}")


SETTINGS: dict[str, Any] = {
    "in_channels": ("architecture", "in_channels", 10**12),
    "hidden": ("architecture", "sizes", {"hidden_channels": 10**9}),
    "layers": ("architecture", "sizes", {"num_layers": 10**9}),
    "model": ("architecture", "name", "../../etc/passwd"),
    "dataset": ("dataset", None, "cora"),
    "path": ("dataset", None, "/etc/passwd"),
    "task": ("task", None, "link"),
    "seed": ("seed", None, "0"),
    "cycle": ("cycle", None, 3),
    "metrics": ("metrics", None, {"test_accuracy": 1.0}),
    "graph": ("graph", None, "0"),
    "checksums": ("files", None, {}),
    "listed": ("files", None, ["model.safetensors"]),
    "place": ("data_folder", None, "/etc"),
}


@pytest.mark.parametrize("what", SETTINGS)
def test_edited_settings_are_refused(what: str, place: Path) -> None:
    key, inner, value = SETTINGS[what]
    about = json.loads((place / "run/manifest.json").read_text())
    if inner:
        about[key][inner] = value
    else:
        about[key] = value
    (place / "run/manifest.json").write_text(json.dumps(about))
    is_refused(place, ["rank", "run", "--method", "degree"], "was changed")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", '"run"', "\x80", "{}" * 3, "[" * 100_000, "NaN"]
)
def test_a_manifest_that_is_none_is_named(text: str, place: Path) -> None:
    (place / "run/manifest.json").write_text(text, encoding="latin-1")
    is_refused(place, ["rank", "run", "--method", "degree"], "run/manifest.json is ")


@pytest.mark.parametrize("what", ["pipe", "device"])
@pytest.mark.parametrize(
    ("file", "args"),
    [
        ("run/manifest.json", ["rank", "run", "--method", "degree"]),
        ("run/model.safetensors", ["rank", "run", "--method", "degree"]),
        ("new.csv", ["what-if", "run", "--set", "new.csv"]),
        ("new.parquet", ["rank", "run", "--method", "predict-n", "--labels", "new.parquet"]),
        ("run/tuned/nora.json", ["rank", "run", "--method", "nora", "--tuned"]),
        ("parts/manifest.json", ["merge", "parts", "--out", "m.csv"]),
        ("new.csv", ["rank", "run", "--method", "degree", "--out", "new.csv", "--force"]),
        ("new.json", ["flip", "run", "3", "--out", "new.json", "--force"]),
    ],
    ids=lambda one: one if isinstance(one, str) else one[0],
)
def test_nothing_waits_for_a_pipe_or_reads_a_device(
    what: str, file: str, args: list[str], place: Path
) -> None:
    path = place / file
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path) if what == "pipe" else path.symlink_to("/dev/zero")
    says = "is missing" if "safetensors" in file else f"is a {what}, not a file"
    is_refused(place, args, says)


@pytest.mark.parametrize(("suffix", "how"), [(s, h) for s in ("csv", "parquet") for h in DAMAGE])
def test_damaged_labels_are_refused_by_the_file(suffix: str, how: str, place: Path) -> None:
    do(place / f"known.{suffix}", how)
    args = ["rank", "run", "--method", "predict-n", "--labels", f"known.{suffix}"]
    if (suffix, how) == ("parquet", "longer"):
        says = "known.parquet"
    else:
        says = "no such file: known" if how == "gone" else f"known.{suffix}"
    is_refused(place, args, says)


@pytest.mark.parametrize("how", [*DAMAGE, "other"])
def test_a_damaged_provenance_file_is_named(how: str, place: Path) -> None:
    meta = place / "known.csv.meta.json"
    if how == "other":
        about = json.loads(meta.read_text())
        meta.write_text(json.dumps(about | {"num_nodes": 10**12, "sha256": None}))
    elif how == "longer":
        meta.write_text(meta.read_text() + "}")
    elif how == "flipped":
        meta.write_text(meta.read_text().replace('"influence"', '"inflvence"'))
    else:
        do(meta, how)
    is_refused(place, ["tune", "own", "--labels", "known.csv"], "known.csv")


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_part_of_a_checkpoint_is_refused_by_the_file(how: str, place: Path) -> None:
    part = next((place / "part").glob("part-*.parquet"))
    do(part, how)
    if how == "flipped" and scores_are_right(place):  # in what nothing is made of
        return
    if how == "gone":  # it is then computed again
        ok("rank", "run", "--method", "brute", "--checkpoint", "part")
        return
    is_refused(place, ["merge", "part", "--out", "new.csv"], part.name)
    is_refused(place, ["rank", "run", "--method", "brute", "--checkpoint", "part"], part.name)


def scores_are_right(place: Path) -> bool:
    try:
        merged = nora.merge_checkpoints([place / "part"])
    except ValueError:
        return False
    run = nora.load_run(place / "run")
    torch.testing.assert_close(merged.scores, run.influence("brute", progress=False).scores)
    return True


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"node": [99], "influence": [1.0]}, "node 99 of 34"),
        ({"node": [34], "influence": [1.0]}, "node 34 of 34"),
        ({"node": [-1], "influence": [1.0]}, "node below 0"),
        ({"node": ["1"], "influence": [1.0]}, "not whole numbers"),
        ({"node": [1], "influence": ["x"]}, "not whole numbers and scores"),
        ({"node": [1.5], "influence": [1.0]}, "not whole numbers"),
        ({"node": [1]}, "part-000000000-0.parquet is not readable"),
        ({"influence": [1.0]}, "part-000000000-0.parquet is not readable"),
        ({}, "part-000000000-0.parquet is not readable"),
    ],
    ids=str,
)
def test_a_part_of_something_else_is_refused(
    columns: dict[str, Any], says: str, place: Path
) -> None:
    pd.DataFrame(columns).to_parquet(place / "part" / "part-000000000-0.parquet")
    is_refused(place, ["merge", "part", "--out", "new.csv"], says)


@pytest.mark.parametrize(
    "change",
    [
        {"num_nodes": 10**12},
        {"num_nodes": -1},
        {"num_nodes": "34"},
        {"num_nodes": None},
        {"num_nodes": 3},
        {"fingerprint": "none"},
        {"fingerprint": None},
        {"task": "link"},
        {"node_types": {"author": 3}},
        {"sha256": "0"},
    ],
    ids=str,
)
def test_an_edited_manifest_is_refused(change: dict[str, Any], place: Path) -> None:
    path = place / "part" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    is_refused(place, ["merge", "part", "--out", "new.csv"], "manifest.json is not readable")


@pytest.mark.parametrize("how", [*DAMAGE])
def test_a_damaged_manifest_is_named(how: str, place: Path) -> None:
    do(place / "part" / "manifest.json", how)
    if how == "longer":  # blanks at its end mean nothing
        ok("merge", "part", "--out", "new.csv")
        return
    says = "it has no manifest.json" if how == "gone" else "is not readable as a checkpoint"
    is_refused(place, ["merge", "part", "--out", "new.csv"], says)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"method": "nora"}', '{"method": "exact", "options": {}}', "\x80"]
)
def test_tuned_options_that_are_none_are_named(text: str, place: Path) -> None:
    (place / "run/tuned/nora.json").write_text(text, encoding="latin-1")
    is_refused(place, ["rank", "run", "--method", "nora", "--tuned"], "nora.json")


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_predictions_are_named(how: str, place: Path) -> None:
    do(place / "effect.csv.predictions.safetensors", how)
    with pytest.raises((ValueError, OSError), match=r"effect\.csv"):
        nora.Effect.load(place / "effect.csv")
    assert not (place / "exploded").exists()


def test_the_corpus_itself_is_whole(place: Path) -> None:
    ok("what-if", "own", "--remove", "node 1")
    ok("merge", "part", "--out", "new.csv")
    assert torch.isfinite(nora.Influence.load("new.csv").scores).all()
