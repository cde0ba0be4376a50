"""`G−r`: the graph without some of its nodes and without every edge that touches them."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

import torch
from torch import Tensor
from torch_geometric.data import Data


def node_ids(
    nodes: int | Iterable[int] | Tensor, num_nodes: int, what: str = "node", owner: str = "graph"
) -> Tensor:
    """Sorted distinct ids from an id, a list of ids, a tensor of ids or a boolean mask.

    >>> node_ids([3, 1, 3], 5)
    tensor([1, 3])
    """
    if isinstance(nodes, int | Integral):
        nodes = [int(nodes)]
    ids = torch.as_tensor(nodes if isinstance(nodes, Tensor) else list(nodes))
    if ids.dtype == torch.bool:
        if ids.numel() != num_nodes:
            raise ValueError(f"the {what} mask has {ids.numel()} entries, expected {num_nodes}")
        return ids.nonzero().flatten().cpu()
    if ids.numel() == 0:
        return torch.empty(0, dtype=torch.long)
    if ids.dtype == torch.uint8 and ids.numel() == num_nodes:
        raise TypeError(f"is this {what} mask of dtype uint8 or a list of ids? Use mask.bool()")
    if ids.dtype.is_floating_point or ids.dtype.is_complex:
        raise TypeError(f"{what} ids must be integers, got {ids.dtype}")
    ids = ids.flatten().long().cpu().unique()
    for wrong in (int(ids[0]), int(ids[-1])):
        if not 0 <= wrong < num_nodes:
            raise ValueError(
                f"{what} {wrong} is out of range: the {owner} has {num_nodes} "
                f"{what.split()[-1]}s "
                f"(0 … {num_nodes - 1})"
            )
    return ids


def kept(nodes: Tensor, num_nodes: int) -> Tensor:
    """Mask `[N]` of the nodes that stay when `nodes` go."""
    keep = torch.ones(num_nodes, dtype=torch.bool, device=nodes.device)
    keep[nodes] = False
    return keep


def remove_nodes(data: Data, nodes: int | Iterable[int] | Tensor) -> Data:
    """`data` without `nodes` and their edges; node- and edge-level tensors are carried along.

    The remaining nodes keep their order and are renumbered from 0. Self-loops and duplicate edges
    of remaining nodes stay as they are.

    Args:
        data: The graph; left untouched.
        nodes: An id, ids, or a mask `[N]`.

    Example:
        >>> path = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> remove_nodes(path, 0).edge_index
        tensor([[0, 1],
                [1, 0]])
    """
    num_nodes = int(data.num_nodes or 0)
    ids = node_ids(nodes, num_nodes)
    return data.subgraph(kept(ids, num_nodes).to(data.edge_index.device))
