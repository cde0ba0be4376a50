"""The cache of experiments: work that is done once, each result in a file or folder named by its content."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from nora.artefact import content_sha256
from nora.files import read_json, written_atomically

T = TypeVar("T")


@dataclass(frozen=True)
class Step(Generic[T]):
    """One piece of work, and where its result is cached.

    Attributes:
        label: What is done, and on what.
        where: The place of its result; it may depend on the results of `after`.
        make: Does the work.
        read: Reads the result; None when it has to be made again.
        write: Writes it.
        seconds: What the work took, from the result's place; None where that is not known.
        after: A step that must be done before.
    """

    label: str
    where: Callable[[], Path]
    make: Callable[[], T]
    read: Callable[[Path], T | None]
    write: Callable[[T, Path], Any]
    seconds: Callable[[Path], float | None] = lambda _: None
    after: Step[Any] | None = None

    @property
    def path(self) -> Path:
        """The path of its result."""
        return self.where()

    def done(self) -> bool:
        """Whether its result is there."""
        return self.path.exists()

    def took(self) -> float | None:
        """Seconds of the work; None when it is not done, or does not state them."""
        return self.seconds(self.path) if self.done() else None

    def get(self) -> T:
        """Its result: read where it is there, else made and written."""
        if self.after is not None and not self.after.done():
            self.after.get()
        if self.done() and (found := self.read(self.path)) is not None:
            return found
        made = self.make()
        self.write(made, self.path)
        return made

    @property
    def kind(self) -> str:
        """The kind of work: steps of a kind take about as long.

        >>> Step("tune mask on cora-gcn-node", Path, print, print, print).kind
        'tune mask'
        """
        return self.label.partition(" on ")[0] if " on " in self.label else self.label.split()[0]


def write_numbers(content: Any, path: Path) -> None:
    """Write a JSON document with its digest."""
    text = json.dumps({"content": content, "sha256": content_sha256(content)})
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_numbers(path: Path) -> Any:
    """Read a file of `write_numbers`; None, with a warning, if the file is damaged."""
    if not path.exists():
        return None
    try:
        found = read_json(path)
        if found["sha256"] == content_sha256(found["content"]):
            return found["content"]
    except (ValueError, LookupError, TypeError):
        pass
    warnings.warn(f"{path} was changed after it was written: it is computed again", stacklevel=2)
    return None
