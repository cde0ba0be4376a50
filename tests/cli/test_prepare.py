"""`nora prepare`, and what opens what it has made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import nora
from shell import document, ok, refused


@pytest.fixture
def run(karate: Path, tmp_path: Path) -> Path:
    """A run of its own, so that others do not find an engine."""
    return Path(shutil.copytree(karate, tmp_path / "run"))


def test_an_engine_is_kept_with_the_run_and_opened_by_rank(run: Path, monkeypatch) -> None:
    before = document("rank", run, "--method", "exact", "--top", "3")
    caught = ok("prepare", run)
    assert "34 nodes" in caught
    assert (run / "engine" / "manifest.json").is_file()
    monkeypatch.setattr("nora.engine.engine.Engine.prepare", None)  # no other may be prepared
    after = document("rank", run, "--method", "exact", "--top", "3")
    assert [row["node"] for row in after["top"]] == [row["node"] for row in before["top"]]
    assert document("rank", run, "--certify", "--top", "2")["certified"] == 2


def test_it_says_where_it_is_and_how_large(run: Path, tmp_path: Path) -> None:
    reply = document("prepare", run, "--out", tmp_path / "engine")
    assert reply["out"] == str(tmp_path / "engine")
    assert reply["bytes"] > 1000


def test_nothing_is_replaced_without_force(run: Path) -> None:
    ok("prepare", run)
    assert "add --force to replace it" in refused("prepare", run)
    ok("prepare", run, "--force")


def test_what_would_not_fit_is_refused_by_what_is_allowed(run: Path, monkeypatch) -> None:
    monkeypatch.setattr("nora.questions.prepare.FORECAST_EDGES", 0)
    reply = refused("prepare", run, "--memory", "1KB")
    assert "1 KB is allowed: free some" in reply
    assert not (run / "engine").exists()
    ok("prepare", run, "--memory", "1GB")


def test_an_engine_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    nora.train("sage", "karate", epochs=2, progress=False).save(tmp_path / "other")
    ok("prepare", tmp_path / "other")
    reply = refused("rank", run, "--engine", tmp_path / "other" / "engine")
    assert "was prepared for another model" in reply
    assert "holds no prepared engine" in refused("rank", run, "--engine", tmp_path)


def test_an_engine_of_the_same_model_on_another_graph_is_refused(run: Path, tmp_path: Path) -> None:
    trained = nora.load_run(run)
    data = trained.data.clone()
    data.edge_index = data.edge_index[:, 2:]
    folder = nora.prepare(trained.model, data, tmp_path / "engine", trained.task, progress=False)
    assert "was prepared for another graph" in refused("rank", run, "--engine", folder)


def test_a_run_that_is_trained_again_has_no_engine_of_the_old_one(tmp_path: Path) -> None:
    asked = ["--dataset", "karate", "--model", "gcn", "--epochs", "2", "--out", tmp_path / "run"]
    ok("train", *asked)
    ok("prepare", tmp_path / "run")
    ok("train", *asked, "--force")
    assert not (tmp_path / "run" / "engine").exists()


def test_the_run_has_the_checksum_of_its_engine(run: Path, tmp_path: Path) -> None:
    ok("prepare", run)
    ok("prepare", run, "--force")
    other = ok("train", "--dataset", "karate", "--epochs", "3", "--out", tmp_path / "other")
    assert other
    ok("prepare", tmp_path / "other")
    shutil.rmtree(run / "engine")
    assert document("rank", run, "--method", "degree")["scored"] == 34
    shutil.copytree(tmp_path / "other" / "engine", run / "engine")
    assert "manifest.json was changed" in refused("rank", run, "--method", "exact")
