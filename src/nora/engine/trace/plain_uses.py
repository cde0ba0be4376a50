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
from collections.abc import Container, Iterator
from functools import cache, partial
from types import BuiltinFunctionType, FrameType

from nora.model.lines import is_own_file

# How many functions of the user's, each called by the next, are looked at.
CALLERS = 3
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_SIZES = ("size", "shape", "numel", "nelement", "num_nodes", "num_edges")
# What asks a size itself, or only passes it on.
_HARMLESS = (
    min, max, len, abs, round, int, float, bool, isinstance, print, slice, tuple, list, type, divmod,
    math.ceil, math.floor,
)  # fmt: skip
COMPUTE_IN_C = ("builtins", "math", "_operator", "decimal", "fractions", "functools")
_SEQUENCES = (list, tuple, str, bytes, bytearray)


def read_as_plain(frame: FrameType | None) -> bool:
    """Whether the function of a frame, or one that has called it, reads a size as a plain number."""
    for _ in range(CALLERS):
        if frame is None or not is_own_file(frame.f_code.co_filename):
            return False
        code = frame.f_code
        for role, expression, lines in _uses(code.co_filename, code.co_firstlineno):
            if frame.f_lineno in lines and _is_plain(role, expression, frame):
                return True
        frame = frame.f_back
    return False


def _is_plain(role: str, expression: ast.expr, frame: FrameType) -> bool:
    """Whether what stands beside a size reads it as a plain number; a name that is not known yet may."""
    if any(isinstance(part, ast.Call | ast.Await | ast.NamedExpr) for part in ast.walk(expression)):
        return role == "left" and _calls_for_float(expression)
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
    return builtin and module in COMPUTE_IN_C


def _calls_for_float(expression: ast.expr) -> bool:
    """Whether an expression calls `float` or something of `math`; most others give tensors."""
    calls = [part.func for part in ast.walk(expression) if isinstance(part, ast.Call)]
    return any(
        (isinstance(one, ast.Name) and one.id == "float")
        or (isinstance(one, ast.Attribute) and getattr(one.value, "id", "") == "math")
        for one in calls
    )


@cache
def _uses(file: str, first_line: int) -> tuple[tuple[str, ast.expr, frozenset[int]], ...]:
    """What stands beside a size in the function that begins on a line, its role, and lines of the size.

    The lines are those of the use itself, and of the assignments of names that it mentions.
    """
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


def _found(function: ast.AST) -> Iterator[tuple[str, ast.expr, frozenset[int]]]:
    names = _names_of_sizes(function)

    def where(node: ast.AST) -> frozenset[int]:
        lines = set(_lines(node))
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                lines |= names.get(part.id, set())
        return frozenset(lines)

    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            if any(_mentions_size(argument, names) for argument in node.args):
                yield "callee", node.func, where(node)
        elif isinstance(node, ast.Subscript):
            if _mentions_size(node.slice, names) and not _mentions_size(node.value, names):
                yield "container", node.value, where(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
            if _mentions_size(node.right, names) and not _mentions_size(node.left, names):
                yield "left", node.left, where(node)
        elif isinstance(node, ast.Compare):
            for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                if _mentions_size(right, names) and not _mentions_size(left, names):
                    yield "left", left, where(node)


def _lines(node: ast.AST) -> range:
    first = getattr(node, "lineno", 0)
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def _names_of_sizes(function: ast.AST) -> dict[str, set[int]]:
    """Names of sizes, and of what is made of them, with the lines that their sizes come from."""
    names: dict[str, set[int]] = {}
    while True:
        before = {name: len(lines) for name, lines in names.items()}
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign):
                continue
            if node.value is None or not _mentions_size(node.value, names):
                continue
            lines = set(_lines(node))
            for part in ast.walk(node.value):
                lines |= names.get(part.id, set()) if isinstance(part, ast.Name) else set()
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        names.setdefault(part.id, set()).update(lines)
        if before == {name: len(lines) for name, lines in names.items()}:
            return names


def _mentions_size(node: ast.AST, names: Container[str]) -> bool:
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
