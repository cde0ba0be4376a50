"""Arithmetic that a size cannot see: a float on the left of it (`0.5 * n`) makes a plain float in C.

Where a model's source has such arithmetic with a size on the right, the size becomes a plain number there.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import Any

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_SIZES = ("size", "shape", "numel", "nelement", "num_nodes", "num_edges")


def meets_float(frame: FrameType) -> bool:
    """Whether the function of a frame computes with a float on the left of a size."""
    code = frame.f_code
    return any(
        isinstance(_evaluated(left, frame), float)
        for left in _left_of_sizes(code.co_filename, code.co_firstlineno)
    )


def _evaluated(left: ast.expr, frame: FrameType) -> Any:
    """The value of a literal, or of a name or attribute where it is known by now; else None."""
    chain = left
    while isinstance(chain, ast.Attribute):
        chain = chain.value
    if isinstance(left, ast.UnaryOp):
        return _evaluated(left.operand, frame)
    if not isinstance(chain, ast.Name | ast.Constant):
        return None
    try:
        code = compile(ast.Expression(left), "<left>", "eval")
        return eval(code, frame.f_globals, frame.f_locals)
    except Exception:  # not set yet, or a property that fails
        return None


@cache
def _left_of_sizes(file: str, first_line: int) -> tuple[ast.expr, ...]:
    """What stands on the left of a size in arithmetic, in the function that begins on a line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", [])
            if first_line in (node.lineno, *(one.lineno for one in decorators)):
                return tuple(_suspects(node))
    return ()


def _suspects(function: ast.AST) -> Iterator[ast.expr]:
    names: set[str] = set()
    while True:  # names of sizes, and of what is made of them
        found = {
            name.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign)
            and node.value is not None
            and _mentions_size(node.value, names)
            for target in getattr(node, "targets", None) or [node.target]  # type: ignore[union-attr]
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        }
        if found <= names:
            break
        names |= found
    for node in ast.walk(function):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, _ARITHMETIC):
            continue
        if _mentions_size(node.right, names):
            yield node.left


def _mentions_size(node: ast.AST, names: set[str]) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr in _SIZES)
        or (isinstance(part, ast.Name) and (part.id in names or part.id == "len"))
        for part in ast.walk(node)
    )
