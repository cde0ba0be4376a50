"""Truths outlive the code that computed them, and are compared with it after a change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nora.experiments import lab as laboratory
from nora.experiments.cached_truth import SAMPLE, save_truth
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.citation import evaluation_step
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.sources import SCORING
from nora.methods import METHODS

CELL = Cell("karate", "gcn", "node")


def a_lab(cache: Path, code: str = "", **changes: Any) -> Lab:
    """A small lab whose engine claims to have this code."""
    settings = {"datasets": ("karate",), "models": ("gcn",), "tasks": ("node",), "cycles": 1}
    lab = Lab(cache, replace(PROFILES["quick"], epochs=3), **{"share": 0.3, **settings, **changes})
    if code:
        lab._code[((METHODS[TRUTH].value,), SCORING)] = code
    return lab


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Every computation of influences: the method, and of which nodes."""
    genuine, calls = laboratory.influence, []

    def call(model: Any, data: Any, method: str, *rest: Any, **options: Any) -> Any:
        calls.append((method, options.get("nodes")))
        return genuine(model, data, method, *rest, **options)

    monkeypatch.setattr(laboratory, "influence", call)
    return calls


def test_a_changed_engine_recomputes_a_sample_once_and_nothing_that_hangs_on_the_truth(
    tmp_path: Path, asked: list[tuple[str, Any]]
) -> None:
    first = a_lab(tmp_path, "old")
    rows = evaluation_step(first, CELL, "nora").get()
    asked.clear()
    for _ in range(2):
        changed = a_lab(tmp_path, "new")
        assert changed.method_code(TRUTH) == "new"
        assert torch.equal(
            changed.scores(CELL, 0, TRUTH).scores, first.scores(CELL, 0, TRUTH).scores
        )
        assert evaluation_step(changed, CELL, "nora").get() == rows
    assert [(method, len(nodes)) for method, nodes in asked] == [(TRUTH, SAMPLE)]


def test_a_truth_that_the_changed_engine_contradicts_is_refused_with_both_values(
    tmp_path: Path,
) -> None:
    truth = a_lab(tmp_path, "old").scores(CELL, 0, TRUTH)
    path = a_lab(tmp_path).truth_step(CELL, 0).path
    wrong = truth.scores.clone()
    wrong[wrong.argmax()] *= 1.1
    save_truth(replace(truth, scores=wrong), path, "old")
    with pytest.raises(ValueError, match="one of the two is wrong") as caught:
        a_lab(tmp_path, "new").scores(CELL, 0, TRUTH)
    assert f"node {int(truth.scores.argmax())}" in str(caught.value)


def test_other_weights_other_graph_and_other_task_have_truths_of_their_own(tmp_path: Path) -> None:
    labs = [
        (a_lab(tmp_path), CELL),
        (a_lab(tmp_path, seed=1), CELL),
        (a_lab(tmp_path), replace(CELL, dataset="polarised")),
        (a_lab(tmp_path), replace(CELL, task="link")),
    ]
    for lab, cell in labs:
        assert "untrained" in lab.truth_step(cell, 0).path.name
        lab.run(cell, 0)
    digests = {lab.truth_step(cell, 0).path.stem.rpartition("-")[2] for lab, cell in labs}
    assert len(digests) == len(labs)


def test_the_same_weights_trained_again_find_their_truth(
    tmp_path: Path, asked: list[tuple[str, Any]]
) -> None:
    lab = a_lab(tmp_path)
    lab.scores(CELL, 0, TRUTH)
    asked.clear()
    folder = lab.run_step(CELL, 0, None).path
    folder.rename(folder.with_name("elsewhere"))
    a_lab(tmp_path).scores(CELL, 0, TRUTH)
    assert asked == []
