"""Cyclic splits: five trainings on the same graph, each with the split shifted by 20 %.

A seeded random order of the nodes (or edges) is laid on a circle; cycle `c` starts at `c · 20 %` of
it and takes train, validation and test one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, negative_sampling, remove_self_loops

from nora.model.preserve import seeded
from nora.seeds import shuffled

CYCLES = 5


def _shares(
    count: int, ratios: tuple[float, float, float], cycle: int, seed: int, shuffle: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Positions `0 … count−1` in three disjoint parts that cover everything."""
    if not 0 <= cycle < CYCLES:
        raise ValueError(f"cycle must be 0 … {CYCLES - 1}, got {cycle}")
    order = shuffled(count, seed) if shuffle else torch.arange(count)
    order = order.roll(-round(cycle * count / CYCLES))
    train, val = round(ratios[0] * count), round((ratios[0] + ratios[1]) * count)
    return order[:train], order[train:val], order[val:]


def few_shot(num_nodes: int, share: float = 0.1, seed: int = 0) -> Tensor:
    """The nodes whose true influence a method may see: a seeded random sample, sorted.

    >>> few_shot(2708).numel()
    271
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}")
    return shuffled(num_nodes, seed)[: max(1, round(share * num_nodes))].sort().values


@dataclass(frozen=True)
class NodeSplit:
    """Node ids of the three parts; only labelled nodes are in any."""

    train: Tensor
    val: Tensor
    test: Tensor


def split_nodes(
    labels: Tensor,
    ratios: tuple[float, float, float] = (0.5, 0.3, 0.2),
    cycle: int = 0,
    seed: int = 0,
    shuffle: bool = True,
) -> NodeSplit:
    """Split the labelled nodes (`labels >= 0`, `[N]`) for one cycle, shuffled or in the file's order.

    >>> split = split_nodes(torch.zeros(10, dtype=torch.long), cycle=1)
    >>> len(split.train), len(split.val), len(split.test)
    (5, 3, 2)
    """
    labelled = (labels >= 0).nonzero().flatten()
    parts = _shares(len(labelled), ratios, cycle, seed, shuffle)
    return NodeSplit(*(labelled[part] for part in parts))


@dataclass(frozen=True)
class LinkSplit:
    """Edges in three parts, each with sampled non-edges; messages pass along training edges only.

    Attributes:
        data: The graph with training edges only.
        message: Which edges of the whole graph these are, `[E]`.
        train, val, test: Pairs `[2, P]`, positives first.
        train_labels, val_labels, test_labels: 1 for edges, 0 for sampled non-edges, `[P]`.
    """

    data: Data
    message: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    train_labels: Tensor
    val_labels: Tensor
    test_labels: Tensor

    @property
    def pairs(self) -> Tensor:
        """All predicted pairs `D` `[2, P]`: positives and negatives of all three parts."""
        return torch.cat([self.train, self.val, self.test], dim=1)


def split_links(
    data: Data,
    ratios: tuple[float, float, float] = (0.8, 0.1, 0.1),
    cycle: int = 0,
    seed: int = 0,
    negatives: int = 1,
    undirected: bool | None = None,
    shuffle: bool = True,
) -> LinkSplit:
    """Split the edges of `data` for one cycle.

    An undirected edge, stored in both directions, is one edge. Self-loops are not predicted
    and stay in the message-passing graph; duplicates stay together, in one part.

    Args:
        data: The graph.
        ratios: Train, validation and test shares.
        cycle: Which of the five cycles.
        seed: Seed of the order and of the negatives.
        negatives: Sampled non-edges per edge.
        undirected: Whether an edge stands for both directions; by default, when every edge has its
            reverse.
        shuffle: Take edges in a random order; otherwise in the order of their ends.
    """
    num_nodes = int(data.num_nodes or 0)
    edge_index = data.edge_index
    links, _ = remove_self_loops(edge_index)
    if undirected is None:
        undirected = is_undirected(links, num_nodes=num_nodes)
    key = links[0] * num_nodes + links[1]
    if undirected:
        key = links.amin(dim=0) * num_nodes + links.amax(dim=0)
    distinct = key.unique()
    if distinct.numel() < 3:
        raise ValueError(f"link prediction needs at least 3 edges, the graph has {len(distinct)}")
    parts = _shares(len(distinct), ratios, cycle, seed, shuffle)
    positives = torch.stack([distinct // num_nodes, distinct % num_nodes])
    with seeded(seed):
        # Asked for undirected pairs, PyG gives each in both directions: one of them is kept.
        wanted = negatives * len(distinct) * (2 if undirected else 1)
        sampled = negative_sampling(edge_index, num_nodes, wanted, force_undirected=undirected)
    if undirected:
        sampled = sampled[:, sampled[0] < sampled[1]]
    # The negatives follow their positives through the cycles: the same pairs in every cycle.
    pairs, labels = [], []
    for part in parts:
        mine = [part + k * len(distinct) for k in range(negatives)]
        chosen = torch.cat(mine)
        chosen = chosen[chosen < sampled.size(1)]
        pairs.append(torch.cat([positives[:, part], sampled[:, chosen]], dim=1))
        labels.append(torch.cat([torch.ones(len(part)), torch.zeros(len(chosen))]))

    held_out = torch.cat([distinct[parts[1]], distinct[parts[2]]])
    loop = edge_index[0] == edge_index[1]
    all_keys = edge_index[0] * num_nodes + edge_index[1]
    if undirected:
        all_keys = edge_index.amin(dim=0) * num_nodes + edge_index.amax(dim=0)
    message = loop | ~torch.isin(all_keys, held_out)
    return LinkSplit(data.edge_subgraph(message), message, *pairs, *labels)
