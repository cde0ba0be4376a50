"""Arguments of operations: tensors and numbers in lists, tuples and dictionaries.

`torch.utils._pytree` does the same for any container; these are met thousands of times in a recording, and
are plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def leaves(tree: Any) -> Iterator[Any]:
    """Everything in it that is no list, tuple or dictionary, in order."""
    if isinstance(tree, list | tuple):
        for part in tree:
            yield from leaves(part)
    elif isinstance(tree, dict):
        for part in tree.values():
            yield from leaves(part)
    else:
        yield tree


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same with `function` of every leaf."""
    if isinstance(tree, tuple):
        return tuple([mapped(function, part) for part in tree])
    if isinstance(tree, list):
        return [mapped(function, part) for part in tree]
    if isinstance(tree, dict):
        return {key: mapped(function, part) for key, part in tree.items()}
    return function(tree)
