"""`nora.analyse`: what `nora run` does, from Python."""

from __future__ import annotations

import json
import logging
import random
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
import torch

import nora
from nora.analysis.output_folder import FILES, OF_SEVERAL
from shell import document

CAMP = 24
OPTIONS = {"epochs": 20, "top": 3, "method": "brute", "also": ["degree"], "progress": False}


@pytest.fixture(scope="module")
def frames() -> dict[str, pd.DataFrame]:
    """Two camps, dense within; the weights of edges and who is in which camp."""
    draw = random.Random(2)
    ties = [
        (f"p{i}", f"p{j}", draw.randint(1, 3))
        for i, j in combinations(range(2 * CAMP), 2)
        if draw.random() < (0.3 if i // CAMP == j // CAMP else 0.02)
    ]
    return {
        "edges": pd.DataFrame(ties, columns=["source", "target", "weight"]),
        "labels": pd.DataFrame(
            {"id": [f"p{i}" for i in range(2 * CAMP)], "label": ["left"] * CAMP + ["right"] * CAMP}
        ),
    }


@pytest.fixture(scope="module")
def files(frames: dict, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("files")
    for role, frame in frames.items():
        frame.to_csv(place / f"{role}.csv", index=False)
    return {role: place / f"{role}.csv" for role in frames}


@pytest.fixture(scope="module")
def analysis(files: dict) -> nora.Analysis:
    return nora.analyse(**files, **OPTIONS)


def without_times(about: dict) -> dict:
    also = [{**one, "seconds": 0} for one in about["also"]]
    metrics = {**about["metrics"], "seconds": 0}
    method = {**about["method"], "seconds": 0, "details": sorted(about["method"]["details"])}
    measured = ("notes", "seconds", "computing_seconds", "peak_bytes")
    same = {key: value for key, value in about.items() if key not in measured}
    return {**same, "also": also, "metrics": metrics, "method": method}


def test_it_is_what_the_command_does(analysis: nora.Analysis, files: dict, tmp_path: Path) -> None:
    saved = analysis.save(tmp_path / "saved", progress=False)
    assert {file.name for file in saved.iterdir()} == set(FILES) - set(OF_SEVERAL)
    given = [part for role, path in files.items() for part in (f"--{role}", path)]
    out = tmp_path / "out"
    document(
        "run", *given, "--out", out, "--method", "brute", "--epochs", 20, "--top", 3,
        "--also", "degree",
    )  # fmt: skip
    ours, theirs = (json.loads((folder / "run.json").read_text()) for folder in (saved, out))
    assert list(ours) == list(theirs)
    assert list(ours["seconds"]) == list(theirs["seconds"])
    assert without_times(ours) == without_times(theirs)
    # Each message names options in the words of its interface.
    assert ours["notes"][-1].endswith("name their column in ignore=")
    assert theirs["notes"][-1].endswith("name their column in --ignore")
    one, other = (pd.read_parquet(folder / "scores.parquet") for folder in (saved, out))
    pd.testing.assert_frame_equal(one, other)
    for effect in (saved / "effects").iterdir():
        one, other = pd.read_csv(effect), pd.read_csv(out / "effects" / effect.name)
        pd.testing.assert_frame_equal(one, other, rtol=1e-3, atol=1e-6)


def test_frames_give_the_same_as_files(analysis: nora.Analysis, frames: dict) -> None:
    found = nora.analyse(**frames, **OPTIONS)
    assert torch.equal(found.scores.scores, analysis.scores.scores)
    assert found.graph == analysis.graph
    columns = ["source", "target", "weight"]
    assert found.inputs[0] == {"role": "edges", "rows": len(frames["edges"]), "columns": columns}


def test_everything_that_was_found_is_at_hand(analysis: nora.Analysis) -> None:
    assert analysis.graph.nodes == 2 * CAMP
    assert analysis.graph.classes == {"left": CAMP, "right": CAMP}
    assert analysis.graph.weighted
    best = analysis.top(3)
    assert list(best["node"]) == [effect.removed[0] for effect in analysis.effects]
    assert analysis.effects[0].total == pytest.approx(best["influence"][0], rel=1e-3)
    assert best["name"][0] == analysis.run.dataset.node_names[best["node"][0]]
    assert [other.method for other in analysis.others] == ["degree"]
    assert analysis.options["model"] == "gcn"
    assert analysis.options["task"] == "node"
    text = repr(analysis)
    assert "48 nodes" in text
    assert "the model (gcn) classifies" in text
    assert best["name"][0] in text
    assert max(map(len, text.splitlines())) < 200


def test_results_are_written_whole_and_over_nothing_of_the_users(
    analysis: nora.Analysis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"not made by 'nora run'.*force=True"):
        analysis.save(tmp_path, force=True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    out = analysis.save(tmp_path / "o", progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(FileExistsError, match=r"choose another folder.*add force=True"):
        analysis.save(out)
    before = (out / "run.json").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nora.analysis.writing.write_graph", full)
    with pytest.raises(OSError, match="No space left"):
        analysis.save(out, force=True, progress=False)
    assert (out / "run.json").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine.txt", "o"]


def test_messages_go_to_a_callable_or_the_log_and_never_to_the_screen(
    files: dict, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture
) -> None:
    reply: list[str] = []
    nora.analyse(**files, method="brute", epochs=5, top=1, progress=False, on_message=reply.append)
    assert reply[0].startswith("Read edges.csv: 48 nodes, ")
    assert any("The model (gcn) classifies" in text for text in reply)
    with caplog.at_level(logging.INFO, logger="nora.analysis"):
        nora.analyse(**files, method="brute", epochs=5, top=1, progress=False)
    assert [record.getMessage() for record in caplog.records] == [text.strip() for text in reply]
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "edges.csv" not in shown.err


def test_every_stage_shows_its_progress(
    frames: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    options = {**OPTIONS, "progress": True}
    nora.analyse(**frames, **options).save(tmp_path / "o")
    shown = capsys.readouterr().err
    for stage in ("reading", "training", "removing nodes", "effects", "drawing the graph"):
        assert stage in shown
    nora.analyse(**frames, **OPTIONS)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": None, "task": "node"}, r"give labels=, or task='link'"),
        ({"task": "edge"}, "got task='edge'.*'node' or 'link'"),
        ({"also": "auto"}, "also= names a method twice.*method= names"),
        ({"method": "predict-n"}, r"learns from known influences"),
        ({"model": "gcm"}, r"unknown model 'gcm'"),
        ({"top": 0}, r"top must be at least 1, got 0"),
        ({"ignore": "nosuch"}, r"no column is called 'nosuch'"),
    ],
)
def test_errors_use_the_words_of_python(wrong: dict, message: str, frames: dict) -> None:
    with pytest.raises(ValueError, match=message) as error:
        nora.analyse(**{**frames, **wrong})
    assert "--" not in str(error.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file: nosuch\.csv"):
        nora.analyse("nosuch.csv")


def test_a_weak_model_is_warned_about_where_it_was_asked_for(frames: dict) -> None:
    draw = random.Random(1)
    labels = frames["labels"].assign(label=[draw.choice("ab") for _ in range(2 * CAMP)])
    with pytest.warns(UserWarning, match="weak.*model= or encoding= may help") as seen:
        found = nora.analyse(frames["edges"], labels=labels, epochs=3, top=1, progress=False)
    assert found.trust.weak
    assert "warning: the model is too weak" in repr(found)
    assert seen[0].filename == __file__


def test_an_estimate_is_called_one_and_its_first_nodes_are_exact(
    frames: dict, tmp_path: Path
) -> None:
    found = nora.analyse(**frames, method="cauchy", epochs=20, top=3, progress=False)
    exact = found.session.influence("exact", progress=False)
    assert "estimate by cauchy" in repr(found)
    folder = found.save(tmp_path / "out", progress=False)
    table = pd.read_csv(folder / "scores.csv")
    assert table["exact"][:3].all()
    assert table["node"][:3].tolist() == exact.top(3)["node"].tolist()
    for node, influence in table[table["exact"]][["node", "influence"]].itertuples(index=False):
        assert influence == pytest.approx(exact[int(node)], rel=1e-3, abs=1e-5)
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))["method"]
    assert about["called"] == "estimate by cauchy"
    assert {"pearson", "spearman", "median_error"} <= set(about["details"]["refined"])


def test_targets_restrict_the_scores_the_effects_and_the_page(frames: dict, tmp_path: Path) -> None:
    labels = frames["labels"].head(CAMP + CAMP // 2)
    options = {**OPTIONS, "also": [], "repeats": 2}
    found = nora.analyse(frames["edges"], labels=labels, targets="labelled", **options)
    ids = (found.run.dataset.data.y >= 0).nonzero().flatten()
    alone = found.run.influence("brute", targets=ids, progress=False)
    assert torch.allclose(found.scores.scores, alone.scores, atol=1e-5)
    assert found.effects[0].total == pytest.approx(found.top(1)["influence"][0], rel=1e-3)
    assert any("predictions for 36 of 48 nodes" in n for n in found.notes)
    page = (found.save(tmp_path / "o", progress=False) / "report.html").read_text(encoding="utf-8")
    assert "Only 36 predictions count." in page
    assert "probabilities among the 36 that count" in page
    about = json.loads((tmp_path / "o" / "run.json").read_text(encoding="utf-8"))
    assert about["options"]["targets"] == ids.tolist()


def test_recall_by_class_is_in_the_verdict_the_page_and_the_json(
    analysis: nora.Analysis, tmp_path: Path
) -> None:
    assert {one.name for one in analysis.trust.recalls} == {"left", "right"}
    folder = analysis.save(tmp_path / "o", progress=False)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "test balanced accuracy" in page
    assert "Model: test recall by class" in page
    trust = json.loads((folder / "run.json").read_text(encoding="utf-8"))["trust"]
    assert trust["balanced_accuracy"] == pytest.approx(
        sum(one["recall"] for one in trust["recalls"]) / 2
    )


def test_balanced_training_reaches_every_model(frames: dict) -> None:
    found = nora.analyse(**frames, **{**OPTIONS, "also": []}, balanced=True, repeats=2)
    assert found.run.training["balanced"]
    assert {member.metric for member in found.stability.members} == {"balanced_accuracy"}
    assert found.options["balanced"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": None, "balanced": True}, "task='link' predicts edges.*classes"),
        ({"task": "link", "targets": [1]}, "targets= names nodes whose predictions count"),
        ({"targets": "missing"}, "no node is named 'missing'"),
        ({"targets": [1]}, "method 'degree' does not look.*targets="),
    ],
)
def test_targets_and_balance_are_refused_before_training(
    wrong: dict, message: str, frames: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nora.analysis.pipeline.train", None)
    also = ["degree"] if wrong == {"targets": [1]} else []
    with pytest.raises(ValueError, match=message):
        nora.analyse(**{**frames, **wrong}, also=also, progress=False)
