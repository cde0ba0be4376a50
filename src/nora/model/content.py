"""Digests of values: equal content gives equal digests, in every process.

`content_digest` walks a value and everything it holds. `parts` names the pieces of one value, and the
digest of a value is made of the labels and digests of its pieces. Nothing depends on addresses, on the
order of sets or on the seed of Python's hashes. Functions and classes have a file of their own
(`nora.model.code_content`), modules and graphs another (`nora.model.model_content`).
"""

from __future__ import annotations

import copyreg
import hashlib
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import WRAPPER_ASSIGNMENTS, cached_property, singledispatch
from types import EllipsisType, MappingProxyType, NoneType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

ContentParts = Iterable[tuple[str, Any]]

_PLAIN = (NoneType, EllipsisType, bool, int, float, complex, str, bytes)


class UnknownContentError(ValueError):
    """Something holds what cannot be read, e.g. an open file; the message says where."""


def content_digest(
    value: Any,
    known: Mapping[int, str] | None = None,
    key: str | None = None,
    seen: list[Any] | None = None,
) -> str:
    """One digest of a value and of everything it holds.

    Args:
        value: Anything; a dictionary's keys name what its values are, for messages.
        known: What objects stand for, by their `id`, that are not to be looked into.
        key: Stands for what cannot be read; without it, that is an error.
        seen: Filled with all objects that were looked into.

    Raises:
        UnknownContentError: When something cannot be read; with the way to it.

    Example:
        >>> content_digest({"a": [1, 2]}) == content_digest({"a": [1, 2]})
        True
        >>> content_digest({"a": [1, 2]}) == content_digest({"a": (1, 2)})
        False
    """
    # What they register is needed, and they need what is defined here.
    import nora.model.code_content
    import nora.model.model_content  # noqa: F401

    walk = _Walk(known or {}, key, [] if seen is None else seen)
    try:
        return walk.digest(value, "").hex()[:32]
    except RecursionError as error:
        raise UnknownContentError(
            f"{_shown(walk.path[:200])} … is nested too deeply to be compared with another"
        ) from error


class _Walk:
    """One walk over a value; every object is looked into once."""

    def __init__(self, known: Mapping[int, str], key: str | None, seen: list[Any]) -> None:
        self.key = key
        self.path = ""
        self._digests = {at: name.encode() for at, name in known.items()}
        # As long as an object lives, no other has its id.
        self._alive = seen

    def digest(self, value: Any, path: str) -> bytes:
        if type(value) in _PLAIN:
            return hashlib.sha256(_plain(value)).digest()
        at = id(value)
        if at not in self._digests:
            # Who comes back here before it is finished finds its number.
            self._digests[at] = f"open {len(self._digests)}".encode()
            self._alive.append(value)
            self._digests[at] = self._walked(value, path)
        return self._digests[at]

    def _walked(self, value: Any, path: str) -> bytes:
        self.path = path
        total = hashlib.sha256()
        try:
            found = list(parts(value))
        except RecursionError:
            raise
        except Exception as error:
            return self._unknown(value, path, error)
        if len(found) == 1 and not found[0][0]:
            return self.digest(found[0][1], path)
        digests = [(label.encode(), self.digest(part, path + label)) for label, part in found]
        if isinstance(value, set | frozenset):
            digests.sort()
        for label, digest in digests:
            total.update(b"%d:%b%d:%b" % (len(label), label, len(digest), digest))
        return total.digest()

    def _unknown(self, value: Any, path: str, error: Exception) -> bytes:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        if self.key is not None:
            return f"unknown {kind} {self.key}".encode()
        raise UnknownContentError(
            f"{_shown(path)} is of the type {kind}, whose content cannot be read ({error}): a "
            "checkpoint could not tell it from another. Keep it elsewhere, or pass key='…', a name of "
            "your own that stands for it and that you change whenever it changes"
        ) from error


def _shown(path: str) -> str:
    """The way to something, as one would write it.

    >>> _shown("['model'].convs['first'].act")
    "model.convs['first'].act"
    """
    return re.sub(r"^\['(\w+)'\]", r"\1", path) or "it"


def _plain(value: Any) -> bytes:
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        text = value
    elif type(value) is int:
        text = hex(value).encode()
    elif isinstance(value, complex):
        text = f"{value.real.hex()} {value.imag.hex()}".encode()
    else:
        text = repr(value).encode()
    return type(value).__name__.encode() + b" " + text


@singledispatch
def parts(value: Any) -> ContentParts:
    """The pieces of a value with their labels, the first of which says what it is.

    One piece without a label is what the value stands for, e.g. a module that was compiled.

    What is registered for no type of its own is taken apart as for `pickle`: an object that leaves
    something out of its state (`__getstate__`) leaves it out here too.
    """
    if type(value).__module__.startswith("numba.") and hasattr(value, "py_func"):
        return [("", value.py_func)]
    return _object(value)


def _object(value: Any) -> ContentParts:
    reduce = copyreg.dispatch_table.get(type(value))
    found = value.__reduce_ex__(4) if reduce is None else reduce(value)
    if isinstance(found, str):
        yield "global", f"{getattr(value, '__module__', type(value).__module__)}.{found}"
        return
    make, arguments, state, items, pairs = (*found, None, None, None)[:5]
    yield "object", type(value)
    yield "made by", make
    for position, argument in enumerate(arguments):
        if argument is not type(value):
            yield f"({position})", argument
    yield from _state(type(value), state)
    for position, item in enumerate(items or ()):
        yield f"[{position}]", item
    yield from _pairs(pairs or ())


def _state(owner: type, state: Any) -> ContentParts:
    """An object's attributes, without cached results."""
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[0], dict | None):
        yield from _state(owner, state[0])
        yield from _state(owner, state[1])
    elif isinstance(state, dict):
        yield from attributes(owner, state)
    else:
        yield "state", state


def attributes(owner: type, state: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Attributes by name; not the results that a `cached_property` keeps, nor copied titles."""
    for name in sorted(state.keys() - set(WRAPPER_ASSIGNMENTS), key=str):
        if not isinstance(getattr(owner, str(name), None), cached_property):
            yield f".{name}", state[name]


def _pairs(pairs: Iterable[tuple[Any, Any]]) -> ContentParts:
    for key, value in pairs:
        yield "key", key
        yield f"[{key!r}]" if type(key) in _PLAIN else "[…]", value


@parts.register(list)
@parts.register(tuple)
@parts.register(set)
@parts.register(frozenset)
def _sequence(value: Any) -> ContentParts:
    if type(value) in (list, tuple):
        yield type(value).__name__, None
        for position, item in enumerate(value):
            yield f"[{position}]", item
    elif isinstance(value, set | frozenset):
        yield "set", type(value)
        for item in value:
            yield "{…}", item
        yield from attributes(type(value), getattr(value, "__dict__", {}))
    else:
        yield from _object(value)


@parts.register(dict)
def _dict(value: Any) -> ContentParts:
    if type(value) is not dict:
        yield from _object(value)
        return
    yield "dict", None
    yield from _pairs(value.items())


@parts.register(MappingProxyType)
def _proxy(value: Any) -> ContentParts:
    yield "proxy", dict(value)


@parts.register(Enum)
def _enum(value: Enum) -> ContentParts:
    yield "enum", type(value)
    yield ".name", value.name
    yield ".value", value.value


@parts.register(Tensor)
def _tensor(value: Tensor) -> ContentParts:
    """The content of a tensor, without its device and `requires_grad`."""
    tensor: Tensor = value.as_tensor() if hasattr(value, "as_tensor") else value.detach()
    yield "tensor", str(tensor.dtype)
    yield "shape", tuple(tensor.shape)
    if tensor.is_quantized:
        yield "scheme", str(tensor.qscheme())
        yield "values", tensor.dequantize()
    elif tensor.layout == torch.strided:
        yield "bytes", hashlib.sha256(tensor_bytes(tensor)).digest()
    else:
        yield "layout", str(tensor.layout)
        yield "sparse", sparse_pieces(tensor)


def sparse_pieces(tensor: Tensor) -> tuple[Tensor, ...]:
    """The tensors that a sparse tensor consists of: its indices, then its values."""
    if tensor.layout == torch.sparse_coo:
        whole = tensor.coalesce()
        return whole.indices(), whole.values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    raise TypeError(f"tensors with the layout {tensor.layout} are not known")


def tensor_bytes(tensor: Tensor) -> Any:
    """The numbers of a dense tensor as they lie in memory, row by row."""
    here = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return here.flatten().view(torch.uint8).numpy().data


@parts.register(np.ndarray)
@parts.register(np.generic)
def _array(value: Any) -> ContentParts:
    array = np.asarray(value)
    yield "array", type(value)
    yield "dtype", repr(array.dtype)
    yield "shape", array.shape
    if array.dtype.hasobject:
        yield "items", array.ravel().tolist()
    else:
        yield "bytes", hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()


@parts.register(torch.dtype)
@parts.register(torch.device)
@parts.register(torch.layout)
@parts.register(torch.memory_format)
@parts.register(np.dtype)
def _by_text(value: Any) -> ContentParts:
    yield type(value).__name__, repr(value)


@parts.register(weakref.ref)
def _reference(value: Any) -> ContentParts:
    yield "reference", value()


@parts.register(RemovableHandle)
def _handle(value: RemovableHandle) -> ContentParts:
    """A hook's content is read where it is registered; its number changes nothing."""
    yield "handle", None
