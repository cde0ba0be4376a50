"""Number the objects of a program in the order they are made, so that their arrays can be saved and reused.

A program holds functions of the user's model and cannot be written to disk; its arrays can. They belong to
values, spaces, edges and ops, and lowering the same model makes these in the same order every time. While a
ledger is open, each of them gets the next number. A later process that lowers the model again reads the saved
arrays by these numbers instead of computing them; missing ones are computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

if TYPE_CHECKING:
    from nora.engine.compile import Recording

Made = TypeVar("Made", bound=tuple[Tensor, ...])
# What is smaller may stay in memory.
LARGE = 2**20
_MOVER: ContextVar[Mover | None] = ContextVar("mover", default=None)
_OPEN: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


class Ledger:
    """What one builder makes, in order.

    Args:
        given: What was kept of an earlier builder: attributes by the name of what they belong to. None where
            nothing was.
        notes: What an earlier builder has noted.

    Attributes:
        entered: Values, spaces, edges and ops by name, such as `space-3`.
        made: Bindings that were computed while something was made.
        notes: Facts for a later builder other than tensors, by name.
        recording: What is left of the passes over which it went.
    """

    def __init__(
        self,
        given: Mapping[str, Mapping[str, Any]] | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        self.given = given
        self.entered: dict[str, Any] = {}
        self.made: dict[str, tuple[Tensor, ...]] = {}
        self.notes: dict[str, Any] = dict(notes or {})
        self.recording: Recording | None = None
        self._counts: Counter[str] = Counter()

    @property
    def gives(self) -> bool:
        """Whether it restores saved arrays; else it only numbers objects."""
        return self.given is not None

    @contextmanager
    def walking(self) -> Iterator[None]:
        """Enter what is made in this context; a second builder starts from the beginning."""
        self.entered, self.made, self._counts = {}, {}, Counter()
        if not self.gives:
            self.notes = {}
        token = _OPEN.set(self)
        try:
            yield
        finally:
            _OPEN.reset(token)

    def name(self, kind: str) -> str:
        """The name of the next one of a kind."""
        self._counts[kind] += 1
        return f"{kind}-{self._counts[kind] - 1}"

    def fill(self, name: str, one: Any) -> None:
        """Give something what was kept of it."""
        if self.given is not None:
            # Into its dictionary, where cached properties look first; some are frozen.
            vars(one).update(self.given.get(name, {}))


def open_ledger() -> Ledger | None:
    """The ledger of the builder that is under way; None without one."""
    return _OPEN.get()


def enter(kind: str, one: Any) -> None:
    """Number a new object, and restore its saved arrays."""
    ledger = _OPEN.get()
    if ledger is not None:
        name = ledger.name(kind)
        ledger.entered[name] = one
        ledger.fill(name, one)


def made_once(kind: str, make: Callable[[], Made]) -> Made:
    """Bindings that take long to compute: those that were kept, else computed and noted."""
    ledger = _OPEN.get()
    if ledger is None:
        return make()
    name = ledger.name(kind)
    if ledger.given is not None and name in ledger.given:
        return ledger.given[name]["made"]
    found = moved_all(make())
    ledger.made[name] = found
    return found


class Mover(Protocol):
    """Where large tensors go as soon as they are made."""

    def move(self, tensor: Tensor) -> Tensor:
        """The same tensor, mapped from a file."""

    def release(self) -> None:
        """Let go of what was read of these files: it is read again where it is needed."""


@contextmanager
def moving(mover: Mover) -> Iterator[None]:
    """Move large tensors to disk as soon as they are made."""
    token = _MOVER.set(mover)
    try:
        yield
    finally:
        _MOVER.reset(token)


def moved(tensor: Tensor) -> Tensor:
    """A tensor that was just made and will only be read: on disk if it is large and will be saved."""
    mover = _MOVER.get()
    if mover is None or tensor.nbytes < LARGE or tensor.layout != torch.strided:
        return tensor
    return mover.move(tensor)


def make_room() -> None:
    """A pass of the model is next, which wants the memory: what is on disk need not be in it."""
    mover = _MOVER.get()
    if mover is not None:
        mover.release()


def moved_all(tensors: Made) -> Made:
    """The same for several, of which some may be the same one."""
    new = {id(tensor): moved(tensor) for tensor in tensors}
    return cast(Made, tuple(new[id(tensor)] for tensor in tensors))
