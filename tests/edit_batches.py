"""Several edits of one graph as one batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from nora.graph.edit_batch import EditBatch
from nora.graph.edits import Edits


def batch_of(edits: list[Edits], data: Data) -> EditBatch:
    """One batch of all edits, each resolved by itself."""
    each = [one.resolve(data) for one in edits]
    parts = ({None: _joined([getattr(one, name).get(None) for one in each])} for name in PARTS)
    return EditBatch(
        _ptr([len(one.node) for one in each]),
        torch.cat([one.node for one in each]),
        _ptr([len(one.edge) for one in each]),
        torch.cat([one.edge for one in each]),
        *({key: one for key, one in part.items() if one is not None} for part in parts),
    )


PARTS = ("added_edges", "added_nodes", "features")


def _ptr(counts: list[int]) -> Tensor:
    return torch.tensor([0, *counts]).cumsum(0)


def _joined(parts: list[Any]) -> Any:
    """The same part of several edits; None for those that have none."""
    there = [one for one in parts if one is not None]
    if not there:
        return None
    found: dict[str, Any] = {"ptr": _ptr([0 if one is None else len(one) for one in parts])}
    for name in vars(there[0]).keys() - {"ptr"}:
        values = [getattr(one, name) for one in there]
        if isinstance(values[0], Tensor):
            found[name] = torch.cat(values)
        else:
            found[name] = {key: torch.cat([one[key] for one in values]) for key in values[0]}
    return type(there[0])(**found)
