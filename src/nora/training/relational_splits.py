"""Cyclic splits of a graph with several relations: labelled nodes and every relation's links at once.

A model trained on parties and links together is given one split of both: the same for the node and
the link task, and messages pass along training links only in either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.training.splits import LinkSplit, NodeSplit, split_links, split_nodes


@dataclass(frozen=True)
class RelationalSplit:
    """Nodes and links in three parts; links with sampled non-links.

    Attributes:
        data: The graph with training links (and self-loops) only.
        message: Which edges of the whole graph these are, `[E]` for each edge type in order.
        nodes: The labelled nodes.
        train, val, test: Pairs `[2, P]` of all relations, one relation after the other.
        train_labels, val_labels, test_labels: 1 for links, 0 for sampled non-links, `[P]`.
        train_relation, val_relation, test_relation: Number of each pair's relation, `[P]`.
    """

    data: HeteroData
    message: tuple[Tensor, ...]
    nodes: NodeSplit
    train: Tensor
    val: Tensor
    test: Tensor
    train_labels: Tensor
    val_labels: Tensor
    test_labels: Tensor
    train_relation: Tensor
    val_relation: Tensor
    test_relation: Tensor

    @property
    def pairs(self) -> Tensor:
        """All predicted pairs `D` `[2, P]`: links and non-links of all parts and relations."""
        return torch.cat([self.train, self.val, self.test], dim=1)

    @property
    def relation(self) -> Tensor:
        """Number of the relation of each of `pairs`, `[P]`."""
        return torch.cat([self.train_relation, self.val_relation, self.test_relation])


def split_relations(
    data: HeteroData,
    node_ratios: tuple[float, float, float] = (0.8, 0.1, 0.1),
    link_ratios: tuple[float, float, float] = (0.8, 0.1, 0.1),
    cycle: int = 0,
    seed: int = 0,
    negatives: int = 3,
) -> RelationalSplit:
    """Split a graph with one node type for one cycle.

    Links are directed. Self-loops are not predicted and stay in the message-passing graph.
    Non-links are sampled for each relation by itself, so a non-link of one may be a link of another.

    Args:
        data: One node type with labels `y`, any number of relations.
        node_ratios: Train, validation and test shares of the labelled nodes.
        link_ratios: The same for each relation's links.
        cycle: Which of the five cycles.
        seed: Seed of the orders and of the non-links.
        negatives: Sampled non-links per link.
    """
    (users,) = data.node_stores
    parts: list[LinkSplit] = []
    for number, kind in enumerate(data.edge_types):
        # Which links stay is all that is asked: attributes are cut by `message_graph`.
        one = Data(edge_index=data[kind].edge_index, num_nodes=users.num_nodes)
        own_seed = seed * len(data.edge_types) + number
        try:
            split = split_links(one, link_ratios, cycle, own_seed, negatives, undirected=False)
        except ValueError as error:
            raise ValueError(f"relation {kind[1]!r}: {error}") from error
        parts.append(split)
    message = tuple(split.message for split in parts)
    together: dict[str, Tensor] = {}
    for part in ("train", "val", "test"):
        pairs = [getattr(split, part) for split in parts]
        sizes = torch.tensor([found.size(1) for found in pairs])
        together[part] = torch.cat(pairs, dim=1)
        together[f"{part}_labels"] = torch.cat([getattr(s, f"{part}_labels") for s in parts])
        together[f"{part}_relation"] = torch.arange(len(parts)).repeat_interleave(sizes)
    return RelationalSplit(
        data=message_graph(data, message),
        nodes=split_nodes(users.y, node_ratios, cycle, seed),
        message=message,
        **together,
    )


def message_graph(data: HeteroData, message: Sequence[Tensor]) -> HeteroData:
    """The graph with some of its edges: those of `message`, `[E]` for each edge type in order.

    Everything that has a row per edge is cut, whatever PyG takes it for.
    """
    kept = data.clone()
    for kind, stays in zip(data.edge_types, message, strict=True):
        for key, value in data[kind].items():
            if key == "edge_index":
                kept[kind][key] = value[:, stays]
            elif isinstance(value, Tensor) and value.dim() and value.size(0) == stays.numel():
                kept[kind][key] = value[stays]
    return kept
