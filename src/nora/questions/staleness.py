"""Has the model, the graph or the task changed since a session was made? What is prepared is that of before.

Reading everything would cost every question as much as the graph is large. So it is read once, and afterwards
versions and identities are compared (`nora.model.versions`), which takes a fraction of a millisecond. Only
where these have moved is the content read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nora.artefact import Check
from nora.model import Problem
from nora.model.content import content_digest
from nora.model.fingerprint import pieces_of
from nora.model.versions import Versions


class Staleness:
    """The content of some pieces as it was, by which a change is found.

    Args:
        pieces: What is watched, by name.
        check: `quick` reads the content again only where versions or identities have moved, `all` every time.
        mapped: Pieces that are mapped from a folder: their content is never read.
        known: As in `content_digest`, by piece.
    """

    def __init__(
        self,
        pieces: Mapping[str, Any],
        check: Check = "quick",
        mapped: Iterable[str] = (),
        known: Mapping[str, Mapping[int, str]] | None = None,
    ) -> None:
        if check not in ("quick", "all"):
            raise ValueError(f"check is {check!r}; it must be 'quick' or 'all'")
        self._pieces, self._check, self._known = pieces, check, known or {}
        self._mapped = set(mapped)
        self._digests: dict[str, str] = {}
        self._versions: dict[str, Versions] = {}
        for name in pieces:
            self._digests[name] = self._read(name)

    def _read(self, name: str) -> str:
        if name in self._mapped:
            found = [self._pieces[name], *self._pieces[name].values()]
            self._versions[name] = Versions(found, sampled=False)
            return ""
        seen: list[Any] = []
        # What cannot be read is left out.
        digest = content_digest(self._pieces[name], self._known.get(name), key="session", seen=seen)
        self._versions[name] = Versions(seen)
        return digest

    def changed(self) -> list[str]:
        """The pieces that are not what they were."""
        return [name for name in self._pieces if self._has_changed(name)]

    def _has_changed(self, name: str) -> bool:
        if name in self._mapped:
            return self._versions[name].moved()
        if self._check == "quick" and not self._versions[name].moved():
            return False
        return self._read(name) != self._digests[name]

    def raise_if_changed(self, owner: str, remedy: str) -> None:
        """Raise when a piece is not what it was when `owner` was made."""
        if changed := self.changed():
            raise RuntimeError(
                f"the {' and the '.join(changed)} has changed since {owner} was made: make a "
                f"new {remedy}"
            )


def staleness_of(problem: Problem, check: Check = "quick", mapped: bool = False) -> Staleness:
    """The staleness check of a session.

    Args:
        problem: The question as it was given.
        check: As in `Staleness`.
        mapped: Whether the graph is mapped from a folder.
    """
    pieces = pieces_of(problem)
    if mapped:
        stores = problem.data.stores
        pieces["graph"] = {(n, key): v for n, s in enumerate(stores) for key, v in s.items()}
    # A model that brings its own decoder is described already.
    known = {"task": {id(problem.model): "the model"}}
    return Staleness(pieces, check, ("graph",) if mapped else (), known)
