"""True influences of a few nodes: what few-shot methods and tuning learn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from nora.arguments import shown
from nora.graph.node_index import NodeIndex
from nora.graph.removal import node_ids


@runtime_checkable
class HasScores(Protocol):
    """The part of an `Influence` that is used here: scores of the nodes, NaN for nodes without one."""

    @property
    def scores(self) -> Tensor:
        """`[num_nodes]`."""

    @property
    def node_types(self) -> Mapping[str, int] | None:
        """How many nodes of each type there are."""


Labels = (
    HasScores
    | Tensor
    | np.ndarray
    | Mapping[int, float]
    | tuple[Iterable[int] | Tensor, Iterable[float] | Tensor]
)


def label_tensor(labels: Labels, index: int | NodeIndex) -> Tensor:
    """Labels as a tensor `[num_nodes]`, NaN where the influence is not known.

    Args:
        labels: An `Influence` whose scored nodes are the labelled ones, a tensor `[num_nodes]` with
            NaN for unknown, a mapping from node id to influence, or `(ids, influences)`.
        index: How the graph numbers its nodes, or how many it has.

    Example:
        >>> label_tensor({2: 0.5}, 3)
        tensor([   nan,    nan, 0.5000])
    """
    index = NodeIndex((), (index,)) if isinstance(index, int) else index
    num_nodes = index.total
    if isinstance(labels, HasScores):
        if labels.node_types != index.sizes() and len(labels.scores) == num_nodes:
            raise ValueError(
                f"labels are of a graph with node types {labels.node_types}, this one has {index.sizes()}"
            )
        labels = labels.scores
    if isinstance(labels, np.ndarray):
        labels = torch.as_tensor(labels)
    if not isinstance(labels, Tensor):
        labels = _by_node(labels, index)
    if labels.shape != (num_nodes,):
        raise ValueError(
            f"labels have shape {list(labels.shape)}; the graph has {num_nodes} nodes. For some "
            "nodes only, give (ids, influences)"
        )
    known = labels.detach().cpu().clone()
    if not known.is_floating_point():
        known = known.to(torch.get_default_dtype())
    wrong = known.isinf() | (known < 0)
    if bool(wrong.any()):
        node = int(wrong.nonzero()[0])
        raise ValueError(
            f"node {node} is labelled {float(known[node])}: influences are ≥ 0 and finite"
        )
    if bool(known.isnan().all()):
        raise ValueError("labels are empty: give the true influence of some nodes")
    return known


def _by_node(labels: Any, index: NodeIndex) -> Tensor:
    """`{node: influence}` or `(ids, influences)` as a tensor `[num_nodes]`, NaN elsewhere."""
    if isinstance(labels, Mapping):
        ids, values = labels.keys(), labels.values()
    elif isinstance(labels, tuple | list) and len(labels) == 2:
        ids, values = labels
    else:
        raise TypeError(
            "labels must be an Influence, a tensor [num_nodes], {node: influence} or (ids, influences); "
            f"got {shown(labels)}"
        )
    given = ids if isinstance(ids, Tensor) else list(ids)
    found = values if isinstance(values, Tensor) else torch.tensor(list(values))
    if index.types and not isinstance(given, Tensor):
        located = [index.ids(one, "labelled node") for one in given]
        if any(len(one) != 1 for one in located):
            raise ValueError("labels must name nodes one by one, e.g. {('author', 17): 0.5}")
        given = [int(one) for one in located]
    where = torch.as_tensor(given)
    if where.dtype == torch.bool:
        raise TypeError("labels name their nodes by ids, not by a mask: use mask.nonzero()")
    if where.dim() != 1 or found.shape != where.shape:
        raise ValueError(f"labels name {where.numel()} nodes but give {found.numel()} influences")
    if node_ids(where, index.total, "labelled node").numel() < where.numel():
        raise ValueError("labels name a node twice")
    if bool(found.isnan().any()):
        raise ValueError("labels hold NaN: leave out nodes whose influence is unknown")
    dtype = found.dtype if found.is_floating_point() else torch.get_default_dtype()
    known = torch.full((index.total,), float("nan"), dtype=dtype)
    known[where.long().cpu()] = found.to(dtype).cpu()
    return known
