"""A user's own method as a row beside ours, and what is rejected."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from nora.experiments.custom_method import method_named
from nora.methods import METHODS
from shell import ok, refused, run

QUICK = ["--datasets", "karate", "--models", "gcn", "--tasks", "node", "--profile", "quick"]
FAST = [*QUICK, "--cycles", 1, "--share", 0.3]
SOURCE = '''
import torch
from nora.methods import METHODS, MethodFacts
from strange_parts.constants import SCALE

NUMBER = 7

def neighbours(problem, *, power=1.0):
    """A node's number of edges, another way."""
    source = problem.data.edge_index[0]
    return SCALE * torch.bincount(source, minlength=problem.num_nodes).float() ** power

def backwards(problem):
    return torch.zeros(3)

def gaps(problem):
    scores = torch.ones(problem.num_nodes)
    scores[3] = float("nan")
    return scores

def unfinished(problem, *, must):
    return torch.zeros(problem.num_nodes)

@METHODS.register("labels-again", "its labels, and the mean", MethodFacts(labels="required"))
def again(problem):
    return problem.labels.nan_to_num(float(problem.labels.nanmean()))
'''


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "work" / "strange_parts"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "constants.py").write_text("SCALE = 2.0\n")
    (folder / "scores.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.chdir(folder.parent)
    monkeypatch.syspath_prepend(str(folder.parent))
    yield folder
    for name in [*METHODS._entries]:
        if METHODS[name].value.__module__.startswith("strange_parts"):
            del METHODS._entries[name]
    for name in ("strange_parts", "strange_parts.scores", "strange_parts.constants"):
        sys.modules.pop(name, None)


def test_it_stands_as_a_row_beside_ours_with_the_right_numbers(tmp_path: Path) -> None:
    name = "strange_parts.scores:neighbours"
    asked = ["reproduce", "citation", *FAST, "--cache", tmp_path / "cache"]
    text = ok(*asked, "--out", tmp_path / "out", "--method", name, "--method", "cauchy")
    assert name in text
    written = json.loads((tmp_path / "out" / "citation.json").read_text(encoding="utf-8"))
    assert f"--method {name} --method cauchy" in written["about"]["command"]
    rows = {row["method"]: row for row in written["tables"]["Means over all cells"]}
    assert list(rows)[:3] == [name, "cauchy", "nora"]
    for metric in ("pearson", "spearman", "top_10%"):
        # On an undirected graph without loops, it counts what `degree` counts, twice.
        assert rows[name][metric] == pytest.approx(rows["degree"][metric], abs=1e-5)


def test_a_change_anywhere_in_its_package_is_seen(package: Path, tmp_path: Path) -> None:
    from nora.experiments.cells import PROFILES, Cell
    from nora.experiments.lab import Lab

    name = method_named("strange_parts.scores:neighbours")

    def place() -> Path:
        lab = Lab(tmp_path, PROFILES["quick"], ["karate"], ["gcn"], ["node"], cycles=1)
        return lab.score_step(Cell("karate", "gcn", "node"), 0, name).path

    before = place()
    assert ":" not in before.name
    (package / "constants.py").write_text("SCALE = 30.0\n")
    assert place() != before


def test_one_that_registers_itself_has_its_own_name_and_gets_the_labels_it_asks_for(
    tmp_path: Path,
) -> None:
    asked = [
        "reproduce",
        "citation",
        *FAST,
        "--cache",
        tmp_path / "cache",
        "--out",
        tmp_path / "out",
    ]
    text = ok(*asked, "--method", "strange_parts.scores:again")
    assert "labels-again" in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_package:one", "cannot import 'no_such_package'"),
        ("strange_parts.scores:neighbour", "Did you mean 'neighbours'?"),
        ("strange_parts.scores:NUMBER", "is a int; a method is a function (problem, *,"),
        ("strange_parts.scores:unfinished", "missing a required argument: 'must'"),
        ("strange_parts.scores:", "package.module:function"),
        ("degre", "Did you mean 'degree'?"),
    ],
)
def test_what_is_no_method_is_refused_before_any_work(name: str, says: str, tmp_path: Path) -> None:
    asked = [
        "reproduce",
        "citation",
        *FAST,
        "--cache",
        tmp_path / "cache",
        "--out",
        tmp_path / "out",
    ]
    assert says in refused(*asked, "--method", name)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(("name", "says"), [("backwards", "34"), ("gaps", "not all finite")])
def test_scores_that_cannot_be_compared_are_refused_by_name(
    name: str, says: str, tmp_path: Path
) -> None:
    place = ["--cache", tmp_path / "cache", "--out", tmp_path / "out"]
    result = run("reproduce", "citation", *FAST, *place, "--method", f"strange_parts.scores:{name}")
    last = result.stderr.splitlines()[-1]
    assert result.exit_code == 2
    assert last.startswith("error: ")
    assert f"strange_parts.scores:{name}" in last
    assert says in last
    assert not (tmp_path / "out").exists()


def test_recipes_that_compare_no_methods_say_which_do(tmp_path: Path) -> None:
    message = refused("reproduce", "skew", *FAST, "--out", tmp_path / "out", "--method", "degree")
    assert "skew compares no further methods; --method" in message
