"""Reject arguments of the wrong type, in one sentence: what was expected, and what was given."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

# What torch's generators take.
LEAST_SEED, MOST_SEED = -(2**63), 2**63 - 1


def check_whole(what: str, value: Any, least: int | None = None, most: int | None = None) -> None:
    """Raise unless `value` is a whole number within these bounds.

    >>> check_whole("epochs", "5", 1)
    Traceback (most recent call last):
    TypeError: epochs must be a whole number, got '5'
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{what} must be a whole number, got {shown(value)}")
    if least is not None and int(value) < least:
        raise ValueError(f"{what} must be at least {least:,}, got {value}")
    if most is not None and int(value) > most:
        raise ValueError(f"{what} must be at most {most:,}, got {value}")


def check_number(
    what: str, value: Any, least: float | None = None, most: float | None = None
) -> None:
    """Raise unless `value` is a number within these bounds; NaN never is.

    >>> check_number("budget", "1min")
    Traceback (most recent call last):
    TypeError: budget must be a number, got '1min'
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{what} must be a number, got {shown(value)}")
    if least is not None and not float(value) >= least:
        raise ValueError(f"{what} must be at least {least:g}, got {value}")
    if most is not None and not float(value) <= most:
        raise ValueError(f"{what} must be at most {most:g}, got {value}")


def check_seed(seed: Any, what: str = "seed") -> None:
    """Raise unless random generators take it."""
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(f"{what} must be a whole number, e.g. 0 or 42; got {shown(seed)}")
    if not LEAST_SEED <= int(seed) <= MOST_SEED:
        raise ValueError(f"{what} must fit into 64 bits, e.g. 0 or 42; got {seed}")


def path_of(place: Any, what: str = "path") -> Path:
    """A path; anything but a text or a path is refused.

    >>> path_of(3)
    Traceback (most recent call last):
    TypeError: path must be a string or a pathlib.Path, got 3
    """
    if not isinstance(place, str | os.PathLike):
        raise TypeError(f"{what} must be a string or a pathlib.Path, got {shown(place)}")
    return Path(place)


def check_options(owner: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise unless every option is what the function's annotation asks for.

    Args:
        owner: Whose options they are, for messages.
        function: Where they are annotated.
        options: Name and value of those given.
    """
    try:
        hints = get_type_hints(function)
    except NameError:  # annotations imported for type checkers only: the function checks for itself
        hints = {}
    for key, value in options.items():
        if key in hints and not fits(value, hints[key]):
            if get_origin(hints[key]) is Literal and isinstance(value, str):
                raise ValueError(f"{key} is {value!r}; it must be {type_in_words(hints[key])}")
            raise TypeError(
                f"option {key} of {owner} takes {type_in_words(hints[key])}, got {shown(value)}"
            )
        if key == "seed" and value is not None:
            check_seed(value, f"option seed of {owner}")


def fits(value: Any, hint: Any) -> bool:
    """Whether `value` is what an annotation asks for; annotations not known here accept all."""
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if isinstance(value, bool):
        return hint not in (int, float, str, NoneType)
    if hint is float:
        return isinstance(value, Real)
    if hint is int:
        return isinstance(value, Integral)
    return isinstance(value, hint) if hint in (str, bool, NoneType) else True


def type_in_words(hint: Any) -> str:
    """An annotation in words.

    >>> type_in_words(int | None), type_in_words(Literal["sum", "own"])
    ('a whole number or None', "'sum' or 'own'")
    """
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(type_in_words(part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return " or ".join(repr(value) for value in get_args(hint))
    words = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
    return words.get(hint, "None")


def shown(value: Any) -> str:
    """A value in a message: short ones as they are, others by their type.

    >>> shown("1min"), shown(list(range(99)))
    ("'1min'", 'a list')
    """
    text = repr(value)
    if len(text) <= 40 and "\n" not in text:
        return text
    name = type(value).__name__
    return f"a{'n' if name[0] in 'aeiouAEIOU' else ''} {name}"
