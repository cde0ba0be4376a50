"""One name means one thing, across the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "nora"
# Folders whose modules mirror each other: one name in several of a group is about one thing.
MIRRORED = (
    {"questions", "results", "results/plots", "report", "experiments", "cli", "explorer"},
    {"models", "engine/lower/conv"},
    {"methods", "tuning/searches"},
    {"datasets", "experiments"},
)


# Functions of one name in these folders do one thing: both backends define it, each input format reads files
# with it, or a command asks the question of that name.
SAME_FUNCTION = (
    {"engine/exec/kernels"},
    {"ingest"},
    {"cli", "questions", "training", "tuning", "explorer"},
)


def modules() -> Iterator[Path]:
    """All modules, without the packages' own `__init__.py`."""
    return (path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")


def test_no_class_stands_twice() -> None:
    where = defaultdict(list)
    for path in modules():
        for one in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(one, ast.ClassDef):
                where[one.name].append(path.relative_to(SOURCE).as_posix())
    assert len(where) > 100
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


def test_a_module_name_stands_twice_only_in_folders_that_mirror_each_other() -> None:
    where = defaultdict(set)
    for path in modules():
        where[path.name].add(path.parent.relative_to(SOURCE).as_posix())
    del where["options.py"]  # every package's own
    twice = {name: folders for name, folders in where.items() if len(folders) > 1}
    assert twice
    assert {n: f for n, f in twice.items() if not any(f <= group for group in MIRRORED)} == {}


def test_no_public_function_stands_twice_unless_it_is_about_one_thing() -> None:
    where = defaultdict(set)
    for path in modules():
        for one in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name[0] != "_":
                where[one.name].add(path.relative_to(SOURCE))
    twice = {name: files for name, files in where.items() if len(files) > 1}
    assert "read" in twice
    for name, files in twice.items():
        folders = {file.parent.as_posix() for file in files}
        assert any(folders <= group for group in SAME_FUNCTION), (name, files)
        assert "ingest" not in folders or name == "read"
