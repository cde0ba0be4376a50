"""The content of functions and classes: their code and all that it refers to.

Library code is identified by its name, the user's code by its bytecode: instructions, names,
constants, defaults, values of the enclosing functions, and the global values and functions it uses. Names
of files and lines, and comments, change nothing.
"""

from __future__ import annotations

import dis
import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterator
from enum import Enum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

from nora.model.content import ContentParts, parts

# Their version identifies what they do; other libraries are also identified by the defining file.
_WELL_KNOWN = {"nora", "torch", "torch_geometric", "numpy", "scipy", "pandas"}
_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_BOOKKEEPING = {"__repr__", "__str__", "_abc_impl"}
# PyG writes these into a class when it is first used, by the signatures of the others.
_GENERATED = {
    f"{prefix}{name}"
    for name in ("propagate", "edge_updater", "collect", "edge_collect")
    for prefix in ("", "_orig_", "_jinja_")
}


@lru_cache(maxsize=4096)
def _library_file(module: str) -> str | None:
    """The file that an installed module comes from, empty if well known; None for a user's own."""
    root = module.partition(".")[0]
    if root in _WELL_KNOWN:
        return ""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return "" if root in sys.stdlib_module_names else None
    if {"site-packages", "dist-packages"} & set(Path(file).parts):
        return str(file)
    return "" if Path(file).is_relative_to(sysconfig.get_path("stdlib")) else None


def _is_library(module: str) -> bool:
    # With `python -m …` the file of this one may be an installed program's that runs a user's code.
    return module != "__main__" and _library_file(module) is not None


@lru_cache(maxsize=1024)
def _file_digest(file: str) -> bytes:
    return hashlib.sha256(Path(file).read_bytes()).digest()


def _in_library(value: Any) -> Iterator[tuple[str, Any]]:
    """The name under which a library holds this very thing; nothing for what is a user's own."""
    module, name = getattr(value, "__module__", None), value.__qualname__
    if not isinstance(module, str) or not _is_library(module):
        return
    found: Any = sys.modules.get(module)
    for step in name.split("."):
        found = getattr(found, step, None)
    if found is not value:
        return
    yield "named", f"{module}.{name}"
    file = _library_file(module)
    if file and file.endswith(".py"):
        yield "file", _file_digest(file)


@parts.register(types.FunctionType)
def _function(value: types.FunctionType) -> ContentParts:
    compiled = getattr(value, "_torchdynamo_orig_callable", None)
    if compiled is not None:
        yield "", compiled
        return
    yield "function", None
    named = list(_in_library(value))
    if named:
        yield from named
        return
    code = value.__code__
    yield "code", code
    yield "defaults", value.__defaults__
    yield "keywords", value.__kwdefaults__
    for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
        yield f" → {name}", _cell(cell)
    for name in sorted(vars(value).keys() - {"__wrapped__"}):
        yield f".{name}", vars(value)[name]
    if not _is_library(value.__globals__.get("__name__", "")):
        yield from _used_globals(code, value.__globals__)


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return ...


@parts.register(type(lru_cache(len)))
def _remembering(value: Any) -> ContentParts:
    yield "", value.__wrapped__


@parts.register(types.CodeType)
def _code(value: types.CodeType) -> ContentParts:
    yield "code", value.co_code
    yield "exceptions", value.co_exceptiontable
    yield "flags", value.co_flags
    yield "names", value.co_names
    arguments = value.co_argcount + value.co_kwonlyargcount
    yield "arguments", value.co_varnames[:arguments]
    yield "kinds", (value.co_posonlyargcount, value.co_argcount, value.co_kwonlyargcount)
    yield "cells", (value.co_cellvars, value.co_freevars)
    for position, constant in enumerate(value.co_consts):
        yield f"constant {position}", constant


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


@lru_cache(maxsize=4096)
def _global_names(code: types.CodeType) -> tuple[tuple[str, ...], set[str]]:
    """The names of globals that a function's code looks up, and all names in it."""
    codes = list(_nested(code))
    wanted = {
        str(step.argval)
        for one in codes
        for step in dis.get_instructions(one)
        if step.opname in _GLOBAL
    }
    return tuple(sorted(wanted)), {name for one in codes for name in one.co_names}


def _used_globals(code: types.CodeType, scope: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The global values that a function's code looks up, and what it may want of user's modules."""
    wanted, names = _global_names(code)
    for name in wanted:
        if name not in scope:
            continue
        if isinstance(scope[name], types.ModuleType):
            yield from _of_module(scope[name], names, f" → {name}", set())
        else:
            yield f" → {name}", scope[name]


def _of_module(
    module: types.ModuleType, names: set[str], label: str, seen: set[int]
) -> Iterator[tuple[str, Any]]:
    yield label, module
    if _is_library(module.__name__) or id(module) in seen:
        return
    seen.add(id(module))
    for name in sorted(names & vars(module).keys()):
        value = vars(module)[name]
        if isinstance(value, types.ModuleType):
            yield from _of_module(value, names, f"{label}.{name}", seen)
        else:
            yield f"{label}.{name}", value


def referred(value: types.FunctionType | type) -> Iterator[Any]:
    """The objects that a user's function or class refers to; what a library defines does not change."""
    if any(True for _ in _in_library(value)):
        return
    if isinstance(value, type):
        yield from (*vars(value).values(), *value.__bases__)
        return
    yield from (value.__code__, value.__defaults__, value.__kwdefaults__, *vars(value).values())
    yield from (_cell(cell) for cell in value.__closure__ or ())
    if not _is_library(value.__globals__.get("__name__", "")):
        yield from (found for _, found in _used_globals(value.__code__, value.__globals__))


@parts.register(types.ModuleType)
def _module(value: types.ModuleType) -> ContentParts:
    yield "module", value.__name__


@parts.register(types.MethodType)
def _method(value: types.MethodType) -> ContentParts:
    yield "method", None
    yield ".__self__", value.__self__
    yield f".{value.__func__.__name__}", value.__func__


@parts.register(types.BuiltinFunctionType)
@parts.register(types.MethodWrapperType)
def _builtin(value: Any) -> ContentParts:
    yield (
        "builtin",
        f"{value.__module__ if hasattr(value, '__module__') else ''}.{value.__qualname__}",
    )
    if not isinstance(value.__self__, types.ModuleType):
        yield ".__self__", value.__self__


@parts.register(types.MethodDescriptorType)
@parts.register(types.WrapperDescriptorType)
@parts.register(types.GetSetDescriptorType)
@parts.register(types.MemberDescriptorType)
@parts.register(types.ClassMethodDescriptorType)
def _descriptor(value: Any) -> ContentParts:
    yield "descriptor", value.__name__
    yield "of", value.__objclass__


@parts.register(torch._ops.OpOverload)
@parts.register(torch._ops.OpOverloadPacket)
def _operator(value: Any) -> ContentParts:
    yield "operator", str(value)


@parts.register(torch.jit.ScriptFunction)
def _script(value: Any) -> ContentParts:
    yield "script", value.code


@parts.register(staticmethod)
@parts.register(classmethod)
def _on_class(value: Any) -> ContentParts:
    yield type(value).__name__, value.__func__


@parts.register(property)
def _property(value: property) -> ContentParts:
    yield "property", (value.fget, value.fset)


@parts.register(cached_property)
def _cached(value: Any) -> ContentParts:
    yield "cached", value.func


@parts.register(type)
def _class(value: type) -> ContentParts:
    yield "class", None
    named = list(_in_library(value))
    if named:
        yield from named
        return
    yield "name", value.__qualname__
    yield "bases", value.__bases__
    if issubclass(value, Enum):
        yield "members", {name: member.value for name, member in value.__members__.items()}
    for name, attribute in sorted(vars(value).items()):
        if not _is_bookkeeping(value, name, attribute):
            yield f".{name}", attribute


def _is_bookkeeping(owner: type, name: str, attribute: Any) -> bool:
    """Whether an attribute of a class is there for Python's or a library's own purposes."""
    if name in _BOOKKEEPING or isinstance(
        attribute, types.MemberDescriptorType | types.GetSetDescriptorType
    ):
        return True
    code = isinstance(attribute, types.FunctionType | staticmethod | classmethod | property)
    if name in _GENERATED and getattr(attribute, "__module__", None) != owner.__module__:
        return True
    return not code and (name.startswith("__") or issubclass(owner, Enum))
