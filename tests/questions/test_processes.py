"""What another process sees: the same scores, and a quick import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nora
from elsewhere import printed
from nora.methods import METHODS

SCORE = """
import json
import torch
import nora
from nora.methods import METHODS
from nora.model.fingerprint import graph_fingerprint

graph = graph_fingerprint(nora.load_dataset("polarised").data)

run = nora.train("gcn", "karate", epochs=5, seed=2, progress=False)
links = nora.train("gat", "karate", "link", epochs=3, seed=2, progress=False)
scores = {
    f"{entry.name} {asked.task.name}": nora.influence(
        asked.model,
        asked.data,
        entry.name,
        asked.task,
        labels=torch.arange(34.0) if entry.facts.labels == "required" else None,
        progress=False,
    ).scores.double().tolist()
    for entry in METHODS
    for asked in (run, links)
}
"""


def test_another_process_gets_the_same_graph_and_with_the_same_seed_the_same_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The other process knows nothing of what the tests' own fixture changes.
    monkeypatch.setattr("nora.engine.verify.PREPARING_SHARE", 0.2)
    otherwise = "import json, random, torch\ntorch.manual_seed(9)\nrandom.seed(9)\n"
    graph, there = json.loads(printed(otherwise + SCORE + "print(json.dumps([graph, scores]))"))
    here: dict = {}
    exec(SCORE, here)
    assert graph == here["graph"]
    assert there.keys() == here["scores"].keys()
    assert len(there) == 2 * len(list(METHODS))
    assert there == here["scores"]


def test_importing_nora_imports_no_torch() -> None:
    code = "import sys, nora; print('torch' in sys.modules, nora.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"False {nora.__version__}\n"


def test_every_public_name_is_there_and_an_unknown_one_is_not() -> None:
    for name in nora.__all__:
        assert getattr(nora, name).__name__ == name
        assert name in dir(nora)
    assert not hasattr(nora, "infuence")


def test_the_installed_package_is_typed() -> None:
    assert (Path(nora.__file__).parent / "py.typed").exists()
