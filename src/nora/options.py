"""Options: small frozen dataclasses whose fields are keywords in Python and flags in a shell.

    @dataclass(frozen=True)
    class TrainOptions(Options):
        epochs: int = setting(200, "Maximum number of epochs.", metavar="N", least=1)

Default, check and description of an option stand in one place. `takes_options` lets a function take the
fields as keywords (`analyse(edges, epochs=50)`), `nora.cli.flags` makes flags of them (`--epochs 50`), and a
message names an option by `option("epochs")`: `epochs=` or `--epochs`, as the reader writes it.
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, field, fields, replace
from typing import Any, ClassVar, TypeVar

from nora.arguments import check_number, check_seed, check_whole
from nora.registry import nearest
from nora.stacklevel import warn

R = TypeVar("R")
# The flags of the command that runs, by option; none in Python.
_FLAGS: ContextVar[Mapping[str, str] | None] = ContextVar("flags", default=None)


def option(name: str, value: Any = None) -> str:
    """An option in a message, as its reader writes it.

    >>> option("labels"), option("task", "link"), option("directed", True)
    ('labels=', "task='link'", 'directed=True')
    >>> with in_flags({"task": "--task", "ignore": "--ignore", "directed": "--directed"}):
    ...     option("task", "link"), option("ignore", ["bio", "last seen"]), option("directed", True)
    ('--task link', "--ignore 'bio,last seen'", '--directed')
    """
    flag = (_FLAGS.get() or {}).get(name)
    if flag is None:
        return f"{name}=" if value is None else f"{name}={value!r}"
    if value is None or value is True:
        return flag
    return f"{flag} {shlex.quote(','.join(value) if isinstance(value, list) else str(value))}"


@contextmanager
def in_flags(flags: Mapping[str, str]) -> Iterator[None]:
    """Let messages name flags: those of a command, by the names of its parameters."""
    before = _FLAGS.set(flags)
    try:
        yield
    finally:
        _FLAGS.reset(before)


def setting(
    default: Any,
    text: str,
    *,
    metavar: str | None = None,
    least: float | None = None,
    most: float | None = None,
    choices: Sequence[str] = (),
    shown: str | None = None,
    commas: bool = False,
) -> Any:
    """A field of options.

    Args:
        default: Its default.
        text: One or two sentences about it.
        metavar: What stands for its value in `--help`.
        least, most: Bounds of a number.
        choices: The values that it takes.
        shown: The default in words.
        commas: Whether a shell may give several at once, with commas.
    """
    facts = {key: value for key, value in locals().items() if key != "default"}
    return field(default=default, metadata=facts)


class Options:
    """The base of all options: values are checked, and one text where several fit is a tuple of one."""

    # Deprecated names of fields, which work with a warning.
    formerly: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        about = [f"        {key}: {one.metadata['text']}" for key, one in _settings(cls)]
        cls.__doc__ = "\n".join([f"{cls.__doc__}\n", "    Attributes:", *about])

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, one.name)
            if isinstance(one.default, tuple) and not isinstance(value, tuple):
                several = (value,) if isinstance(value, str) else tuple(value or ())
                object.__setattr__(self, one.name, several)
            elif value is not None or one.default is not None:
                _check(one, value)

    def given(self) -> dict[str, Any]:
        """The fields that are not at their defaults."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, (value, default) in values.items() if value is not default}


def _settings(cls: type) -> Iterator[tuple[str, Field[Any]]]:
    return ((key, one) for key, one in vars(cls).items() if isinstance(one, Field) and one.metadata)


def _check(one: Field[Any], value: Any) -> None:
    choices, least, most = (one.metadata.get(key) for key in ("choices", "least", "most"))
    if choices and value not in choices:
        expected = " or ".join(map(repr, choices))
        raise ValueError(f"got {option(one.name, value)}; it must be {expected}")
    if one.name == "seed":
        return check_seed(value)
    if least is None and most is None:
        return
    if "float" in str(one.type):
        check_number(one.name, value, least, most)
    else:
        check_whole(one.name, value, least, most)


def options_of(function: Callable[..., Any]) -> dict[str, Options]:
    """The parameters of a function that are options, with their defaults."""
    parameters = inspect.signature(function).parameters
    return {key: one.default for key, one in parameters.items() if isinstance(one.default, Options)}


def takes_options(function: Callable[..., R]) -> Callable[..., R]:
    """A function that takes the fields of its options as keywords, too.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Ride(Options):
    ...     "How to ride."
    ...     speed: int = setting(3, "Speed.", least=1)
    >>> @takes_options
    ... def ride(where, how=Ride()):
    ...     return where, how.speed
    >>> ride("home", speed=5), ride("home", how=Ride(4))
    (('home', 5), ('home', 4))
    >>> ride("home", sped=5)
    Traceback (most recent call last):
    TypeError: ride has no option 'sped'. Did you mean 'speed'?
    """
    groups = options_of(function)
    home = {one.name: key for key, default in groups.items() for one in fields(default)}  # type: ignore[arg-type]
    plain = inspect.signature(function).parameters
    renamed = {old: new for default in groups.values() for old, new in default.formerly.items()}

    @functools.wraps(function)
    def called(*args: Any, **given: Any) -> R:
        for old in given.keys() & renamed.keys():
            warn(f"{old}= is deprecated: use {renamed[old]}=", DeprecationWarning)
            given[renamed[old]] = given.pop(old)
        for name in given:
            if name not in plain and name not in home:
                close = nearest(name, [*plain, *home])
                raise TypeError(f"{function.__name__} has no option {name!r}.{close}")
        loose = {name: given.pop(name) for name in [*given] if name in home}
        for key, default in groups.items():
            mine = {name: value for name, value in loose.items() if home[name] == key}
            given[key] = replace(given.get(key, default), **mine)
        return function(*args, **given)

    return called
