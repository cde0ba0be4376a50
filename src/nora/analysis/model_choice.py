"""Which model to train when nobody says, and why: what the edges have to tell, at a price that can be paid.

no types                  gcn
up to 16 types            rgcn, a map for each type
up to 64                  rgcn with 8 maps that the types share (bases)
more, or too wide         gcn, which does not look at types
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nora.datasets import Dataset
from nora.memory import in_words

OWN_MAPS, SHARED_MAPS, BASES = 16, 64, 8
HIDDEN = 64
# Weights, their gradients and Adam's two averages may take so many bytes together.
MOST_WEIGHTS = 1_000_000_000


@dataclass(frozen=True)
class ModelChoice:
    """A model with sizes that follow from the graph, and why it was chosen; no reason where it was named."""

    name: str
    sizes: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def choose_model(name: str | None, dataset: Dataset) -> ModelChoice:
    """The model that was named, or for None and `auto` one that fits the graph.

    Example:
        >>> from nora.datasets import load_dataset
        >>> choose_model("auto", load_dataset("karate")).reason
        'edges have no types'
    """
    if name not in (None, "auto"):
        return ModelChoice(str(name))
    types = len(dataset.edge_type_names or ())
    if not types:
        return ModelChoice("gcn", reason="edges have no types")
    width = int(dataset.data.x.size(1))
    weights = types * width * HIDDEN * 4
    if types <= OWN_MAPS and 4 * weights <= MOST_WEIGHTS:
        reason = f"edges have {types} type{'s' * (types > 1)}, and it has a map for each"
        return ModelChoice("rgcn", reason=reason)
    # With shared maps, those of all types are put together in every pass, and their gradients.
    if types <= SHARED_MAPS and 2 * weights <= MOST_WEIGHTS:
        return ModelChoice(
            "rgcn",
            {"num_bases": BASES},
            f"edges have {types} types, which share {BASES} maps: one for each of so many would be slow "
            "and learnt from few edges",
        )
    return ModelChoice(
        "gcn",
        reason=f"maps for {types} types of edges would take {in_words(4 * weights)}, or be learnt from few "
        "edges each; it does not look at types. Join rare types under one name, or say model='rgcn'",
    )
