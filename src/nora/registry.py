"""Named families (methods, models, datasets): a new member is a new file.

Facts about members, without importing them (and torch), are in a generated table, `members.json`, in the
family's package; `make tables` writes it, a test compares it with what is registered.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any, Generic, TypeVar

from nora.arguments import shown

TABLE = "members.json"
T = TypeVar("T")
F = TypeVar("F")


def nearest(name: str, known: list[str]) -> str:
    """`" Did you mean 'pagerank'?"` when something close is known, else an empty string.

    >>> nearest("page-rank", ["degree", "pagerank"])
    " Did you mean 'pagerank'?"
    """
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def check_known(owner: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise when an option is none of the known ones.

    >>> check_known("ride", ["sped"], ["speed", "where"])
    Traceback (most recent call last):
    TypeError: ride has no option 'sped'. Did you mean 'speed'? It takes: speed, where
    """
    for name in given:
        if name not in known:
            takes = ", ".join(known) or "no options"
            raise TypeError(
                f"{owner} has no option {name!r}.{nearest(name, list(known))} It takes: {takes}"
            )


def member_of(kind: str, name: str, family: Mapping[str, T]) -> T:
    """The member of that name of a small family."""
    if name not in family:
        raise unknown_name(kind, name, list(family))
    return family[name]


def unknown_name(kind: str, name: Any, known: list[str]) -> ValueError:
    """The error of a name that no member of a family has."""
    return ValueError(
        f"unknown {kind} {shown(name)}.{nearest(str(name), known)} Known: {', '.join(known)}"
    )


@dataclass(frozen=True)
class NoFacts:
    """For families of which there is a summary alone."""


@dataclass(frozen=True)
class Entry(Generic[T, F]):
    """One member of a family: its name, what it is, one line about it, and facts others ask for."""

    name: str
    value: T
    summary: str
    facts: F


class Registry(Generic[T, F]):
    """Members of one family, each in a module of `package`, which is imported when asked for.

    A member is looked for in the module of its own name first (`nora-t1` in `nora_t1`), so that asking
    for one does not load what the others need.

    Args:
        kind: What a member is called in messages.
        package: Where the members are that come with NORA.
        facts: The facts of a member without its own.
    """

    def __init__(self, kind: str, package: str, facts: F) -> None:
        self.kind = kind
        self.package = package
        self.facts = facts
        self._entries: dict[str, Entry[T, F]] = {}
        self._overridden: set[str] = set()
        self._discovered = False

    def register(
        self, name: str, summary: str, facts: F | None = None, *, override: bool = False
    ) -> Callable[[T], T]:
        """Decorator that files its function or class under `name`.

        Args:
            name: Its name in Python and on the command line.
            summary: One line about it.
            facts: What others ask about it.
            override: Take the place of the member that has this name.
        """

        def enter(value: T) -> T:
            if self._is_ours(value) and name in self._overridden:
                return value  # the user's own came first
            if not override:
                self.check_free(name, value)
            if override:
                self._overridden.add(name)
            given = self.facts if facts is None else facts
            self._entries[name] = Entry(name, value, summary, given)
            return value

        return enter

    def check_free(self, name: str, value: T) -> None:
        """Raise when another member has this name already."""
        there = self._entries.get(name) if self._is_ours(value) else self.get(name)
        if there is not None and not _same_source(there.value, value):
            raise ValueError(
                f"there is a {self.kind} {name!r} already; choose another name, or register it with "
                "override=True to take its place"
            )

    def get(self, name: str) -> Entry[T, F] | None:
        """The member of that name; None when there is none."""
        if name not in self._entries and not self._discovered:
            home = self._home(name)
            if home is not None:
                importlib.import_module(home)
        if name not in self._entries:
            self._discover()
        return self._entries.get(name)

    def _home(self, name: Any) -> str | None:
        """The module named after a member, if there is one."""
        home = str(name).replace("-", "_")
        found = home.isidentifier() and importlib.util.find_spec(f"{self.package}.{home}")
        return f"{self.package}.{home}" if found else None

    def _is_ours(self, value: T) -> bool:
        """Whether it comes with NORA."""
        return str(getattr(value, "__module__", "")).startswith(f"{self.package}.")

    def _discover(self) -> None:
        if not self._discovered:
            self._discovered = True
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self.package}.{module.name}")

    def listing(self) -> list[dict[str, Any]]:
        """Name, summary and facts of every member, by name: from the table, which imports no member."""
        table = resources.files(self.package) / TABLE
        if table.is_file():
            known = {row["name"]: row for row in json.loads(table.read_text(encoding="utf-8"))}
        else:
            known = {}
            self._discover()
        known |= {name: _row(entry) for name, entry in self._entries.items()}
        return [known[name] for name in sorted(known)]

    def members(self) -> list[dict[str, Any]]:
        """The listing of all members that come with NORA, imported."""
        return [_row(entry) for entry in self if self._is_ours(entry.value)]

    def names(self) -> list[str]:
        """The names of all members; with a table, no member is imported."""
        return [row["name"] for row in self.listing()]

    def check(self, name: str) -> None:
        """Raise for an unknown name; no member is imported where there is a table.

        A member in a file of its own name is known before it is in the table.
        """
        if name not in (known := self.names()) and self._home(name) is None:
            raise unknown_name(self.kind, name, known)

    def __getitem__(self, name: str) -> Entry[T, F]:
        found = self.get(name) if isinstance(name, str) else None
        if found is None:
            raise unknown_name(self.kind, name, self.names())
        return found

    def __iter__(self) -> Iterator[Entry[T, F]]:
        self._discover()
        return iter(self._entries[name] for name in sorted(self._entries))


def _row(entry: Entry[Any, Any]) -> dict[str, Any]:
    return {"name": entry.name, "summary": entry.summary, **asdict(entry.facts)}


def _same_source(one: Any, other: Any) -> bool:
    """Whether a cell of a notebook, or a module, was run again: the same thing by another object."""
    places = [
        (getattr(thing, "__module__", None), getattr(thing, "__qualname__", None))
        for thing in (one, other)
    ]
    return places[0] == places[1] and None not in places[0]
