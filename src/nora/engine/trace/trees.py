"""Arguments of operations: tensors and numbers in lists, tuples and dictionaries.

`torch.utils._pytree` does the same for any container; these are met thousands of times in a recording, and
are plain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# What is itself a leaf, and no subclass of a container: asked first, as most are.
_LEAVES = frozenset({int, float, bool, str, type(None), torch.dtype, Tensor})


def is_leaf(tree: Any) -> bool:
    """Whether it is a plain number, name or tensor: none of the containers, nor anything else."""
    return tree.__class__ in _LEAVES


def leaves(tree: Any) -> list[Any]:
    """Everything in it but lists, tuples and dictionaries, in order."""
    found: list[Any] = []
    _gather(tree, found)
    return found


def _gather(tree: Any, found: list[Any]) -> None:
    kind = tree.__class__
    if kind in _LEAVES:
        found.append(tree)
    elif isinstance(tree, list | tuple):
        for part in tree:
            _gather(part, found)
    elif isinstance(tree, dict):
        for part in tree.values():
            _gather(part, found)
    else:
        found.append(tree)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same with `function` of every leaf."""
    kind = tree.__class__
    if kind in _LEAVES:
        return function(tree)
    if isinstance(tree, list | tuple):
        parts = [
            function(part) if part.__class__ in _LEAVES else mapped(function, part) for part in tree
        ]
        return tuple(parts) if isinstance(tree, tuple) else parts
    if isinstance(tree, dict):
        return {key: mapped(function, part) for key, part in tree.items()}
    return function(tree)
