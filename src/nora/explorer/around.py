"""What a large graph shows in front: who the state is about, their neighbours, who changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nora.explorer.changes import Key
from nora.explorer.network import Network

# Neighbours of each node, nodes that an edit is about, nodes that change, ties among all of them.
NEIGHBOURS, CENTRES, CHANGED, TIES = 150, 60, 900, 20_000
# A smaller change is not worth a dot of its own.
SEEN = 0.002


def around(
    network: Network, nodes: Sequence[int], others: Sequence[int], most: int = NEIGHBOURS
) -> dict[str, Any]:
    """Neighbours of some nodes, and the ties among all that is drawn.

    Args:
        network: What is explored.
        nodes: Whose neighbours are wanted.
        others: Who is drawn besides.
        most: So many neighbours of each, those of highest degree first.
    """
    found = {}
    for node in nodes:
        near = network.neighbours(node)
        found[node] = near[np.argsort(-network.degree[near], kind="stable")][:most].tolist()
    parts = [np.asarray(part, dtype=np.int64) for part in (nodes, others, *found.values())]
    return {
        "near": [found[node] for node in nodes],
        "more": [len(network.neighbours(node)) - len(found[node]) for node in nodes],
        "edge": network.among(np.unique(np.concatenate(parts)))[:TIES].ravel().tolist(),
    }


def around_effect(
    network: Network, changes: Key, told: dict[str, Any], chosen: Sequence[int]
) -> dict[str, Any]:
    """The same for an effect: its edits and what is chosen in the middle, who changes besides."""
    ends = [node for one in changes for node in one.nodes]
    nodes = list(dict.fromkeys([*ends, *chosen]))[:CENTRES]
    if "node" in told:
        moved = [
            node
            for node, change, start, end in zip(
                told["node"], told["change"], told["from"], told["to"], strict=True
            )
            if change >= SEEN or start != end
        ]
    else:
        pairs = zip(told["source"], told["target"], told["change"], strict=True)
        moved = [node for one, other, change in pairs if change >= SEEN for node in (one, other)]
    others = list(dict.fromkeys(moved))[:CHANGED]
    return {"nodes": nodes, "others": others, **around(network, nodes, others)}
