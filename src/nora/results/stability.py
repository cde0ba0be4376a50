"""Does a ranking hold when the model is trained again, or is another one?

Influence belongs to one trained model. Several models, trained on the same data with other seeds or
architectures, each have their own ranking: what they share depends on the data, what differs on the seed. Of
the first `k` nodes of the first model, those count as *held* that are among the first `k` of more than half
of the other models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nora.results.agreement import in_common, pearson, spearman

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Shares of the first nodes that must be held.
HOLDS, IN_PART = 0.8, 0.5
Verdict = Literal["holds", "holds in part", "is decided by one model"]


@dataclass(frozen=True)
class Member:
    """One of several models.

    Attributes:
        model: Its architecture.
        seed: Of its split and its first weights.
        metric: By which it is judged, `accuracy` or `auc`.
        value: On what it has not seen.
        weak: Whether it is too weak for its influences to be trusted.
        method: How its influences were found.
    """

    model: str
    seed: int
    metric: str
    value: float
    weak: bool
    method: str

    def __str__(self) -> str:
        return f"{self.model}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class Stability:
    """Influences of several models on the same graph, the first of which is the one reported.

    Attributes:
        members: The models.
        scores: Their influences `[models, N]`.
        k: How many nodes are called the first.
        names: The nodes' names, where they have any.

    Example:
        >>> seeds = [Member("gcn", seed, "accuracy", 0.9, False, "exact") for seed in range(3)]
        >>> scores = torch.tensor([[3.0, 2, 1, 0], [3, 1, 2, 0], [4, 1, 3, 0]])
        >>> found = Stability(tuple(seeds), scores, k=2)
        >>> found.verdict, found.times_first.tolist(), found.alone
        ('holds in part', [3, 1, 2, 0], [1])
    """

    members: tuple[Member, ...]
    scores: Tensor
    k: int
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.members) < 2 or len(self.members) != len(self.scores):
            raise ValueError(
                f"stability needs at least two models, got {len(self.members)} models and scores "
                f"{list(self.scores.shape)}"
            )
        if not self.scores.isfinite().all():
            raise ValueError("stability needs finite scores of every node by every model")
        if not 1 <= self.k <= self.scores.size(1):
            raise ValueError(f"k must lie between 1 and {self.scores.size(1)}, got {self.k}")

    @property
    def mean(self) -> Tensor:
        """Mean influence `[N]` over the models."""
        return self.scores.double().mean(dim=0)

    @property
    def spread(self) -> Tensor:
        """Standard deviation of the influence `[N]` over the models."""
        return self.scores.double().std(dim=0)

    @cached_property
    def ranks(self) -> Tensor:
        """Every node's rank by every model `[models, N]`, the most influential first; ties by id."""
        order = self.scores.argsort(dim=1, descending=True, stable=True)
        places = torch.arange(1, self.scores.size(1) + 1).expand_as(order)
        return torch.empty_like(order).scatter_(1, order, places)

    @cached_property
    def times_first(self) -> Tensor:
        """By how many models each node `[N]` is among the first `k`."""
        return (self.ranks <= self.k).sum(dim=0)

    @property
    def first(self) -> list[int]:
        """The first `k` nodes of the first model, in order."""
        return [int(node) for node in self.ranks[0].argsort()[: self.k]]

    @property
    def alone(self) -> list[int]:
        """Those of the first nodes that no more than half of the other models have among theirs."""
        others = len(self.members) - 1
        return [node for node in self.first if 2 * (int(self.times_first[node]) - 1) <= others]

    @property
    def verdict(self) -> Verdict:
        """Whether the first model's ranking holds for the others."""
        held = 1 - len(self.alone) / self.k
        if held >= HOLDS:
            return "holds"
        return "holds in part" if held >= IN_PART else "is decided by one model"

    def name(self, node: int) -> str:
        """A node in words."""
        return self.names[node] if self.names else f"node {node}"

    @property
    def finding(self) -> str:
        """The finding in words."""
        total = len(self.members)
        first = self.first[0]
        found = [
            f"Of the first {self.k} nodes, {self.k - len(self.alone)} are among the first {self.k} of most "
            f"other models too ({self._kinds()}); {self.name(first)}, the first, is among them in "
            f"{int(self.times_first[first])} of {total} models."
            if self.k > 1
            else f"{self.name(first)} comes first in {int(self.times_first[first])} of {total} models "
            f"({self._kinds()})."
        ]
        pairs = self.agreement()
        same = pairs[pairs["same_model"]]["shared"]
        other = pairs[~pairs["same_model"]]["shared"]
        for shared, what in ((same, "that differ in their seed"), (other, "of two architectures")):
            if len(shared) and self.k > 1:
                found.append(f"Two models {what} share {shared.mean():.1f} of {self.k} on average.")
        return " ".join(found)

    @property
    def caution(self) -> str:
        """The caution that a report starts with; empty if the ranking holds."""
        if self.verdict == "holds":
            return ""
        if self.verdict == "holds in part":
            named = ", ".join(self.name(node) for node in self.alone[:5])
            more = f" and {len(self.alone) - 5} more" if len(self.alone) > 5 else ""
            return (
                f"the ranking holds in part when the model is trained again: {named}{more} stand among the "
                f"first {self.k} of this model, but not of most others"
            )
        return (
            f"the ranking is decided by this one model: of its first {self.k} nodes, {len(self.alone)} are "
            "not among those of most others trained on the same data. It is not a finding about the data; "
            "look at nodes that most models agree on"
        )

    def _kinds(self) -> str:
        names = list(dict.fromkeys(member.model for member in self.members))
        seeds = len({member.seed for member in self.members})
        return f"{', '.join(names)}; {seeds} seed{'s' * (seeds > 1)} each"

    def agreement(self) -> pd.DataFrame:
        """Every two models: correlations of their influences, and how many of their first `k` they share."""
        rows: list[dict[str, Any]] = []
        values = self.scores.double().numpy()
        for a, b in combinations(range(len(self.members)), 2):
            rows.append(
                {
                    "model": str(self.members[a]),
                    "other": str(self.members[b]),
                    "same_model": self.members[a].model == self.members[b].model,
                    "pearson": pearson(values[a], values[b]),
                    "spearman": spearman(values[a], values[b]),
                    "shared": in_common(values[a], values[b], self.k),
                }
            )
        return pd.DataFrame(rows)

    def models(self) -> pd.DataFrame:
        """One row per model: how good it is, and its mean agreement with the others."""
        pairs = self.agreement()
        rows = []
        for member in self.members:
            mine = pairs[(pairs["model"] == str(member)) | (pairs["other"] == str(member))]
            rows.append(
                {
                    "model": member.model,
                    "seed": member.seed,
                    "metric": member.metric,
                    "value": member.value,
                    "weak": member.weak,
                    "method": member.method,
                    "spearman": fmean(mine["spearman"]),
                    "shared": fmean(mine["shared"]),
                }
            )
        return pd.DataFrame(rows)

    def to_frame(self, nodes: Sequence[int] | None = None) -> pd.DataFrame:
        """One row per node: mean influence, its spread, ranks, and by how many models it is a first one."""
        picked = np.arange(self.scores.size(1)) if nodes is None else np.asarray(nodes)
        ranks = self.ranks.numpy()
        return pd.DataFrame(
            {
                "node": picked,
                "influence_mean": self.mean.numpy()[picked],
                "influence_spread": self.spread.numpy()[picked],
                "best_rank": ranks.min(axis=0)[picked],
                "worst_rank": ranks.max(axis=0)[picked],
                f"times_in_top_{self.k}": self.times_first.numpy()[picked],
            }
        )

    def plot(self) -> Figure:
        """The first nodes with their influence by every model."""
        from nora.results.plots.stability import stability_plot

        return stability_plot(self)
