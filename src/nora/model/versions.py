"""Whether objects may have changed, without reading all that they hold: by versions and identities.

torch counts the writes into every tensor (`_version`). Of a tensor that is looked at: this number, its
address, shape and type, and `SAMPLED` of its entries, which is all of a small one. Of containers, objects,
functions and classes: which objects they hold. What has neither (NumPy arrays, sparse tensors, objects with a
state of their own) is read. What this cannot see is a write past torch's count (through `tensor.data`,
through NumPy, or by another process into a mapped file) that spares all sampled entries of a large tensor.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterable, Sequence
from copyreg import dispatch_table
from enum import Enum
from functools import cached_property, partial
from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data.data import BaseData

from nora.model.code_content import referred
from nora.model.content import content_digest, tensor_bytes

# Entries of a tensor that are compared.
SAMPLED = 4096
# Facts that are equal, and objects that are the same, as long as nothing has changed.
Look = tuple[Any, Sequence[Any]]
_FIXED = (
    Enum,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    np.dtype,
    types.CodeType,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
    staticmethod,
    classmethod,
    property,
    cached_property,
)
_DEFAULT = (object.__reduce_ex__, object.__reduce__, getattr(object, "__getstate__", None))


class Versions:
    """Objects as they are now.

    Args:
        objects: The objects, each by itself: what they hold is to be among them.
        sampled: Whether entries of tensors are compared beside their versions.
    """

    def __init__(self, objects: Iterable[Any], sampled: bool = True) -> None:
        self._sampled = sampled
        looks = ((value, self._look(value)) for value in objects)
        self._then = [(value, look) for value, look in looks if look is not None]

    def moved(self) -> bool:
        """Whether any of them may have changed."""
        return any(not _same(self._look(value), then) for value, then in self._then)

    def _look(self, value: Any) -> Look | None:
        """The compared part of an object; None if it cannot change."""
        if isinstance(value, Tensor):
            return self._tensor(value), ()
        if isinstance(value, _FIXED):
            return None
        if isinstance(value, nn.Module) and not isinstance(value, torch.jit.ScriptModule):
            own = list(vars(value).values())
            return None, own + [x for d in own if isinstance(d, dict) for x in (*d, *d.values())]
        if isinstance(value, BaseData):
            return None, [x for store in value.stores for x in (*store.keys(), *store.values())]
        if isinstance(value, types.FunctionType | type):
            return None, list(referred(value))
        if isinstance(value, types.MethodType):
            return None, (value.__self__, value.__func__)
        if isinstance(value, weakref.ref):
            return None, (value(),)
        if isinstance(value, partial):
            return None, (value.func, value.args, value.keywords, *vars(value).values())
        if isinstance(value, dict):
            held = [*value, *value.values(), getattr(value, "default_factory", None)]
            return None, [*held, *getattr(value, "__dict__", {}).values()]
        if isinstance(value, list | tuple | set | frozenset):
            return None, [*value, *getattr(value, "__dict__", {}).values()]
        kind = type(value)
        reduced = (kind.__reduce_ex__, kind.__reduce__, getattr(kind, "__getstate__", None))
        plain = reduced == _DEFAULT and kind not in dispatch_table and hasattr(value, "__dict__")
        if plain and not any("__slots__" in vars(one) for one in kind.__mro__):
            return None, list(vars(value).values())
        return content_digest(value, key="session"), ()

    def _tensor(self, value: Tensor) -> Any:
        if value.layout != torch.strided or value.is_quantized or value.is_inference():
            return content_digest(value)
        facts = (value._version, value.data_ptr(), value.shape, value.stride(), value.dtype)
        return facts, bytes(tensor_bytes(_sample(value))) if self._sampled else b""


def _same(now: Look | None, then: Look) -> bool:
    if now is None or now[0] != then[0] or len(now[1]) != len(then[1]):
        return False
    return all(map(is_, now[1], then[1]))


def _sample(tensor: Tensor) -> Tensor:
    """Some entries of a tensor, evenly spread along its longest axis."""
    step = -(-tensor.numel() // SAMPLED)
    if step <= 1:
        return tensor
    axis = max(range(tensor.dim()), key=tensor.size)
    return tensor.detach()[(slice(None),) * axis + (slice(None, None, step),)]
