"""A device that is not there: tensors whose numbers are in memory, and which behave as on a GPU.

In `PretendDevice()`, operations on such tensors and new tensors with `device="pretend"` give tensors that are
there too. An operation on tensors of both places fails, as do `numpy()` and reading memory. `register` makes
torch know the device, for the whole process: call it in a process of its own.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from torch_geometric.data import Data, HeteroData

DEVICE = "pretend:0"
# What takes tensors of both places.
ACROSS = ("aten::copy_", "aten::_to_copy")


def register() -> None:
    """Make torch know the device; other tests, such as those of random states, must not meet it."""
    _setup_privateuseone_for_python_backend("pretend")


class There(Tensor):
    """A tensor on the device."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> There:
        """The same numbers, over there."""
        about = {"strides": inner.stride(), "dtype": inner.dtype, "device": DEVICE}
        made = torch.Tensor._make_wrapper_subclass(cls, inner.size(), **about)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Where the mode does not reach."""
        return _computed(func, args, kwargs or {})

    def numpy(self, **_: Any) -> Any:
        """As on a GPU."""
        raise TypeError("can't convert pretend:0 device type tensor to numpy")

    def data_ptr(self) -> int:
        """An address, though not one to read from."""
        return self.inner.data_ptr()


class PretendDevice(TorchDispatchMode):
    """While the device is there; `done` has the names of the operations that ran on it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, on either side."""
        if any(isinstance(one, There) for one in tree_leaves((args, kwargs))):
            self.done.add(func._schema.name)
        return _computed(func, args, kwargs or {})


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name, leaves = func._schema.name, tree_leaves((args, kwargs))
    there = [one for one in leaves if isinstance(one, There)]
    here = [one for one in leaves if type(one) is Tensor and one.dim()]
    if there and here and name not in ACROSS:
        raise RuntimeError(
            f"expected all tensors on the same device, got pretend:0 and cpu: {name}"
        )
    goes_there = isinstance(args[0], There) if name == "aten::copy_" else bool(there)
    if kwargs.get("device") is not None:
        goes_there = torch.device(kwargs["device"]).type == "pretend"
        kwargs = {**kwargs, "device": torch.device("cpu")}
    back = {id(one.inner): one for one in there}
    args, kwargs = tree_map(
        lambda one: one.inner if isinstance(one, There) else one, (args, kwargs)
    )

    def placed(one: Any) -> Any:
        if not isinstance(one, Tensor) or not goes_there:
            return one
        return back[id(one)] if id(one) in back else There(one)

    return tree_map(placed, func(*args, **kwargs))


def moved_there(value: Any) -> Any:
    """A copy of a tensor, a module or a graph on the device."""
    if isinstance(value, Tensor):
        return There(value.detach().clone())
    value = copy.deepcopy(value)
    if isinstance(value, Data | HeteroData):
        return value.apply(moved_there)
    for module in value.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                module._parameters[name] = nn.Parameter(moved_there(weight))
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = moved_there(buffer)
    return value
