"""Number the objects of a program in the order they are made, so that their arrays can be saved and reused.

A program holds functions of the user's model and cannot be written to disk; its arrays can. They belong to
values, spaces, edges and ops, and lowering the same model makes these in the same order every time. While a
store is open, each of them gets the next number. A later process that lowers the model again reads the saved
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
    from nora.engine.compile import SavedTraces

Made = TypeVar("Made", bound=tuple[Tensor, ...])
# What is smaller may stay in memory.
LARGE = 2**20
_MOVER: ContextVar[Mover | None] = ContextVar("mover", default=None)
_OPEN: ContextVar[ArrayStore | None] = ContextVar("array_store", default=None)


class ArrayStore:
    """The arrays of one program, by the number of the object that they belong to.

    Args:
        given: Saved attributes, by the name of their object; None if nothing was saved.
        notes: Saved facts other than tensors, by name.

    Attributes:
        entered: Values, spaces, edges and ops by name, such as `space-3`.
        made: Results of long computations, by name; see `made_once`.
        notes: Facts other than tensors, to save, by name.
        traces: The traces that the program was lowered from, as far as they are saved.
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
        self.traces: SavedTraces | None = None
        self._counts: Counter[str] = Counter()

    @property
    def gives(self) -> bool:
        """Whether it restores saved arrays; else it only numbers objects."""
        return self.given is not None

    @contextmanager
    def walking(self) -> Iterator[None]:
        """Number the objects that are made in this context, from 0."""
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
        """Restore the saved attributes of an object."""
        if self.given is not None:
            # Into its dictionary, where cached properties look first; some are frozen.
            vars(one).update(self.given.get(name, {}))


def open_array_store() -> ArrayStore | None:
    """The open store; None without one."""
    return _OPEN.get()


def enter(kind: str, one: Any) -> None:
    """Number a new object, and restore its saved arrays."""
    array_store = _OPEN.get()
    if array_store is not None:
        name = array_store.name(kind)
        array_store.entered[name] = one
        array_store.fill(name, one)


def made_once(kind: str, make: Callable[[], Made]) -> Made:
    """The saved results of a long computation, or the computed ones."""
    array_store = _OPEN.get()
    if array_store is None:
        return make()
    name = array_store.name(kind)
    if array_store.given is not None and name in array_store.given:
        return array_store.given[name]["made"]
    found = moved_all(make())
    array_store.made[name] = found
    return found


class Mover(Protocol):
    """Moves large tensors to disk as soon as they are made."""

    def move(self, tensor: Tensor) -> Tensor:
        """The same tensor, mapped from a file."""

    def release(self) -> None:
        """Release the memory of these files; they are read again when needed."""


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
    """Release what is on disk from memory, before a forward pass of the model."""
    mover = _MOVER.get()
    if mover is not None:
        mover.release()


def moved_all(tensors: Made) -> Made:
    """`moved` for several tensors, which may contain the same one twice."""
    new = {id(tensor): moved(tensor) for tensor in tensors}
    return cast(Made, tuple(new[id(tensor)] for tensor in tensors))
