"""Estimate the time and memory of a run from sizes alone, within a factor of two or three.

The constants are those of one core of a small machine; what is asked for is what a person wants to know
before they go for a coffee, or for a larger machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_geometric.data import Data

from nora.memory import in_words
from nora.wording import duration

HIDDEN = 64
# Multiplications a second in sparse products, forth and back; bytes that an edge takes in all matrices made
# of it, and those that libraries take.
SPEED, BYTES_PER_EDGE, BASE = 1.5e9, 150, 650_000_000
# Ranking may take two minutes, or this share of what training took, if that is more.
BUDGET, SHARE, WORTH_TELLING = 120.0, 0.5, 20.0


@dataclass(frozen=True)
class Forecast:
    """Seconds and bytes that a run may take.

    Attributes:
        training: Seconds of training to the last epoch.
        memory: Bytes at the peak.
    """

    training: float
    memory: int

    @property
    def seconds(self) -> float:
        """Of training to the last epoch, and of ranking within its budget."""
        return self.training + ranking_seconds(self.training)

    def __str__(self) -> str:
        return (
            f"about {duration(self.seconds)} and {in_words(self.memory)} (training up to "
            f"{duration(self.training)}, less if it stops improving; then the ranking)"
        )

    @property
    def long(self) -> bool:
        """Whether it is worth telling."""
        return self.training > WORTH_TELLING


def ranking_seconds(training: float) -> float:
    """The time budget of the ranking, given the seconds of training.

    >>> ranking_seconds(5.0), ranking_seconds(600.0)
    (120.0, 300.0)
    """
    return max(BUDGET, SHARE * training)


def forecast(
    data: Data, model: str, epochs: int, classes: int, shared: int | None = None
) -> Forecast:
    """Estimate the cost of training and ranking.

    Args:
        data: The graph, with dense features.
        model: The model's name.
        epochs: At most so many.
        classes: Number of classes, or the embedding's width.
        shared: How many maps types of edges share, where they do.
    """
    nodes, width = data.x.shape
    entries = int(data.x.count_nonzero())
    if entries > 0.1 * nodes * width:
        entries = nodes * width // 8  # a dense product is so much quicker an entry
    types, edges = 1, int(data.num_edges)
    at_once = edges
    if model == "rgcn" and data.get("edge_type") is not None and data.edge_type.numel():
        of_type = data.edge_type.bincount()
        types, at_once = len(of_type), int(of_type.max())
    maps = min(shared or types, types)
    work = 3 * maps * entries * HIDDEN + 4 * edges * (HIDDEN + classes)
    work += 4 * maps * nodes * HIDDEN * (classes + 2)
    if maps < types:
        work += 4 * types * nodes * maps * (HIDDEN + classes)  # mixed for each
    # A full pass on a graph without a node: its features are a second copy, and what is sent along edges is
    # there twice, as it comes and as it is weighed.
    held = 4 * nodes * width * 2 + 12 * entries + BYTES_PER_EDGE * edges + 8 * HIDDEN * at_once
    held += 4 * nodes * (6 * HIDDEN * max(2, types) + 8 * classes)
    return Forecast(epochs * work / SPEED, BASE + held)
