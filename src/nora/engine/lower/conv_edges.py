"""The edges along which a convolution passes messages, derived from its `edge_index`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import add_remaining_self_loops, add_self_loops, remove_self_loops

from nora.engine.ir.edges import AddedEdgeRule, Edges, Normalise
from nora.engine.ir.op import Value
from nora.engine.ir.space import Space


@dataclass(frozen=True)
class EdgeOptions:
    """How a convolution changes its edges; see `Builder.edges`."""

    normalise: Normalise
    self_loops: float | None
    own_loops: bool
    reverse: bool


class ConvEdges:
    """The edges of all convolutions; layers with the same edges share them.

    Args:
        num_nodes: Number of nodes of all types.

    Attributes:
        spaces: The space whose rows the columns of an `edge_index` that a lowering is given are.
        values: The value that a tensor of edge weights or edge types that a lowering is given holds.
    """

    def __init__(self, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.spaces: dict[Tensor, Space] = {}
        self.values: dict[Tensor, Value] = {}
        # What edges were derived from, and these.
        self._made: list[tuple[tuple[Any, ...], tuple[Tensor | None, ...], Edges]] = []

    def made(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        rows: Tensor | None,
        kind: tuple[Tensor, int] | None,
        recipe: EdgeOptions,
    ) -> Edges:
        """See `Builder.edges`."""
        chosen = None if kind is None else (self.values.get(kind[0]), kind[1])
        rows = rows if kind is None else kind[0] == kind[1]
        weights = None if edge_weight is None else self.values.get(edge_weight)
        options, tensors = (recipe, chosen, weights), (edge_index, edge_weight, rows)
        for own_options, own_tensors, edges in self._made:
            if own_options == options and all(map(_same_tensor, own_tensors, tensors)):
                return edges
        edges = self._edges(edge_index, edge_weight, rows, recipe)
        space = self.spaces.get(edge_index)
        known = (edge_weight is None or weights is not None) and (
            rows is None or (chosen is not None and chosen[0] is not None)
        )
        if space is not None and known:
            mine = None if chosen is None or chosen[0] is None else (chosen[0], chosen[1])
            rule = AddedEdgeRule(
                space,
                edge_index,
                weights,
                mine,
                recipe.self_loops,
                recipe.own_loops,
                recipe.reverse,
            )
            edges = replace(edges, for_added=rule)
        self._made.append((options, tensors, edges))
        return edges

    def _edges(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        rows: Tensor | None,
        recipe: EdgeOptions,
    ) -> Edges:
        edge_id = None
        if edge_index in self.spaces:
            edge_id = self.spaces[edge_index].origin
            if edge_id is None:  # edges of another set, which edits do not change
                edge_id = torch.full((edge_index.size(1),), -1, device=edge_index.device)
        if edge_weight is not None and edge_weight.dim() > 1:
            edge_weight = edge_weight.view(-1)
        if rows is not None:
            edge_index = edge_index[:, rows]
            edge_weight = None if edge_weight is None else edge_weight[rows]
            edge_id = None if edge_id is None else edge_id[rows]
        own = None
        if recipe.self_loops is not None:
            loops = edge_index[0] == edge_index[1]
            if edge_weight is not None and recipe.own_loops and edge_id is not None:
                own = edge_id[loops], edge_index[0, loops]  # without its own, a node gets the other
            edge_id = None if edge_id is None else edge_id[~loops]
            if recipe.own_loops:
                edge_index, edge_weight = add_remaining_self_loops(
                    edge_index, edge_weight, recipe.self_loops, self.num_nodes
                )
            else:
                edge_index, edge_weight = remove_self_loops(edge_index, edge_weight)
                edge_index, edge_weight = add_self_loops(
                    edge_index, edge_weight, recipe.self_loops, self.num_nodes
                )
            if edge_id is not None:
                added = torch.full((edge_index.size(1) - len(edge_id),), -1, device=edge_id.device)
                edge_id = torch.cat([edge_id, added])
        source, target = edge_index.flip(0) if recipe.reverse else edge_index
        return Edges(source, target, edge_weight, self.num_nodes, recipe.normalise, edge_id, own)


def _same_tensor(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two tensors are equal; comparing them is cheaper than sorting again."""
    if a is None or b is None or a is b:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
