"""A graph as arrays and JSON, and back: what a saved engine can hold."""

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
    """A graph as JSON; tensors by the numbers under which they are saved.

    Raises:
        TypeError: When it has a value that is neither a tensor nor plain.
    """
    if type(data) not in (Data, HeteroData):
        raise TypeError(
            f"data is a {type(data).__name__}: expected a Data or HeteroData itself, since the code of "
            "a subclass cannot be saved"
        )
    stores = []
    for store in data.stores:
        items = [[name, _kept(f"data.{name}", value, keep)] for name, value in store.items()]
        key = store._key
        stores.append({"key": list(key) if isinstance(key, tuple) else key, "items": items})
    return {"kind": type(data).__name__, "stores": stores}


def graph_of(document: dict[str, Any], give: Give) -> Graph:
    """The graph that `graph_document` described."""
    data = Data() if document["kind"] == "Data" else HeteroData()
    for store in document["stores"]:
        key = tuple(store["key"]) if isinstance(store["key"], list) else store["key"]
        # A type may have no attributes.
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
            # Sums duplicate entries, as every product with it would.
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
            raise TypeError(f"{name} is stored as {layout}, which cannot be saved")
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
        f"{name} is a {type(value).__name__}, which cannot be saved: delete it from the graph first"
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
