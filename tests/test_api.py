"""The public surface explains itself: every name says what goes in, what comes out, and shows it."""

from __future__ import annotations

import inspect

import pytest

import nora


@pytest.mark.parametrize("name", nora.__all__)
def test_every_public_name_has_an_example_that_runs(name):
    reply = inspect.getdoc(getattr(nora, name)) or ""
    assert "\nExample:\n    >>> " in reply


def test_dir_shows_the_public_names_and_nothing_else():
    assert dir(nora) == sorted(nora.__all__)


FUNCTIONS = [name for name in nora.__all__ if inspect.isfunction(getattr(nora, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_says_what_goes_in_and_what_comes_out(name):
    function = getattr(nora, name)
    reply = inspect.getdoc(function) or ""
    assert "\nReturns:\n" in reply
    arguments = reply.partition("\nArgs:\n")[2].partition("\n\n")[0]
    for parameter in inspect.signature(function).parameters.values():
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        assert f"    {star}{parameter.name}: " in arguments


@pytest.mark.parametrize("name", nora.__all__)
def test_every_public_method_has_a_docstring(name):
    kept = getattr(nora, name)
    for method, value in vars(kept).items() if inspect.isclass(kept) else ():
        if not method.startswith("_") and callable(getattr(value, "__func__", value)):
            assert inspect.getdoc(getattr(kept, method)), f"{name}.{method}"
