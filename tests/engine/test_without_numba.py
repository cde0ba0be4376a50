"""Without `numba`, or with one that does not fit NumPy: the same numbers, and a warning with the cost."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from shell import refused

SCRIPT = """
import json, sys, warnings

sys.modules["numba"] = None  # what Python keeps of a module that must not be imported

import nora
import nora.engine.exec.kernels.choice as choice
from nora.methods import exact

dataset = nora.load_dataset("karate")
model = nora.train("gcn", dataset, epochs=5).model
brute = nora.influence(model, dataset.data, "brute", progress=False).scores
choice.COMPILE_ABOVE = 0  # as if the graph were large
exact.is_slower = lambda *_: False  # nor may the clock of a busy machine decide
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = nora.influence(model, dataset.data, "exact", verify=2, progress=False)
try:
    nora.influence(model, dataset.data, "exact", backend="compiled", progress=False)
    refusal = None
except ImportError as error:
    refusal = str(error)
print(json.dumps({
    "difference": (found.scores - brute).abs().max().item(),
    "largest": brute.max().item(),
    "backend": found.details["backend"],
    "warnings": [str(one.message) for one in caught],
    "refusal": refusal,
}))
"""


@pytest.fixture(scope="module")
def reply() -> dict:
    """What a process without numba says."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_the_numbers_are_those_of_the_definition(reply):
    assert reply["backend"] == "vectorised"
    assert reply["largest"] > 0.01
    assert reply["difference"] < 1e-5


def test_what_is_lost_is_said_once_and_how_to_have_it(reply):
    (warning,) = reply["warnings"]
    assert "numba" in warning
    assert "two to five times as long" in warning
    assert "pip install numba" in warning


def test_asking_for_the_compiled_loops_is_refused_with_what_to_do(reply):
    assert "backend='vectorised'" in reply["refusal"]
    assert "pip install numba" in reply["refusal"]


def test_the_command_line_refuses_in_one_line(monkeypatch, tmp_path):
    import nora

    nora.train("gcn", nora.load_dataset("karate"), epochs=2).save(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "numba", None)
    message = refused("rank", tmp_path / "run", "--method", "exact", "--option", "backend=compiled")
    assert "pip install numba" in message
