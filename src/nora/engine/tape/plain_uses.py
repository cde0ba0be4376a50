"""Uses of a size that the size itself cannot see, because C code reads it as a plain integer.

A float on the left of it computes by itself (`0.5 * n`, `52.5 > n`), and so do builtins and containers
(`range(n)`, `TABLE[n]`, `[0] * n`, `math.isqrt(n)`). The source of the function that reads a size shows them.
What it does not show is not noticed: what another function of the user's does with a size that it is given,
or an exception that serves as a branch.
"""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Iterator
from functools import cache, partial
from types import BuiltinFunctionType, FrameType

from nora.problem.lines import is_own_file

# How many functions of the user's, each called by the next, are looked at.
CALLERS = 3
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_SIZES = ("size", "shape", "numel", "nelement", "num_nodes", "num_edges")
# What asks a size itself, or only passes it on.
_HARMLESS = (
    min, max, len, abs, round, int, float, bool, isinstance, print, slice, tuple, list, type, divmod,
    math.ceil, math.floor,
)  # fmt: skip
_SEQUENCES = (list, tuple, str, bytes, bytearray)


def read_as_plain(frame: FrameType | None) -> bool:
    """Whether the function of a frame, or one that has called it, reads a size as a plain number."""
    for _ in range(CALLERS):
        if frame is None or not is_own_file(frame.f_code.co_filename):
            return False
        code = frame.f_code
        for role, expression in _uses(code.co_filename, code.co_firstlineno):
            if _is_plain(role, expression, frame):
                return True
        frame = frame.f_back
    return False


def _is_plain(role: str, expression: ast.expr, frame: FrameType) -> bool:
    """Whether what stands beside a size reads it as a plain number; what cannot be evaluated may."""
    if any(isinstance(part, ast.Call | ast.Await | ast.NamedExpr) for part in ast.walk(expression)):
        return role == "left"
    try:
        code = compile(ast.Expression(expression), "<beside a size>", "eval")
        found = eval(code, frame.f_globals, frame.f_locals)
    except Exception:  # not set yet, or a property that fails
        return role == "left"
    if role == "left":
        return isinstance(found, (float, *_SEQUENCES))
    if role == "container":
        return isinstance(found, _SEQUENCES)
    if found in _HARMLESS:
        return False
    module = str(getattr(found, "__module__", "") or "").split(".")[0]
    builtin = isinstance(found, BuiltinFunctionType | type | partial | map)
    return builtin and module in (
        "builtins",
        "math",
        "operator",
        "decimal",
        "fractions",
        "functools",
        "",
    )


@cache
def _uses(file: str, first_line: int) -> tuple[tuple[str, ast.expr], ...]:
    """What stands beside a size in the function that begins on a line, and in which role."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", [])
            if first_line in (node.lineno, *(one.lineno for one in decorators)):
                return tuple(_found(node))
    return ()


def _found(function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    names = _names_of_sizes(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            if any(_mentions_size(argument, names) for argument in node.args):
                yield "callee", node.func
        elif isinstance(node, ast.Subscript):
            if _mentions_size(node.slice, names) and not _mentions_size(node.value, names):
                yield "container", node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
            if _mentions_size(node.right, names) and not _mentions_size(node.left, names):
                yield "left", node.left
        elif isinstance(node, ast.Compare):
            for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                if _mentions_size(right, names) and not _mentions_size(left, names):
                    yield "left", left


def _names_of_sizes(function: ast.AST) -> set[str]:
    """Names of sizes, and of what is made of them."""
    names: set[str] = set()
    while True:
        found = set()
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign):
                continue
            if node.value is not None and _mentions_size(node.value, names):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    found |= {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
        if found <= names:
            return names
        names |= found


def _mentions_size(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is a size or made of some; not where tensors are made of it."""
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Attribute) and node.func.attr in _SIZES
        length = isinstance(node.func, ast.Name) and node.func.id in (
            "len",
            "min",
            "max",
            "int",
            "float",
        )
        return (
            named
            or (length and any(_mentions_size(one, names) for one in node.args))
            or (length and isinstance(node.func, ast.Name) and node.func.id == "len")
        )
    if isinstance(node, ast.Attribute):
        return node.attr in _SIZES
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Subscript):
        return _mentions_size(node.value, names)
    if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Tuple | ast.List | ast.IfExp | ast.BoolOp):
        return any(_mentions_size(part, names) for part in ast.iter_child_nodes(node))
    return False
