"""Unknown names are answered with the nearest known one."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch

import nora
from graphs import bridge, double
from networks import network
from nora.datasets import DATASETS
from nora.experiments import RECIPES
from nora.methods import METHODS, MethodFacts
from nora.model import Problem
from nora.models import MODELS
from nora.registry import TABLE, NoFacts, Registry
from nora.strict_json import json_text


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("page-rank", "pagerank"), ("Brute", "brute"), ("nora_t1", "nora-t1"), ("degrees", "degree")],
)
def test_an_unknown_method_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(
        ValueError, match=f"unknown method '{typed}'. Did you mean '{meant}'\\? Known:"
    ):
        nora.influence(network(), double(bridge()), typed)


def test_what_is_no_name_gets_the_list_though_nothing_is_loaded_yet() -> None:
    with pytest.raises(ValueError, match=r"unknown model 3\. Known: .*gcn"):
        Registry("model", "nora.models", None)[3]


def test_a_name_far_from_all_gets_the_list_alone() -> None:
    with pytest.raises(ValueError, match=r"unknown method 'xyzzyx'\. Known: .*brute.*pagerank"):
        nora.influence(network(), double(bridge()), "xyzzyx")


def test_unknown_models_and_datasets_are_answered_too() -> None:
    with pytest.raises(ValueError, match=r"unknown model 'gcn2'\..*mean 'gcn(ii)?'"):
        nora.build_model("gcn2", 3, 2)
    with pytest.raises(ValueError, match=r"unknown dataset 'core'\..*you mean 'cora'"):
        nora.load_dataset("core")


def test_an_unknown_option_is_answered_with_the_nearest_and_the_list() -> None:
    with pytest.raises(
        TypeError,
        match=r"you mean 'beta'\? It takes: beta, p",
    ):
        nora.influence(network(), double(bridge()), "nora", betta=3)
    with pytest.raises(TypeError, match=r"'degree' has no option 'beta'\..*options"):
        nora.influence(network(), double(bridge()), "degree", beta=3)


@pytest.mark.parametrize("family", [METHODS, MODELS, DATASETS], ids=lambda family: family.kind)
def test_families_list_their_members_in_order(family: object) -> None:
    names = [entry.name for entry in family]  # type: ignore[attr-defined]
    assert names == sorted(set(names))
    assert all(family[name].name == name for name in names)  # type: ignore[index]


@pytest.mark.parametrize("family", [METHODS, MODELS, DATASETS, RECIPES], ids=lambda one: one.kind)
def test_the_table_that_is_listed_is_what_is_registered(family: Any) -> None:
    table = (resources.files(family.package) / TABLE).read_text(encoding="utf-8")
    assert table == json_text(family.members()) + "\n", "run 'make tables'"


def test_a_member_that_is_not_in_the_table_yet_is_known_by_its_file(
    family: Registry[Any, NoFacts], tmp_path: Path
) -> None:
    (tmp_path / "relatives" / "half_aunt.py").write_text(
        "from relatives import FAMILY\n"
        "@FAMILY.register('half-aunt', 'one of us')\n"
        "def half_aunt(): return 'half'\n"
    )
    family.check("half-aunt")
    assert family["half-aunt"].value() == "half"


def test_a_family_without_a_table_is_imported_and_listed(
    family: Registry[Any, NoFacts], tmp_path: Path
) -> None:
    (tmp_path / "relatives" / TABLE).unlink()
    assert family.names() == ["aunt", "great-uncle"]
    assert sorted(imported()) == ["aunt", "great_uncle"]


def test_ones_own_members_are_listed_and_known_without_an_import(
    family: Registry[Any, NoFacts],
) -> None:
    family.register("cousin", "mine", override=True)(mine)
    assert family.names() == ["aunt", "cousin", "great-uncle"]
    with pytest.raises(ValueError, match=r"unknown relative 'ant'\..*mean 'aunt'\? Known"):
        family.check("ant")
    assert imported() == []


@pytest.mark.parametrize(
    ("args", "reply"),
    [
        (["methods"], "brute "),
        (["methods", "--json"], '"name": "brute"'),
        (["models"], "gcn "),
        (["datasets"], "karate "),
        (["reproduce", "list"], "citation "),
        (["rank", "x", "--method", "magic"], "unknown method 'magic'"),
        (["tune", "x", "--method", "norra"], "Did you mean 'nora'"),
        (["demo", "--method", "magic"], "unknown method 'magic'"),
        (["train", "--dataset", "karat"], "Did you mean 'karate'"),
        (["train", "--dataset", "karate", "--model", "gnc"], "Did you mean 'gcn'"),
        (["train", "--dataset", "karate", "--task", "edge"], "must be 'node' or 'link'"),
        (["reproduce", "citaton"], "Did you mean 'citation'"),
        (["reproduce", "citation", "--models", "gnc", "--out", "/tmp/n"], "Did you mean 'gcn'"),
        (["run", "--edges", __file__, "--model", "gnc"], "Did you mean 'gcn'"),
        (["run", "--edges", __file__, "--also", "degre"], "Did you mean 'degree'"),
    ],
)
def test_lists_and_slips_in_names_are_answered_without_torch(args: list[str], reply: str) -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from nora.cli import app\n"
        f"done = CliRunner().invoke(app, {args!r})\n"
        "print(done.output)\n"
        "sys.exit('torch' in sys.modules or 'pandas' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert reply in done.stdout


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[Any, NoFacts]]:
    """A family of two members, in a package of its own."""
    package = tmp_path / "relatives"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from nora.registry import NoFacts, Registry\n"
        "FAMILY = Registry('relative', __name__, NoFacts())\n"
        "IMPORTED = []\n"
    )
    for name in ("aunt", "great_uncle"):
        (package / f"{name}.py").write_text(
            "from relatives import FAMILY, IMPORTED\n"
            f"IMPORTED.append({name!r})\n"
            f"@FAMILY.register({name.replace('_', '-')!r}, 'one of us')\n"
            f"def {name}(): return 'ours'\n"
        )
    rows = [{"name": name, "summary": "one of us"} for name in ("aunt", "great-uncle")]
    (package / TABLE).write_text(json.dumps(rows))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("relatives").FAMILY
    for name in [name for name in sys.modules if name.partition(".")[0] == "relatives"]:
        del sys.modules[name]


def imported() -> list[str]:
    return sys.modules["relatives"].IMPORTED  # type: ignore[no-any-return]


def mine() -> str:
    return "mine"


def another() -> str:
    return "another"


def test_asking_for_one_member_loads_no_other(family: Registry[Any, NoFacts]) -> None:
    assert family["great-uncle"].value() == "ours"
    assert imported() == ["great_uncle"]
    assert [entry.name for entry in family] == ["aunt", "great-uncle"]


def test_a_name_that_is_taken_is_refused(family: Registry[Any, NoFacts]) -> None:
    with pytest.raises(ValueError, match=r"a relative 'aunt' already.*override=True"):
        family.register("aunt", "not ours")(mine)
    assert family["aunt"].value() == "ours"


def test_ones_own_takes_the_place_of_a_member_whenever_it_comes(
    family: Registry[Any, NoFacts],
) -> None:
    family.register("aunt", "mine", override=True)(mine)
    assert [entry.value() for entry in family] == ["mine", "ours"]


def test_a_cell_of_a_notebook_may_be_run_again(family: Registry[Any, NoFacts]) -> None:
    for _ in range(2):
        family.register("cousin", "mine")(mine)
    assert family["cousin"].value() == "mine"
    with pytest.raises(ValueError, match="already"):
        family.register("cousin", "another user's")(another)


@pytest.mark.parametrize(
    ("returned", "reply"),
    [
        (lambda n: torch.ones(n, 1), r"one score per node, \[7\]; it gave \[7, 1\]"),
        (lambda n: torch.ones(3), r"one score per node, \[7\]; it gave \[3\]"),
        (lambda n: None, "it returned NoneType"),
        (lambda n: [0.5] * n, "returned a list of float: return a tensor"),
    ],
)
def test_what_is_no_score_per_node_is_refused_by_name(
    returned: Any, reply: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(METHODS)
    monkeypatch.setattr(METHODS, "_entries", dict(METHODS._entries))

    @METHODS.register("odd", "not scores", MethodFacts(uses_model=False))
    def odd(problem: Problem) -> Any:
        return returned(problem.num_nodes)

    with pytest.raises((ValueError, TypeError), match=f"the method 'odd' .*{reply}"):
        nora.influence(network(), double(bridge()), "odd", progress=False)


def test_whole_numbers_are_scores_too(monkeypatch: pytest.MonkeyPatch) -> None:
    list(METHODS)
    monkeypatch.setattr(METHODS, "_entries", dict(METHODS._entries))

    @METHODS.register("counted", "whole numbers", MethodFacts(uses_model=False))
    def counted(problem: Problem) -> torch.Tensor:
        return torch.arange(problem.num_nodes)

    found = nora.influence(network(), double(bridge()), "counted", nodes=[1, 3], progress=False)
    assert found.top(2)["influence"].tolist() == [3.0, 1.0]


def test_a_method_may_return_any_iterator(monkeypatch: pytest.MonkeyPatch) -> None:
    list(METHODS)
    monkeypatch.setattr(METHODS, "_entries", dict(METHODS._entries))

    @METHODS.register("listed", "parts in a list", MethodFacts(uses_model=False))
    def listed(problem: Problem) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(part, part.double()) for part in problem.nodes.split(2)]

    @METHODS.register("mapped", "parts by map", MethodFacts(uses_model=False))
    def mapped(problem: Problem) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return map(lambda part: (part, part.double()), problem.nodes.split(2))

    for name in ("listed", "mapped"):
        found = nora.influence(network(), double(bridge()), name, progress=False)
        assert found.scores.tolist() == list(range(len(found)))
