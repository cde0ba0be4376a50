"""Named families (methods, models, datasets): a new member is a new file, nothing else changes."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def nearest(name: str, known: list[str]) -> str:
    """`" Did you mean 'pagerank'?"` when something close is known, else an empty string.

    >>> nearest("page-rank", ["degree", "pagerank"])
    " Did you mean 'pagerank'?"
    """
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One member of a family: its name, what it is, one line about it, and facts others ask for."""

    name: str
    value: T
    summary: str
    facts: dict[str, Any] = field(default_factory=dict)


class Registry(Generic[T]):
    """Members of one family, found by importing every module of `package` on first use."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._entries: dict[str, Entry[T]] = {}
        self._discovered = False

    def register(self, name: str, summary: str, **facts: Any) -> Callable[[T], T]:
        """Decorator that files its function or class under `name`."""

        def enter(value: T) -> T:
            self._entries[name] = Entry(name, value, summary, facts)
            return value

        return enter

    def _discover(self) -> None:
        if not self._discovered:
            self._discovered = True
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self.package}.{module.name}")

    def __getitem__(self, name: str) -> Entry[T]:
        self._discover()
        if name not in self._entries:
            known = sorted(self._entries)
            raise ValueError(
                f"unknown {self.kind} {name!r}.{nearest(name, known)} Known: {', '.join(known)}"
            )
        return self._entries[name]

    def __iter__(self) -> Iterator[Entry[T]]:
        self._discover()
        return iter(self._entries[name] for name in sorted(self._entries))
