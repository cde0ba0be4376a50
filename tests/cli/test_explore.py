"""`nora explore`: what it refuses, before anything long."""

from __future__ import annotations

import re
import shlex
import sys

import pytest
from typer.main import get_command

import nora
from nora.cli import app
from shell import ok, refused


def test_it_asks_for_a_run_or_the_demo(tmp_path):
    assert "or --demo" in refused("explore")
    assert f"not both: nora explore {tmp_path}" in refused("explore", tmp_path, "--demo")


def test_a_folder_that_is_no_run_is_named(tmp_path):
    reply = refused("explore", tmp_path, "--no-browser")
    assert f"{tmp_path} is not a trained run" in reply
    # What it suggests has all that the command requires.
    suggested = shlex.split(re.search(r"'nora (train [^']*)'", reply)[1])
    train = get_command(app).commands["train"]
    train.make_context("train", suggested[1:])


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "nora.explorer.serving", raising=False)
    run = nora.train("gcn", "karate", epochs=1, progress=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'nora-influence\[explore\]'"):
        nora.explore(run.model, run.data, browser=False)


def test_without_the_extra_nothing_is_trained_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setattr(nora, "train", lambda *args, **options: pytest.fail("trained"))
    assert "pip install 'nora-influence[explore]'" in refused("explore", "--demo", "--no-browser")


def test_the_help_shows_examples():
    assert "nora explore --demo" in ok("explore", "--help")
