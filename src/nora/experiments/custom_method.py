"""A custom method as a row in the tables, named as `package.module:function`."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

from nora.methods import METHODS
from nora.registry import nearest

SIGNATURE = "(problem, *, options with defaults)"


def method_named(text: str) -> str:
    """The name of a method in `METHODS`.

    A callable that is not registered yet is registered by its place. One that needs more than the model, e.g.
    labels, registers itself with `MethodFacts`, and has its own name.

    Args:
        text: A name from `nora methods`, or `package.module:function`. Modules are searched where Python
            searches, and last in the working folder.

    Example:
        >>> method_named("degree"), method_named("nora.methods.degree:degree")
        ('degree', 'degree')
    """
    place, colon, name = text.partition(":")
    if not colon:
        METHODS.check(text)
        return text
    if not place or not name:
        raise ValueError(f"a custom method is named as package.module:function, got {text!r}")
    found = _found(place, name, text)
    for entry in METHODS:
        if entry.value is found:
            return entry.name
    _check_signature(found, text)
    METHODS.register(text, f"from {place}")(found)
    return text


def _found(place: str, name: str, text: str) -> Any:
    folder = str(Path.cwd())
    if folder not in sys.path and "" not in sys.path:
        sys.path.append(folder)  # last, so that nothing that is installed is hidden
    try:
        module = importlib.import_module(place)
    except ImportError as error:
        raise ValueError(
            f"cannot import {place!r} of method {text!r} ({error}); is it installed, or in the folder where "
            "the command is run?"
        ) from error
    thing: Any = module
    for part in name.split("."):
        if not hasattr(thing, part):
            known = [one for one in dir(thing) if not one.startswith("_")]
            raise ValueError(f"{place!r} has no {name!r}.{nearest(part, known)}")
        thing = getattr(thing, part)
    return thing


def _check_signature(found: Any, text: str) -> None:
    """Raise unless it can be called like a method, without options."""
    if not callable(found):
        raise ValueError(f"{text} is a {type(found).__name__}; a method is a function {SIGNATURE}")
    try:
        inspect.signature(found).bind(object())
    except TypeError as error:
        raise ValueError(f"{text} cannot be called as a method {SIGNATURE}: {error}") from error
    except ValueError:  # built in C, without a signature
        return
