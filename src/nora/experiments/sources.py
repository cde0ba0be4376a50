"""The code that a cached result depends on, as one digest: when it changes, the result is computed again.

A module stands for its own source and that of the modules it imports, directly or through others, as far as
numbers depend on them. Syntax trees are compared: comments, docstrings and layout change nothing.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from nora.model.content import content_digest

# Where models are trained, and where scores are computed: no other import changes a number.
TRAINING = ("nora.training", "nora.models", "nora.datasets", "nora.seeds", "nora.sparse")
SCORING = (
    "nora.tuning",
    "nora.methods",
    "nora.engine",
    "nora.graph",
    "nora.model",
    "nora.models",
    "nora.results.agreement",
    "nora.seeds",
    "nora.sparse",
)
# It finds modules by looking into folders when they are needed, not by importing them.
DISCOVERING, DISCOVERED = (
    "nora.engine.lower.lowerings",
    ("nora.engine.lower", "nora.engine.lower.conv"),
)


def code_digest(*things: Any, within: tuple[str, ...] = SCORING) -> str:
    """Digest of the code of modules and all they build on.

    Args:
        *things: Names of modules; or functions and classes, which stand for their modules.
        within: Modules and packages that are followed where they are imported.

    Example:
        >>> code_digest("nora.methods.degree") == code_digest("nora.methods.pagerank")
        False
    """
    found: dict[str, str] = {}
    for thing in things:
        name = thing if isinstance(thing, str) else thing.__module__
        if _source(name) is None:
            # Made in an interactive session, without a file.
            found[f"{name}: {getattr(thing, '__qualname__', '')}"] = content_digest(thing)
        else:
            found |= modules_of(name, within)
    total = "\n".join(f"{name} {found[name]}" for name in sorted(found))
    return hashlib.sha256(total.encode()).hexdigest()[:16]


def modules_of(name: str, within: tuple[str, ...] = SCORING) -> dict[str, str]:
    """The modules that one builds on, itself included, with digests of their sources.

    >>> "nora.engine.lower.conv.gcn" in modules_of("nora.methods.exact")
    True
    """
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        file = None if one in found else _source(one)
        if file is not None:
            found[one], imported = _parsed(file, one, file.stat().st_mtime_ns)
            waiting += [other for other in imported if _lies_in(other, within)]
    return found


def _lies_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _source(module: str) -> Path | None:
    """The file of a module; None if it has none, or does not exist."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module not in sys.modules:
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:  # `a.b.c`, where `a.b` is a function
            spec = None
        file = None if spec is None else spec.origin
    return Path(file) if file is not None and file.endswith(".py") else None


@lru_cache(maxsize=4096)
def _parsed(file: Path, module: str, written: int) -> tuple[str, tuple[str, ...]]:
    """Digest of a file's syntax tree, and what it may import.

    Args:
        file: The file.
        module: Its name as a module.
        written: When it was written: a file that has changed is read again.
    """
    tree = ast.parse(file.read_bytes())
    imported = {name for node in ast.walk(tree) for name in _imports(node)}
    if module == DISCOVERING:
        for package in DISCOVERED:
            folder = file.parent / package.removeprefix("nora.engine.lower").removeprefix(".")
            imported |= {f"{package}.{one.stem}" for one in folder.glob("*.py")}
    for node in ast.walk(tree):
        _drop_docstring(node)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(sorted(imported))


def _imports(node: ast.AST) -> Iterator[str]:
    """The modules a statement may import: `from a import b` may mean the module `a.b`."""
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
        yield node.module
        yield from (f"{node.module}.{name.name}" for name in node.names)


def _drop_docstring(node: ast.AST) -> None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]
