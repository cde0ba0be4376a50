"""A graph as arrays and plain facts, and back: what a folder of arrays can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.graph.node_index import Graph

Keep = Callable[[Tensor], int]
Give = Callable[[int], Tensor]


def graph_document(data: Graph, keep: Keep) -> dict[str, Any]:
    """What a graph holds, as JSON; tensors by the numbers under which they are kept.

    Raises:
        TypeError: When it holds something that is neither a tensor nor plain.
    """
    if type(data) not in (Data, HeteroData):
        raise TypeError(
            f"data is a {type(data).__name__}: only a Data or HeteroData itself can be kept, since a class "
            "of its own may do things that no file can hold"
        )
    stores = []
    for store in data.stores:
        items = [[name, _kept(f"data.{name}", value, keep)] for name, value in store.items()]
        key = store._key
        stores.append({"key": list(key) if isinstance(key, tuple) else key, "items": items})
    return {"kind": type(data).__name__, "stores": stores}


def graph_of(document: dict[str, Any], give: Give) -> Graph:
    """The graph that a document tells of."""
    data = Data() if document["kind"] == "Data" else HeteroData()
    for store in document["stores"]:
        key = tuple(store["key"]) if isinstance(store["key"], list) else store["key"]
        # A type may be there without anything that is said of it.
        own = data if key is None else data[key]
        for name, value in store["items"]:
            own[name] = _given(value, give)
    return data


def _kept(name: str, value: Any, keep: Keep) -> dict[str, Any]:
    if isinstance(value, Tensor):
        if value.layout == torch.strided:
            return {"tensor": keep(value)}
        layout = str(value.layout).removeprefix("torch.")
        if value.layout == torch.sparse_coo:
            # Sums what stands twice, as every product with it would.
            value = value.coalesce()
            pieces = [value.indices(), value.values()]
        elif value.layout in (torch.sparse_csr, torch.sparse_csc):
            rows = value.layout == torch.sparse_csr
            pieces = [
                value.crow_indices() if rows else value.ccol_indices(),
                value.col_indices() if rows else value.row_indices(),
                value.values(),
            ]
        else:
            raise TypeError(f"{name} is stored as {layout}, which cannot be kept")
        return {
            "sparse": layout,
            "pieces": [keep(piece) for piece in pieces],
            "shape": list(value.shape),
        }
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {"array": keep(torch.from_numpy(np.ascontiguousarray(value)))}
    if _plain(value):
        return {"tuple" if isinstance(value, tuple) else "value": value}
    raise TypeError(
        f"{name} is a {type(value).__name__}, which a folder of arrays cannot hold: take it out of the graph "
        "first"
    )


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(_plain(part) for part in value)
    if isinstance(value, tuple):
        return all(_plain(part) and not isinstance(part, list | tuple) for part in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(part) for key, part in value.items())
    return isinstance(value, bool | int | float | str | None)


def _given(value: dict[str, Any], give: Give) -> Any:
    if "tensor" in value:
        return give(value["tensor"])
    if "array" in value:
        return give(value["array"]).numpy()
    if "tuple" in value:
        return tuple(value["tuple"])
    if "sparse" not in value:
        return value["value"]
    pieces = [give(number) for number in value["pieces"]]
    if value["sparse"] == "sparse_coo":
        indices, values = pieces
        return torch.sparse_coo_tensor(indices, values, value["shape"])._coalesced_(True)
    pointers, indices, values = pieces
    layout = getattr(torch, value["sparse"])
    return torch.sparse_compressed_tensor(pointers, indices, values, value["shape"], layout=layout)
