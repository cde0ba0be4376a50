"""What the pages show must run as it stands."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from itertools import groupby
from pathlib import Path
from types import ModuleType

import pytest

from nora.datasets import DATASETS
from nora.engine.lower import lowerings
from nora.methods import METHODS
from nora.models import MODELS
from shell import ok

ROOT = Path(__file__).parents[1]


@pytest.fixture
def unregistered_afterwards(monkeypatch):
    for family in (METHODS, MODELS, DATASETS):
        list(family)
        monkeypatch.setattr(family, "_entries", dict(family._entries))
    lowerings.load()
    monkeypatch.setattr(lowerings, "LOWERINGS", dict(lowerings.LOWERINGS))


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
]


WITHOUT_CODE = {
    f"docs/{name}.md"
    for name in (
        "api",
        "api-questions",
        "api-tasks",
        "api-results",
        "api-data",
        "api-extend",
        "architecture",
        "command-line",
        "coverage",
        "glossary",
        "hundred-million-nodes",
        "mathematics",
        "paper",
        "politicians",
        "projects",
        "tested-versions",
        "troubleshooting",
    )
}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITHOUT_CODE])
def test_every_python_block_runs(page, tmp_path, monkeypatch, unregistered_afterwards, capsys):
    if page == "docs/own-data.md":  # it reads files of the reader's own
        ok("example", tmp_path / "files")
        tmp_path /= "files"
    if page == "docs/benchmark.md":
        shutil.copy(ROOT / "results" / "paper" / "truth.parquet", tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL
    )
    assert blocks
    # A module like any other: dataclasses look theirs up.
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in blocks:
        # A block of a page is a file of its own there, and a future import must come first in it.
        exec(compile(block, page, "exec"), vars(module))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[)#]", text):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), target


def text_of(node: ast.expr) -> str:
    """A message as it stands in the source, `…` for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "…"


def test_troubleshooting_is_about_messages_that_there_are():
    messages = {
        text_of(node)
        for path in (ROOT / "src" / "nora").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)
    }
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    titles = re.findall(r"(?m)^### (.*)$", page)
    assert len(titles) > 20
    for title in titles:
        parts = [part.strip() for part in title.split("…") if part.strip()]
        assert any(all(part in message for part in parts) for message in messages), title


def script(name: str) -> ModuleType:
    """A script of `docs/pictures`, which make what the pages show."""
    found = spec_from_file_location(name, ROOT / "docs" / "pictures" / f"{name}.py")
    assert found
    assert found.loader
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_picture_of_the_layers_is_that_of_the_code():
    shown = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    assert shown == script("architecture").svg(), "python docs/pictures/architecture.py"


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_show_what_they_have_shown(path, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    kept = nbformat.read(path, as_version=4)
    again = script("notebooks").executed(path, tmp_path)
    for before, after in zip(kept.cells, again.cells, strict=True):
        # What is printed may arrive in one piece or in several.
        kinds = [
            [kind for kind, _ in groupby(one.output_type for one in cell.get("outputs", []))]
            for cell in (before, after)
        ]
        assert kinds[0] == kinds[1], before.source
    assert not re.search(r"/site-packages/|ipywidgets", path.read_text(encoding="utf-8"))
    assert sum(len(cell.get("outputs", [])) for cell in kept.cells) > 4
