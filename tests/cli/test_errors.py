"""How the command line fails: one line for what the user can mend, a traceback for bugs."""

from __future__ import annotations

import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import nora
from elsewhere import elsewhere
from nora.cli.errors import EXTRAS
from shell import refused, run

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture(scope="module")
def karate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "karate"
    nora.train("gcn", "karate", epochs=5, progress=False).save(folder)
    return folder


def fail_inside(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something below the command raise; not one of our checks."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(nora.Session, "influence", fail)


def shown_as_a_bug(*args: Any) -> BaseException:
    """The exception that Python will show, with the request to report it."""
    result = run(*args)
    assert result.exit_code == 1
    assert result.exception is not None
    (note,) = result.exception.__notes__
    assert "report it" in note and "\n" not in note
    assert f"nora {nora.__version__}, Python 3." in note and "torch 2." in note
    return result.exception


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(28, "No space left on device", "a.csv"), "No space left on device: a.csv\n"),
        (OSError("two\nlines"), "two lines\n"),
        (OSError(), "OSError\n"),
    ],
)
def test_errors_of_files_are_one_line(
    error: Exception, says: str, karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_inside(error, monkeypatch)
    assert refused("rank", karate, "--method", "brute") == f"error: {says}"


def too_much() -> Exception:
    """What torch raises where there is not enough memory."""
    try:
        torch.empty(1 << 60)
    except RuntimeError as error:
        return error
    raise AssertionError("there was enough")


@pytest.mark.parametrize("error", [MemoryError(), too_much()], ids=["Python's", "torch's"])
def test_too_little_memory_is_one_line(
    error: Exception, karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_inside(error, monkeypatch)
    assert refused("rank", karate, "--method", "brute").startswith("error: not enough memory")


def test_a_mistake_in_a_command_keeps_its_traceback(
    karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nora.Session, "influence", lambda *_, **__: len(None))  # type: ignore[arg-type]
    error = shown_as_a_bug("rank", karate, "--method", "brute")
    assert isinstance(error, TypeError)


def test_a_mistake_on_a_line_of_ours_keeps_its_traceback(
    karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nora.cli.parameters._option", lambda _: None)
    error = shown_as_a_bug("rank", karate, "--method", "brute", "--option", "a=1")
    assert isinstance(error, TypeError)


@pytest.mark.parametrize(
    "error",
    [TypeError("a"), ValueError("shapes differ"), KeyError("a"), ImportError("no numpy")],
    ids=lambda error: type(error).__name__,
)
def test_what_others_raise_on_the_way_is_a_bug(
    error: Exception, karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_inside(error, monkeypatch)
    assert shown_as_a_bug("rank", karate, "--method", "brute") is error


def test_python_shows_the_traceback_and_then_the_request(karate: Path) -> None:
    code = (
        "import nora, nora.cli\n"
        "nora.Session.influence = lambda *_, **__: len(None)\n"
        f"nora.cli.app(['rank', {str(karate)!r}, '--method', 'brute'])"
    )
    done = elsewhere(code)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    *_, error, request = done.stderr.splitlines()
    assert error == "TypeError: object of type 'NoneType' has no len()"
    assert "report it" in request


def test_debug_keeps_the_traceback_of_a_users_error_and_asks_for_no_report(karate: Path) -> None:
    result = run("--debug", "rank", karate, "--method", "magic")
    assert isinstance(result.exception, ValueError)
    assert not hasattr(result.exception, "__notes__")


def test_a_closed_pipe_ends_quietly(karate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_inside(BrokenPipeError(32, "Broken pipe"), monkeypatch)
    result = run("rank", karate, "--method", "brute")
    assert (result.exit_code, result.output) == (1, "")


def test_tuning_without_optuna_names_the_extra(
    karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    message = refused("tune", karate, "--method", "mask")
    assert "pip install 'nora-influence[tune]'" in message


def test_a_dataset_without_ogb_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "ogb"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ogb", None)
    message = refused("train", "--dataset", "ogbn-arxiv", "--out", tmp_path / "run")
    assert "pip install 'nora-influence[ogb]'" in message


def test_any_import_of_a_missing_extra_names_it(
    karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def import_optuna(*_: Any, **__: Any) -> None:
        import optuna.samplers  # noqa: F401

    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.setattr(nora.Session, "influence", import_optuna)
    message = refused("rank", karate, "--method", "brute")
    assert "installed: pip install 'nora-influence[tune]'" in message


def test_every_package_of_an_extra_is_known() -> None:
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for maintainers in ("docs", "dev"):
        del extras[maintainers]
    brought = {
        need.partition(">")[0]: extra
        for extra, needs in extras.items()
        for need in needs
        if not need.startswith("nora-influence[")  # another extra, which brings its own
    }
    assert brought == EXTRAS


def test_warnings_are_one_line_and_not_what_libraries_tell_each_others_programmers(
    karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outdated(*_: Any, **__: Any) -> None:
        for category in (FutureWarning, DeprecationWarning, PendingDeprecationWarning, UserWarning):
            warnings.warn(f"a\n{category.__name__}", category, stacklevel=1)
        raise OSError("and an end")

    monkeypatch.setattr(nora.Session, "influence", outdated)
    result = run("rank", karate, "--method", "brute")
    assert result.stderr == "warning: a UserWarning\nerror: and an end\n"
