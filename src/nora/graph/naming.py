"""Nodes by name: names that are given become ids, and ids are shown as names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from torch import Tensor

from nora.graph.edits import Edits
from nora.graph.node_index import Nodes
from nora.registry import nearest
from nora.wording import listed


class Naming:
    """The names of a graph's nodes.

    Args:
        names: One per node; None where nodes have none, or have types, and are known by id only.

    Example:
        >>> Naming(["ann", "bob"]).ids(["bob", 0])
        [1, 0]
        >>> Naming(["ann", "bob"]).shown([1, (0, 1)])
        "'bob', ('ann', 'bob')"
    """

    def __init__(self, names: Sequence[str] | None) -> None:
        self._names = names

    @cached_property
    def _known(self) -> dict[str, int]:
        return {name: node for node, name in enumerate(self._names or ())}

    def id(self, given: Any) -> Any:
        """A node as given, its name replaced by its id."""
        if not isinstance(given, str):
            return given
        names = self._names or ()
        if given not in self._known:
            raise ValueError(f"no node is named {given!r}.{nearest(given, list(names))}")
        count = sum(name == given for name in names)
        if count > 1:
            raise ValueError(f"{count} nodes are named {given!r}: give ids instead")
        return self._known[given]

    def ids(self, nodes: Any) -> Nodes:
        """Nodes as given, names replaced by ids."""
        given = [nodes] if isinstance(nodes, str) else nodes
        if self._names is None or not isinstance(given, list | tuple):
            return nodes
        if not any(isinstance(one, str) for one in given):
            return nodes
        return [self.id(one) for one in given]

    def edges(self, edges: Any) -> Any:
        """Edges as given, names of their ends replaced by ids."""
        if self._names is None or isinstance(edges, Tensor | Mapping):
            return edges
        return [
            (*self.ids(list(one[:2])), *one[2:]) if isinstance(one, tuple | list) else one
            for one in edges
        ]

    def edits(self, edits: Edits) -> Edits:
        """Edits with names replaced by ids."""
        if self._names is None:
            return edits
        features = edits.features
        if isinstance(features, Mapping):
            features = {self.id(node): row for node, row in features.items()}
        return replace(
            edits,
            remove=self.ids(edits.remove),
            remove_edges=self.edges(edits.remove_edges),
            add_edges=self.edges(edits.add_edges),
            features=features,
        )

    def shown(self, given: Iterable[Any]) -> str:
        """Nodes and edges by id as a repr lists them: by name where they have names."""
        return listed(repr(self._called(one)) for one in given)

    def _called(self, given: Any) -> Any:
        names = self._names
        if names is None:
            return given
        if isinstance(given, tuple):  # an edge; where nodes have types, ids stay
            plain = len(given) == 2 and all(isinstance(end, int) for end in given)
            return tuple(names[end] for end in given) if plain else given
        return names[given] if isinstance(given, int) else given
