"""Named families (methods, models, datasets): a new member is a new file, nothing else changes."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nora.arguments import shown
from nora.told_in_source import NotToldError, told_members

T = TypeVar("T")
F = TypeVar("F")


def nearest(name: str, known: list[str]) -> str:
    """`" Did you mean 'pagerank'?"` when something close is known, else an empty string.

    >>> nearest("page-rank", ["degree", "pagerank"])
    " Did you mean 'pagerank'?"
    """
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


@dataclass(frozen=True)
class NoFacts:
    """For families of which there is nothing to say beside a summary."""


@dataclass(frozen=True)
class Entry(Generic[T, F]):
    """One member of a family: its name, what it is, one line about it, and facts others ask for."""

    name: str
    value: T
    summary: str
    facts: F


@dataclass(frozen=True)
class Told(Generic[F]):
    """What can be told of a member without loading it."""

    name: str
    summary: str
    facts: F


class Registry(Generic[T, F]):
    """Members of one family, each in a module of `package`, which is imported when asked for.

    A member is looked for in the module of its own name first (`nora-t1` in `nora_t1`), so that asking
    for one does not load what the others need.

    Args:
        kind: What a member is called in messages.
        package: Where the members are that come with NORA.
        facts: What is known of a member of which nothing is said.
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
            module = name.replace("-", "_")
            home = f"{self.package}.{module}"
            if module.isidentifier() and importlib.util.find_spec(home):
                importlib.import_module(home)
        if name not in self._entries:
            self._discover()
        return self._entries.get(name)

    def _is_ours(self, value: T) -> bool:
        """Whether it comes with NORA."""
        return str(getattr(value, "__module__", "")).startswith(f"{self.package}.")

    def _discover(self) -> None:
        if not self._discovered:
            self._discovered = True
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self.package}.{module.name}")

    def told(self) -> list[Told[F]]:
        """Name, summary and facts of every member, from their sources: nothing is imported for it."""
        if not self._discovered:
            with suppress(NotToldError):
                told = {
                    name: Told(name, summary, self.facts if facts is None else facts)
                    for name, (summary, facts) in told_members(self.package).items()
                }
                for name, entry in self._entries.items():
                    told[name] = Told(name, entry.summary, entry.facts)
                return [told[name] for name in sorted(told)]
        return [Told(entry.name, entry.summary, entry.facts) for entry in self]

    def check(self, name: str) -> None:
        """Raise for a name that nobody has; nothing is imported for it."""
        known = [entry.name for entry in self.told()]
        if name not in known:
            raise self._unknown(name, known)

    def _unknown(self, name: str, known: list[str]) -> ValueError:
        return ValueError(
            f"unknown {self.kind} {shown(name)}.{nearest(str(name), known)} Known: {', '.join(known)}"
        )

    def __getitem__(self, name: str) -> Entry[T, F]:
        found = self.get(name) if isinstance(name, str) else None
        if found is None:
            raise self._unknown(name, [entry.name for entry in self.told()])
        return found

    def __iter__(self) -> Iterator[Entry[T, F]]:
        self._discover()
        return iter(self._entries[name] for name in sorted(self._entries))


def _same_source(one: Any, other: Any) -> bool:
    """Whether a cell of a notebook, or a module, was run again: the same thing by another object."""
    places = [
        (getattr(thing, "__module__", None), getattr(thing, "__qualname__", None))
        for thing in (one, other)
    ]
    return places[0] == places[1] and None not in places[0]
