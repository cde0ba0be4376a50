"""The files that speak for a release agree with it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import nora

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == nora.__version__
    assert cited["license"] == PROJECT["license"]
    (paper,) = cited["references"]
    assert paper["title"] == "Fast Inference of Removal-Based Node Influence"


def test_the_changelog_tells_of_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"(?m)^## \[{re.escape(nora.__version__)}\] - \d{{4}}-\d\d-\d\d$", text)


def test_the_version_is_written_in_one_place():
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name)
def test_forms_and_workflows_are_readable(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_workflow_does_what_ci_runs():
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))["jobs"]
    assert {"run": ".ci/run"} in jobs["test"]["steps"]
    reply = [name for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    pythons = [name.rpartition(" ")[2] for name in reply]
    assert jobs["matrix"]["strategy"]["matrix"]["python"] == pythons
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    exec_matrix = (ROOT / ".ci" / "matrix.py").read_text(encoding="utf-8")
    assert f"PYTHONS = {tuple(pythons)!r}".replace("'", '"') in exec_matrix
