"""The experiments' cache follows the code: what has changed is computed again, and nothing else."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nora.datasets import DATASETS
from nora.experiments import lab as laboratory
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.citation import evaluation_step
from nora.experiments.lab import Lab
from nora.experiments.sources import TRAINING, modules_of
from nora.methods import METHODS
from nora.models import MODELS

CELL = Cell("karate", "gcn", "node")

METHOD = '''
"""A method of one's own."""
from nora.methods import METHODS

@METHODS.register("own", "for a test")
def own(problem):
    """What it says."""
    return problem.edge_index.new_ones(problem.num_nodes).double() * 2
'''
MODEL = """
from nora.models import MODELS
from nora.models.gcn import GCN

@MODELS.register("own", "for a test")
def own(in_channels, out_channels, **sizes):
    return GCN(in_channels, out_channels, **sizes)
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Writes a module and imports it again, as another process would."""
    for registry in (METHODS, MODELS, DATASETS):
        list(registry)
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    written = set()

    def now(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)
        written.add(name)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        importlib.import_module(name)

    yield now
    for name in written:
        sys.modules.pop(name, None)


def a_lab(cache: Path, **changes: Any) -> Lab:
    settings = {"datasets": ("karate",), "models": ("gcn",), "tasks": ("node",), "cycles": 1}
    profile = replace(PROFILES["quick"], epochs=3)
    return Lab(cache, profile, **{"share": 0.3, **settings, **changes})


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """Calls of what really trains or scores."""
    genuine, calls = getattr(laboratory, name), []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return genuine(*args, **kwargs)

    monkeypatch.setattr(laboratory, name, call)
    return calls


def test_a_changed_method_is_computed_again_and_an_unchanged_one_is_not(
    write: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, scored = (counted(monkeypatch, name) for name in ("train", "influence"))
    write("own_method", METHOD)
    first = a_lab(tmp_path / "cache")
    assert first.scores(CELL, 0, "own").scores.unique().tolist() == [2]
    a_lab(tmp_path / "cache").scores(CELL, 0, "degree")
    assert [call[2] for call in scored] == ["own", "degree"]

    said_otherwise = (
        METHOD.replace("What it says", "What it says, said otherwise") + "# by the way\n"
    )
    for text, expected in [(METHOD, 2), (said_otherwise, 2), (METHOD.replace("* 2", "* 3"), 3)]:
        write("own_method", text)
        again = a_lab(tmp_path / "cache")
        again.scores(CELL, 0, "degree")
        assert again.scores(CELL, 0, "own").scores.unique().tolist() == [expected]
    assert [call[2] for call in scored] == ["own", "degree", "own"]
    assert len(trained) == 1


def test_what_is_found_from_scores_goes_with_their_method(
    write: Callable[[str, str], None], tmp_path: Path
) -> None:
    text = METHOD.replace("new_ones(problem.num_nodes).double()", "bincount(minlength=34).double()")
    text = text.replace("edge_index.", "edge_index[0].")
    write("own_method", text)
    first = evaluation_step(a_lab(tmp_path / "cache"), CELL, "own").get()
    write("own_method", text.replace("* 2", "* -2"))
    other = evaluation_step(a_lab(tmp_path / "cache"), CELL, "own").get()
    values = [next(r["value"] for r in rows if r["metric"] == "pearson") for rows in (first, other)]
    assert values[0] == pytest.approx(-values[1])


def test_a_changed_model_is_trained_again_and_the_others_are_not(
    write: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = counted(monkeypatch, "train")
    for text in (MODEL, MODEL, MODEL.replace("**sizes)\n", "**{**sizes, 'norm': True})\n")):
        write("own_model", text)
        here = a_lab(tmp_path / "cache")
        here.run(CELL, 0)
        here.run(replace(CELL, model="own"), 0)
    assert [call[0] for call in trained] == ["gcn", "own", "own"]


def test_a_method_made_in_a_session_is_identified_by_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(METHODS)
    monkeypatch.setattr(METHODS, "_entries", dict(METHODS._entries))
    found = []
    for factor in (2, 2, 3):
        scope: dict[str, Any] = {"__name__": "a_notebook"}
        exec(f"def own(problem): return problem.known * {factor}", scope)
        METHODS.register("own", "for a test")(scope["own"])
        found.append(a_lab(tmp_path).method_code("own"))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("module", "known", "unknown"),
    [
        ("nora.methods.exact", "nora.engine.lower.conv.gcn", "nora.methods.mask"),
        ("nora.methods.exact", "nora.engine.lower.gathers", "nora.training.train"),
        ("nora.methods.exact", "nora.engine.effects", "nora.results.plots.style"),
        ("nora.methods.nora", "nora.model.message_passing", "nora.engine.engine"),
        ("nora.methods.predict", "nora.results.agreement", "nora.results.influence"),
        ("nora.tuning.searches.nora", "nora.methods.nora", "nora.methods.cauchy"),
    ],
)
def test_modules_stand_for_all_they_build_on(module: str, known: str, unknown: str) -> None:
    for name in (known, unknown):
        assert importlib.util.find_spec(name)
    assert known in modules_of(module)
    assert unknown not in modules_of(module)


def test_each_model_and_dataset_is_trained_by_its_own_code() -> None:
    lab = a_lab(Path("unused"))
    cells = [CELL, replace(CELL, model="sage"), replace(CELL, dataset="polarised")]
    cells.append(replace(CELL, model="drgat"))
    assert len({lab._training_code(cell) for cell in cells}) == len(cells)
    modules = modules_of("nora.training.train", TRAINING)
    assert {"nora.training.splits", "nora.models", "nora.datasets"} <= modules.keys()
    assert not any(name.startswith(("nora.engine", "nora.methods")) for name in modules)
