"""The command line, as the tests call it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from nora.cli import app


def run(*args: Any) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def ok(*args: Any) -> str:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*args: Any) -> Any:
    """The whole of standard output, which must be one strict JSON document."""
    return json.loads(ok(*args, "--json"), parse_constant=pytest.fail)


def refused(*args: Any) -> str:
    """The message of a user error: one line on standard error, nothing else, status 2."""
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == "", result.stdout
    assert result.stderr.startswith("error: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr
