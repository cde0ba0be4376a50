"""Graphs with node types for the engine: every type's rows and edges on the line of all nodes.

A type's features fill their part of a tensor `[N, F]`; the other rows are zeros that nobody reads, as no
edge of the type leads there. Convolutions between two types then are convolutions on one graph, and
the engine's steps need not know of types.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.problem import Problem


def _name(key: Any, attribute: str) -> str:
    """One name for an attribute of a type: fx knows the data as one object."""
    return f"{key}/{attribute}"


class StandIn:
    """What a traced model sees of a `HeteroData`: the same keys, with stand-ins for the tensors.

    Args:
        proxy: fx's stand-in for the data.
        data: The data itself.
        key: The one type this is about; None for all.
    """

    def __init__(self, proxy: Any, data: HeteroData, key: Any = None) -> None:
        self._proxy, self._data, self._key = proxy, data, key

    def __getitem__(self, key: Any) -> Any:
        if self._key is not None:
            return getattr(self, key)
        if key not in self._data.node_types and key not in self._data.edge_types:
            raise AttributeError(f"data[{key!r}] is not followed")
        return StandIn(self._proxy, self._data, key)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        if self._key is not None:
            if not _followed(self._data[self._key], attribute):
                raise AttributeError(f"data[{self._key!r}].{attribute} is not followed")
            return getattr(self._proxy, _name(self._key, attribute))
        if not attribute.endswith("_dict"):
            raise AttributeError(f"data.{attribute} is not followed")
        wanted = attribute.removesuffix("_dict")
        return {
            store._key: getattr(self._proxy, _name(store._key, wanted))
            for store in self._data.stores
            if _followed(store, wanted)
        }


def _followed(store: Any, attribute: str) -> bool:
    """Whether an attribute has a row per node or per edge, which go with what is removed."""
    if not isinstance(store.get(attribute), Tensor):
        return False
    return (
        attribute == "edge_index" or store.is_node_attr(attribute) or store.is_edge_attr(attribute)
    )


class Attributes:
    """The tensors of a graph with node types by the names fx knows them by, on the line.

    Args:
        problem: The question; of a plain graph there are none.
    """

    def __init__(self, problem: Problem) -> None:
        self._line = problem.numbering
        self._places: dict[str, tuple[Any, str]] = {}
        self._found: dict[str, tuple[str, Tensor]] = {}
        if not isinstance(problem.data, Data):
            for store in problem.data.stores:
                for attribute in store:
                    if _followed(store, attribute):
                        self._places[_name(store._key, attribute)] = store, attribute

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> tuple[str, Tensor]:
        """What an attribute is level with (`node`, `graph` or `edge`), and its tensor.

        Laid on the line when it is first asked for: a type's features may be much wider than others.
        """
        if name not in self._found:
            self._found[name] = self._laid(*self._places[name])
        return self._found[name]

    def _laid(self, store: Any, attribute: str) -> tuple[str, Tensor]:
        line, tensor = self._line, store[attribute]
        if not isinstance(store._key, tuple):
            whole = tensor.new_zeros(line.total, *tensor.shape[1:])
            whole[line.span(store._key)] = tensor
            return "node", whole
        if attribute != "edge_index":
            return "edge", tensor
        shift = torch.tensor([[line.starts[store._key[0]]], [line.starts[store._key[2]]]])
        return "graph", tensor + shift.to(tensor.device)

    def edges(self) -> list[Tensor]:
        """The edges of every type."""
        names = [name for name, (_, attribute) in self._places.items() if attribute == "edge_index"]
        return [self[name][1] for name in names]
