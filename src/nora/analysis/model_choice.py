"""The default model, and the reason: one that uses what the edges carry, at an affordable cost.

no types                  gcn
up to 16 types            rgcn: a map for each type where there are as many labels as weights in them,
                          else 2 maps that the types share (bases), in proportions of their own
up to 64                  rgcn with 2 or 8 maps that the types share, by the same rule
more, or too wide         gcn, which does not look at types

A map for each type of wide features is learnt from few labels each: on a generated graph (8 types, 500 words,
20,000 labels) it is right about 70 %, with 2 shared maps about 96 %, and a gcn about 94 %
(`benchmarks/files.py choice`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nora.datasets import Dataset
from nora.memory import in_words
from nora.options import option

OWN_MAPS, SHARED_MAPS, BASES, FEW_BASES = 16, 64, 8, 2
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
    weights = types * width * HIDDEN
    taken = 4 * 4 * weights  # they, their gradients and Adam's averages, 4 bytes each
    enough = types <= FEW_BASES or weights <= _examples(dataset)
    if types <= OWN_MAPS and taken <= MOST_WEIGHTS and enough:
        reason = (
            f"edges have {types} type{'s' * (types > 1)}, and rgcn has a weight matrix for each"
        )
        return ModelChoice("rgcn", reason=reason)
    bases = BASES if enough else FEW_BASES
    if types <= SHARED_MAPS and taken * bases / types <= MOST_WEIGHTS:
        why = "be slow and learnt from few edges" if enough else "be learnt from too few labels"
        return ModelChoice(
            "rgcn",
            {"num_bases": bases},
            f"edges have {types} types, which share {bases} basis matrices: one matrix each would {why}",
        )
    return ModelChoice(
        "gcn",
        reason=f"weight matrices for {types} edge types would take {in_words(taken)}, or be learnt from "
        "few edges each, and gcn ignores types. Join rare types under one name, or give "
        f"{option('model', 'rgcn')}",
    )


def _examples(dataset: Dataset) -> int:
    """The number of training examples: labelled nodes, or edges without labels."""
    y = dataset.data.get("y")
    labelled = 0 if y is None else int((y >= 0).sum())
    return labelled or int(dataset.data.num_edges)
