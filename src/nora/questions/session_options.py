"""The options of a session that every question takes: declared once, shown and documented by each."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypedDict, TypeVar

from nora.graph.node_index import Nodes
from nora.model import Transform
from nora.model.calling import Forward
from nora.questions.session import Session
from nora.registry import check_known

P = ParamSpec("P")
R = TypeVar("R")


class SessionOptions(TypedDict, total=False):
    """Options of every question beside model, graph and task; see `nora.Session`."""

    forward: Forward | None
    transform: Transform | None
    strict: bool
    names: Sequence[str] | None
    class_names: Sequence[str] | None


class CountingOptions(SessionOptions, total=False):
    """The same for questions that can count some predictions only."""

    targets: Nodes | None


def takes_session_options(options: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Show the keys of `options` in a function's signature and documentation, where it has `**about`.

    Args:
        options: `SessionOptions` or `CountingOptions`.
    """
    session = inspect.signature(Session).parameters
    keys = [key for key in session if key in options.__annotations__]

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        shown = inspect.signature(function)
        own = [one for one in shown.parameters.values() if one.kind is not one.VAR_KEYWORD]
        shown = shown.replace(parameters=[*own, *(session[key] for key in keys)])

        @functools.wraps(function)
        def called(*args: P.args, **given: P.kwargs) -> R:
            check_known(function.__name__, given, list(shown.parameters))
            return function(*args, **given)

        text = "".join(f"        {key}: {_described(key)}\n" for key in keys)
        called.__doc__ = re.sub(r" {8}\*\*about: .*\n", lambda _: text, function.__doc__ or "")
        setattr(called, "__signature__", shown)  # noqa: B010  (functions declare no such attribute)
        return called

    return decorate


def _described(key: str) -> Any:
    """How `Session` describes one of its arguments."""
    found = re.search(rf"^ {{8}}{key}: (.*\n(?: {{12}}.*\n)*)", Session.__doc__ or "", re.M)
    return found[1].rstrip() if found else "As in `nora.Session`."
