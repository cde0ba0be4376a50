"""By what nodes are filtered: class, label, degree, name, and groups that the graph or the caller names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nora.graph.node_index import Graph, node_index_of
from nora.model.measuring import MOST_GROUPS, masks_in

if TYPE_CHECKING:
    from nora.explorer.network import Network

MOST_KINDS = 6


@dataclass(frozen=True, eq=False)
class Grouping:
    """One way to put nodes into groups.

    Attributes:
        name: What it is called.
        values: The groups' names.
        group: The group of each node `[N]`, −1 for none.
    """

    name: str
    values: tuple[str, ...]
    group: np.ndarray

    def columns(self) -> dict[str, Any]:
        """The grouping as the page reads it."""
        return {"name": self.name, "values": list(self.values), "group": self.group.tolist()}


def groupings(data: Graph, given: Mapping[str, Sequence[Any]] | None = None) -> list[Grouping]:
    """Node types, masks such as `train_mask`, and what the caller names.

    Args:
        data: The graph.
        given: One value per node, by name; None or NaN where a node has none.

    Raises:
        ValueError: When there are too many groups, or not one value per node.
    """
    index = node_index_of(data)
    found = []
    if len(index.types) > 1:
        kinds = np.repeat(np.arange(len(index.types)), index.counts)
        found.append(Grouping("type", index.types, kinds))
    masks = {name: mask.numpy() for name, mask in masks_in(data).items() if bool(mask.any())}
    if masks:
        # A node in several masks counts with the first.
        group = np.full(index.total, -1)
        for at, mask in reversed(list(enumerate(masks.values()))):
            group[mask] = at
        found.append(Grouping("split", tuple(masks), group))
    for name, values in (given or {}).items():
        found.append(_grouped(str(name), values, index.total))
    if len(found) > MOST_KINDS:
        raise ValueError(
            f"groups names {len(given or {})} groupings; the page shows at most {MOST_KINDS}"
        )
    return found


def _grouped(name: str, values: Any, num_nodes: int) -> Grouping:
    listed = list(values.tolist() if hasattr(values, "tolist") else values)
    if len(listed) != num_nodes:
        raise ValueError(
            f"groups[{name!r}] must have one value per node, {num_nodes}; got {len(listed)}"
        )
    known = [one for one in dict.fromkeys(listed) if one is not None and one == one]
    if not 0 < len(known) <= MOST_GROUPS:
        raise ValueError(
            f"groups[{name!r}] has {len(known):,} different values: give 1 to {MOST_GROUPS}"
        )
    place = {value: at for at, value in enumerate(known)}
    group = np.array([place.get(one, -1) if one == one else -1 for one in listed])
    return Grouping(name, tuple(map(str, known)), group)


def kept_nodes(network: Network, wanted: Mapping[str, Any]) -> np.ndarray | None:
    """Mask `[N]` of the nodes that match the filters; None without filters.

    Args:
        network: What is explored.
        wanted: `class`, `label`, `degree` (at least), `text` (in the name), and `group`, pairs of the place
            of a grouping and of a group in it.
    """
    parts = []
    if wanted.get("class") is not None and network.predicted is not None:
        parts.append(network.predicted == wanted["class"])
    if wanted.get("label") is not None and network.labels is not None:
        parts.append(network.labels == wanted["label"])
    if wanted.get("degree"):
        parts.append(network.degree >= wanted["degree"])
    for at, value in wanted.get("group", ()):
        parts.append(network.groups[at].group == value)
    text = str(wanted.get("text") or "").strip().casefold()
    if text:
        parts.append(np.array([text in name for name in network.searchable], dtype=bool))
    return np.logical_and.reduce(parts) if parts else None
