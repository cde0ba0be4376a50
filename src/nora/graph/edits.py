"""Edits of a graph: nodes and edges that are removed or added, and features that change.

Edits use the ids of the graph they are made for, and everything in them happens at once. `resolve` looks them
up in a graph; `apply` makes the graph that they lead to, which is the definition of their effect. The engine
gives the same predictions without building that graph.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.files import read_json, written_atomically
from nora.graph.edge_lookup import EdgeLookup
from nora.graph.edit_batch import EditBatch
from nora.graph.edit_resolution import resolve
from nora.graph.node_index import Graph


@dataclass(frozen=True, eq=False)
class Edits:
    """Changes to a graph that are applied together.

    If every edge of the graph has its reverse, edges are removed and added in both directions. In a
    `HeteroData`, this includes the reverse types that PyG's `ToUndirected` adds (`rev_…`).

    Args:
        remove: Nodes to remove, with all their edges: an id, several ids, `("author", 17)` or `{"author":
            [17]}`.
        remove_edges: Edges to remove: pairs `[(3, 17)]`, or by type `{("author", "writes", "paper"): [(3,
            17)]}` (a relation that occurs once may be given by its name). All copies of an edge are removed.
        add_edges: Edges to add, in the same form. An added edge needs every attribute that the graph's edges
            have: `[(3, 17, {"edge_weight": 0.5})]`. To change the attributes of an edge, remove it and add
            it.
        add_nodes: Nodes to add: their rows of `x`, `[k, F]`, or `{"x": rows, …}`; by type `{"author": rows}`.
            They get the next free ids.
        features: New rows of `x`: `{17: row}` or `{("author", 17): row}`.
        undirected: Whether edges are removed and added in both directions. Default: if every edge of the
            graph has its reverse.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> path = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> edits = Edits(remove_edges=[(0, 1)], add_edges=[(0, 2)])
        >>> edits.apply(path).edge_index
        tensor([[1, 2, 0, 2],
                [2, 1, 2, 0]])
        >>> edits.undo(path).apply(edits.apply(path)).edge_index
        tensor([[1, 2, 0, 1],
                [2, 1, 1, 0]])
    """

    remove: Any = ()
    remove_edges: Any = ()
    add_edges: Any = ()
    add_nodes: Any = None
    features: Any = None
    undirected: bool | None = None

    def __post_init__(self) -> None:
        # An iterator could be read only once.
        for one in ("remove", "remove_edges", "add_edges"):
            if isinstance(getattr(self, one), Iterator):
                object.__setattr__(self, one, list(getattr(self, one)))

    def __bool__(self) -> bool:
        return any(
            is_given(getattr(self, one.name)) for one in fields(self) if one.name != "undirected"
        )

    def __repr__(self) -> str:
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        parts = (f"{name}={_shown(value)}" for name, value in given.items() if is_given(value))
        return f"Edits({', '.join(parts)})"

    def resolve(self, data: Graph, lookup: EdgeLookup | None = None) -> EditBatch:
        """Check the edits against a graph; return a batch of one edit.

        Args:
            data: The graph.
            lookup: Its edge lookup, if one exists already.
        """
        return resolve(self, data, EdgeLookup(data) if lookup is None else lookup)

    def apply(self, data: Graph) -> Graph:
        """Return the edited graph; `data` is not modified. Remaining nodes are renumbered from 0."""
        return self.resolve(data).apply(data)

    def undo(self, data: Graph) -> Edits:
        """Return the edits that turn `self.apply(data)` back into `data`.

        Removed nodes are added again at the end, so the order of the nodes differs from `data`.
        """
        from nora.graph.edit_algebra import inverse

        return inverse(self.resolve(data), data)

    def __add__(self, other: Edits) -> Edits:
        """Both, one after the other, in the ids of the same graph; what cancels is left out.

        Nodes that the second adds have the ids after those that the first adds. What the first does to
        a node that the second removes is left out.
        """
        from nora.graph.edit_algebra import combined

        if not isinstance(other, Edits):
            return NotImplemented
        return combined(self, other)

    def to_dict(self) -> dict[str, Any]:
        """Return the edits as a JSON-compatible dictionary."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: _to_json(value) for name, value in given.items() if is_given(value)}

    @staticmethod
    def from_dict(given: Mapping[str, Any]) -> Edits:
        """Create edits from the dictionary of `to_dict`."""
        known = {one.name for one in fields(Edits)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise ValueError(f"edits have no {unknown[0]!r}; they have {', '.join(sorted(known))}")
        return Edits(**{key: _from_json(value) for key, value in given.items()})

    def save(self, path: str | Path) -> Path:
        """Write the edits to a JSON file."""
        with written_atomically(Path(path)) as temporary:
            text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")
        return Path(path)

    @staticmethod
    def load(path: str | Path) -> Edits:
        """Load edits from a file written by `save`."""
        try:
            given = read_json(Path(path))
        except ValueError as error:
            raise ValueError(f"{path} holds no edits: {error}") from None
        if not isinstance(given, Mapping):
            raise ValueError(
                f"{path} holds no edits: expected an object, got {type(given).__name__}"
            )
        return Edits.from_dict(given)


def is_given(value: Any) -> bool:
    """Whether an edit has anything here."""
    if value is None:
        return False
    if isinstance(value, Tensor):
        return value.numel() > 0
    return not (hasattr(value, "__len__") and len(value) == 0)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"tensor{list(value.shape)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_shown(one)}" for key, one in value.items()) + "}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _to_json(value: Any) -> Any:
    """A value of an edit as JSON: tensors as lists, mappings whose keys are not text as pairs."""
    if isinstance(value, Tensor | np.ndarray):
        return {"tensor": value.tolist()}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {"named": {key: _to_json(one) for key, one in value.items()}}
        return {"pairs": [[_to_json(key), _to_json(one)] for key, one in value.items()]}
    if isinstance(value, list | tuple):
        return [_to_json(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _from_json(value: Any) -> Any:
    """The value that `_to_json` wrote."""
    if isinstance(value, Mapping):
        if set(value) == {"tensor"}:
            # In double precision, as it was written.
            return torch.from_numpy(np.array(value["tensor"]))
        if set(value) == {"named"}:
            return {key: _from_json(one) for key, one in value["named"].items()}
        if set(value) == {"pairs"}:
            return {_from_json(key): _from_json(one) for key, one in value["pairs"]}
        raise ValueError(
            f"expected edits as Edits.save writes them, got an object with the keys {sorted(value)}"
        )
    if isinstance(value, list):
        made = [_from_json(one) for one in value]
        return tuple(made) if made and not isinstance(made[0], list | tuple) else made
    return value
