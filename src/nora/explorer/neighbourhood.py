"""The foreground of a large graph: edited and chosen nodes, their neighbours, the nodes that change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nora.explorer.network import Network
from nora.explorer.page_edits import PageEdits

# Neighbours of each node, nodes that an edit is about, nodes that change, edges among all of them.
NEIGHBOURS, CENTRES, CHANGED, EDGES = 150, 60, 900, 20_000
# A node that changes by less is not drawn.
SEEN = 0.002


def neighbourhood(
    network: Network, nodes: Sequence[int], others: Sequence[int], most: int = NEIGHBOURS
) -> dict[str, Any]:
    """Neighbours of some nodes, and the edges among all drawn nodes.

    Args:
        network: What is explored.
        nodes: The nodes in the middle.
        others: Other nodes that are drawn.
        most: So many neighbours of each, those of highest degree first.
    """
    found = {}
    for node in nodes:
        neighbours = network.neighbours(node)
        found[node] = neighbours[np.argsort(-network.degree[neighbours], kind="stable")][
            :most
        ].tolist()
    parts = [np.asarray(part, dtype=np.int64) for part in (nodes, others, *found.values())]
    return {
        "neighbours": [found[node] for node in nodes],
        "more": [len(network.neighbours(node)) - len(found[node]) for node in nodes],
        "edge": network.among(np.unique(np.concatenate(parts)))[:EDGES].ravel().tolist(),
    }


def effect_neighbourhood(
    network: Network, edits: PageEdits, effect: dict[str, Any], chosen: Sequence[int]
) -> dict[str, Any]:
    """The neighbourhood of an effect: edited and chosen nodes, and the nodes that change."""
    ends = [node for one in edits for node in one.nodes]
    nodes = list(dict.fromkeys([*ends, *chosen]))[:CENTRES]
    if "node" in effect:
        moved = [
            node
            for node, change, start, end in zip(
                effect["node"], effect["change"], effect["from"], effect["to"], strict=True
            )
            if change >= SEEN or start != end
        ]
    else:
        pairs = zip(effect["source"], effect["target"], effect["change"], strict=True)
        moved = [node for one, other, change in pairs if change >= SEEN for node in (one, other)]
    others = list(dict.fromkeys(moved))[:CHANGED]
    return {"nodes": nodes, "others": others, **neighbourhood(network, nodes, others)}
