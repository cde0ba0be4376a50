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
            if not isinstance(self._data[self._key].get(attribute), Tensor):
                raise AttributeError(f"data[{self._key!r}].{attribute} is not followed")
            return getattr(self._proxy, _name(self._key, attribute))
        if not attribute.endswith("_dict"):
            raise AttributeError(f"data.{attribute} is not followed")
        wanted = attribute.removesuffix("_dict")
        return {
            store._key: getattr(self._proxy, _name(store._key, wanted))
            for store in self._data.stores
            if isinstance(store.get(wanted), Tensor)
        }


class Attributes:
    """The tensors of a graph with node types by the names fx knows them by, on the line.

    Args:
        problem: The question; of a plain graph there are none.
    """

    def __init__(self, problem: Problem) -> None:
        self._found: dict[str, tuple[str, Tensor]] = {}
        data, line = problem.data, problem.numbering
        if isinstance(data, Data):
            return
        for store in data.node_stores:
            span = line.span(store._key)
            for attribute, tensor in store.items():
                if isinstance(tensor, Tensor) and store.is_node_attr(attribute):
                    whole = tensor.new_zeros(line.total, *tensor.shape[1:])
                    whole[span] = tensor
                    self._found[_name(store._key, attribute)] = "node", whole
        for store in data.edge_stores:
            ends = store._key[0], store._key[2]
            for attribute, tensor in store.items():
                if not isinstance(tensor, Tensor):
                    continue
                if attribute == "edge_index":
                    shift = torch.tensor([[line.starts[kind]] for kind in ends])
                    moved = tensor + shift.to(tensor.device)
                    self._found[_name(store._key, attribute)] = "graph", moved
                elif store.is_edge_attr(attribute):
                    self._found[_name(store._key, attribute)] = "edge", tensor

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def __getitem__(self, name: str) -> tuple[str, Tensor]:
        return self._found[name]

    def edges(self) -> list[Tensor]:
        """The edges of every type."""
        return [tensor for kind, tensor in self._found.values() if kind == "graph"]
