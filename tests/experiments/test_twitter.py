"""The experiments on graphs with relations, on a small network of two camps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from camps import camps
from nora.datasets import DATASETS
from nora.experiments import lab as laboratory
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.politicians import change_by_relation, edges_of_node, predicted_otherwise
from nora.experiments.twitter import METHODS
from nora.experiments.twitter_bands import banded, degrees_by_relation
from recipes import reproduce


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch:
        list(DATASETS)
        patch.setattr(DATASETS, "_entries", dict(DATASETS._entries))
        DATASETS.register("camps", "two camps")(camps)
        folder = tmp_path_factory.mktemp("cache")
        chosen = (("camps",), ("timme",), ("node", "link"))
        yield Lab(folder, PROFILES["quick"], *chosen, cycles=2, share=0.3)


def test_both_tasks_share_one_training(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    node = lab.run(Cell("camps", "timme", "node"), 0)
    monkeypatch.setattr(laboratory, "train", lambda *_, **__: pytest.fail("trained twice"))
    link = lab.run(Cell("camps", "timme", "link"), 0)
    assert (node.task.name, link.task.name) == ("node", "link")
    for key, value in node.model.state_dict().items():
        assert torch.equal(value, link.model.state_dict()[key])
    assert link.task.decoder is link.model.decoder


@pytest.mark.slow
def test_the_table_has_all_methods_both_tasks_and_the_models_quality(
    lab: Lab, tmp_path: Path
) -> None:
    reproduce("twitter", lab, tmp_path, "nora reproduce twitter")
    tables = json.loads((tmp_path / "twitter.json").read_text())["tables"]
    expected, agreement, means, _, models, shares, tuned, everything, single = tables.values()
    assert [row["method"] for row in expected] == list(METHODS)
    assert len(single) == len(METHODS) * 2 * 2  # tasks and cycles
    assert {(row["task"], row["method"]) for row in agreement} == {
        (task, method) for task in ("node", "link") for method in METHODS
    }
    nora = next(r for r in agreement if (r["task"], r["method"]) == ("node", "nora"))
    assert (nora["paper's P50"], nora["paper's P_20_50"]) == (0.953, 0.849)
    assert [row["cycle"] for row in models] == ["0", "1", "mean"]
    assert len(shares) == 6
    assert len(means) == len(METHODS)
    assert tuned
    assert everything


@pytest.mark.parametrize("name", ["twitter-degree", "twitter-edges"])
def test_bands_are_tabulated_and_drawn(lab: Lab, tmp_path: Path, name: str) -> None:
    report = reproduce(name, lab, tmp_path, f"nora reproduce {name}")
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".json", ".png"}
    ((_, summary),) = report.tables
    tasks = ["both", *lab.tasks]
    assert list(summary)[2:] == tasks
    assert summary[tasks].abs().le(1).all(axis=None)
    assert len(report.raw) == len(tasks)
    for _, table in report.raw:
        assert table["users"].sum() == 40
        assert table["influence"].is_monotonic_increasing


def test_directed_types_tell_acting_from_being_acted_upon(lab: Lab, tmp_path: Path) -> None:
    report = reproduce("twitter-edges", lab, tmp_path, "a command")
    _, bands = report.raw[0]
    into, out = degrees_by_relation(lab, "camps")["reply"]
    users = bands["users"]
    assert (bands["replied"] * users).sum() == pytest.approx(into.sum())
    assert (bands["reply"] * users).sum() == pytest.approx(out.sum())
    ranks = report.tables[0][1].set_index("degree")["node"]
    assert ranks["replied"] != ranks["reply"]


def test_people_are_listed_with_what_changes_without_them_and_through_which_relation(
    lab: Lab, tmp_path: Path
) -> None:
    lab = replace(lab, tasks=("node",))
    report = reproduce("politicians", lab, tmp_path, "a command")
    people, relations = (table for _, table in report.tables)
    (cell,) = lab.cells
    scores = lab.mean_scores(cell, TRUTH)
    first = int(scores.argmax())
    assert people["name"][0] == relations["name"][0] == str(first)
    assert people["influence"][0] == pytest.approx(float(scores[first]))
    runs = [lab.run(cell, cycle) for cycle in range(lab.cycles)]
    ties = edges_of_node(runs[0], first)
    graph = runs[0].data["user", "reply", "user"].edge_index
    mine = (graph == first).any(dim=0) & (graph[0] != graph[1])
    assert len(ties["user", "reply", "user"]) == int(mine.sum())
    for relation in ("friend", "reply"):
        mean = sum(change_by_relation(run, first)[relation] for run in runs) / len(runs)
        assert relations[relation][0] == pytest.approx(mean)
    flipped = predicted_otherwise(runs, first, tuple(map(str, range(40))))
    assert people["predicted otherwise without them"][0] == flipped


def test_bands_are_of_equal_size_and_the_most_influential_come_last() -> None:
    scores = np.arange(10.0)[::-1]
    found = banded(scores, {"x": np.arange(10.0)}, 5)
    assert found["users"].tolist() == [2] * 5
    assert found["x"].tolist() == [8.5, 6.5, 4.5, 2.5, 0.5]


def test_degrees_leave_self_loops_out(lab: Lab) -> None:
    data = lab.dataset("camps").data
    into, out = degrees_by_relation(lab, "camps")["reply"]
    source, target = data["user", "reply", "user"].edge_index
    other = source != target
    assert into.sum() == out.sum() == int(other.sum()) < len(source)
    assert out[8] == int(((source == 8) & other).sum())
