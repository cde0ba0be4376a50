"""The members of a family as their sources tell them, without importing what they import.

`nora models` lists names and lines about them; importing every model for that takes seconds of torch. But
a member says both where it is registered, `@MODELS.register("gat", "graph attention …", ModelFacts(…))`, and
that line can be read as it stands.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any


class NotToldError(Exception):
    """Something is not written down plainly: only importing tells."""


def told_members(package: str) -> dict[str, tuple[str, Any]]:
    """Summary and facts (None where none are given) of every member that a package's modules register.

    Raises:
        NotToldError: A source is not there, or a registration is not plain.
    """
    home = importlib.import_module(package)
    families = {name for name, value in vars(home).items() if type(value).__name__ == "Registry"}
    found: dict[str, tuple[str, Any]] = {}
    for module in pkgutil.iter_modules(home.__path__):
        if module.ispkg:
            continue
        tree = _source(home, module.name)
        known = _Constants(tree, home)
        for call in _registrations(tree, families):
            name, summary, *rest = [_value(one, known) for one in call.args]
            given = {key.arg: _value(key.value, known) for key in call.keywords}
            found[name] = (summary, rest[0] if rest else given.get("facts"))
    return found


def _source(package: ModuleType, module: str) -> ast.Module:
    path = Path(package.__path__[0]) / f"{module}.py"
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise NotToldError(str(path)) from error


def _registrations(tree: ast.Module, families: set[str]) -> Iterator[ast.Call]:
    """The calls of `FAMILY.register` at the top of a module, as decorators or by themselves."""
    for call in ast.walk(tree):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "register"
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id in families
        ):
            if len(call.args) < 2:
                raise NotToldError(ast.unparse(call))
            yield call


class _Constants(dict[str, Any]):
    """Names in a module: those of its package, what is plainly assigned at its top, or at a sibling's."""

    def __init__(self, tree: ast.Module, package: ModuleType) -> None:
        super().__init__(vars(package))
        self._package = package
        self._imported = {
            alias.asname or alias.name: (
                step.module.removeprefix(f"{package.__name__}."),
                alias.name,
            )
            for step in tree.body
            if isinstance(step, ast.ImportFrom)
            and step.module
            and step.module.startswith(f"{package.__name__}.")
            for alias in step.names
        }
        self._assigned = {
            target.id: step.value
            for step in tree.body
            if isinstance(step, ast.Assign)
            for target in step.targets
            if isinstance(target, ast.Name)
        }

    def __missing__(self, name: str) -> Any:
        if name in self._imported:
            module, original = self._imported[name]
            return _Constants(_source(self._package, module), self._package)[original]
        if name not in self._assigned:
            raise NotToldError(name)
        self[name] = None  # a name that is made of itself is none
        self[name] = _value(self._assigned[name], self)
        return self[name]


def _value(expression: ast.expr, known: _Constants) -> Any:
    """What a literal, a name, a list of these or a call such as `Facts(…)` stands for."""
    if isinstance(expression, ast.Name):
        return known[expression.id]
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
        made = known[expression.func.id]
        named = {str(key.arg): _value(key.value, known) for key in expression.keywords}
        return made(*(_value(one, known) for one in expression.args), **named)
    if isinstance(expression, ast.Tuple):
        return tuple(_value(one, known) for one in expression.elts)
    if isinstance(expression, ast.Dict) and None not in expression.keys:
        keys = [_value(key, known) for key in expression.keys if key is not None]
        return dict(zip(keys, [_value(one, known) for one in expression.values], strict=True))
    try:
        return ast.literal_eval(expression)
    except ValueError:
        raise NotToldError(ast.unparse(expression)) from None
