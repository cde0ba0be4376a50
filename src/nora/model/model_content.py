"""The content of models and graphs: everything that changes a prediction, and nothing else.

Of a module that is its class, parameters, buffers (also those that are not saved), parts, hooks and
everything else it keeps on itself. What a forward pass leaves behind is not: cached normalisations, the
last attention, whether it is in training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx, nn
from torch.nn.utils.parametrize import is_parametrized
from torch_geometric.data.data import BaseData
from torch_geometric.typing import SparseTensor

from nora.model.content import ContentParts, attributes, parts

# The mode; what PyG reads off the class; what concerns compiling, saving and loading; which of two ways it
# has found quicker.
_ASIDE = {
    "training",
    "inspector",
    "_non_persistent_buffers_set",
    "_is_full_backward_hook",
    "_is_torch_compile",
    "_compiled_call_impl",
    "_use_segment_matmul_heuristic_output",
}
# What layers of PyG set when they are run, which way they go: as it is before.
_WAYS: dict[str, Any] = {"fuse": True, "_timing_cache": {}}
_SAVING = ("_state_dict", "_load_state_dict")
_CONTENTS = ("_parameters", "_buffers", "_modules")
_FLAGS = ("_with_kwargs", "_always_called")


@parts.register(nn.Module)
def _module(value: nn.Module) -> ContentParts:
    if "_orig_mod" in value._modules:  # compiled
        yield "", value._modules["_orig_mod"]
        return
    yield "module", None
    # The class of a module with parametrised weights holds the module that it was made for.
    yield "class", type(value).__bases__ if is_parametrized(value) else type(value)
    for kind in _CONTENTS:
        yield kind, None
        for name, held in getattr(value, kind).items():
            yield f".{name}", held
    own = vars(value)
    if isinstance(value, fx.GraphModule):
        # Each has a class of its own, and only this text shows what it computes.
        yield "code", value.code
        own = {name: held for name, held in own.items() if not name.startswith("_") or _hooks(name)}
    yield from _own(value, own)


def _hooks(name: str) -> bool:
    return "_hooks" in name


def _own(module: nn.Module, own: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A module's attributes other than parameters, buffers and modules."""
    settings = {}
    for name, held in own.items():
        if name in _CONTENTS or name in _ASIDE or name.startswith(_SAVING):
            continue
        if _hooks(name) and isinstance(held, dict):
            if not name.endswith(_FLAGS):
                # They are numbered by all hooks that were ever set.
                for position, (number, hook) in enumerate(held.items()):
                    flags = [number in own.get(name + flag, ()) for flag in _FLAGS]
                    yield f".{name}[{position}]", (hook, flags)
        elif not name.startswith("_cached_") and not _is_last_attention(module, name):
            settings[name] = _WAYS[name] if name in _WAYS and _of_pyg(module) else held
    yield from attributes(type(module), settings)


def _of_pyg(module: nn.Module) -> bool:
    return any(kind.__module__.startswith("torch_geometric.") for kind in type(module).__mro__)


def _is_last_attention(module: nn.Module, name: str) -> bool:
    """Whether an attribute is where a PyG layer keeps its attention between two of its methods."""
    return name == "_alpha" and any(
        name in vars(kind).get("__annotations__", {})
        for kind in type(module).__mro__
        if kind.__module__.startswith("torch_geometric.")
    )


@parts.register(torch.jit.ScriptModule)
def _scripted(value: Any) -> ContentParts:
    yield "scripted", None
    held = value._c
    for name in sorted(held._method_names()):
        method = held._get_method(name)
        # Without lines of files, and the names that classes get in this process.
        yield name, re.sub(r"#.*|__torch__[^\s,)\]]*", "", str(method.inlined_graph))
        yield "constants", method.code_with_constants[1]
    for name in sorted(value._concrete_type.get_attributes().keys() - _ASIDE):
        yield f".{name}", held.getattr(name)
    for kind in ("parameters", "buffers", "children"):
        yield kind, dict(getattr(value, f"named_{kind}")())
    yield from _own(value, {name: hook for name, hook in vars(value).items() if _hooks(name)})


@parts.register(BaseData)
def _graph(value: Any) -> ContentParts:
    """A graph by the stores of its node and edge types in their order, each by its keys."""
    yield "graph", type(value)
    nodes = {id(store) for store in value.node_stores}
    for store in value.stores:
        kind = "" if store._key is None else f"[{store._key!r}]"
        yield f"store {kind}", None
        if id(store) in nodes:
            yield f"{kind}.num_nodes", store.num_nodes
        for key in sorted(store.keys()):
            if key != "num_nodes":
                yield f"{kind}.{key}", store[key]


@parts.register(SparseTensor)
def _sparse(value: Any) -> ContentParts:
    yield "SparseTensor", tuple(value.sparse_sizes())
    yield "entries", value.coo()
