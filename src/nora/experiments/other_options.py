"""NORA on the models of a cell, with options found on any nodes: for recipes that ask for reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nora.model import build_problem
from nora.model.checks import check_model
from nora.questions.influence import influence
from nora.results.agreement import pearson
from nora.training.runs import Run
from nora.training.splits import few_shot
from nora.tuning.tune import tune_problems

METHOD = "nora"


@dataclass(frozen=True)
class OtherOptions:
    """NORA with other options on the same models.

    Attributes:
        runs: The models of a cell, one per cycle.
        truths: Their exact influences, `[N]` each.
        seed: Seed of the search.
    """

    runs: Sequence[Run]
    truths: Sequence[Tensor]
    seed: int

    @cached_property
    def truth(self) -> Tensor:
        """The influences averaged over the models, `[N]`."""
        return torch.stack(list(self.truths)).mean(dim=0)

    def options(self, nodes: Tensor) -> dict[str, Any]:
        """The options that the search finds when it sees the influences of these nodes, and no others."""
        problems = []
        for run, truth in zip(self.runs, self.truths, strict=True):
            labels = torch.full_like(truth, float("nan"))
            labels[nodes] = truth[nodes]
            problem = build_problem(run.model, run.data, run.task, labels=labels)
            problems.append(check_model(problem))
        return tune_problems(problems, METHOD, seed=self.seed, progress=False).options

    def scores(self, options: dict[str, Any]) -> Tensor:
        """NORA's scores with these options, averaged over the models, `[N]`."""
        several = [
            influence(run.model, run.data, METHOD, run.task, progress=False, **options).scores
            for run in self.runs
        ]
        return torch.stack(several).mean(dim=0)

    def agreement(self, scores: Tensor, seen: Tensor) -> float:
        """Pearson of scores with the averaged influences, on all nodes but those seen."""
        counted = torch.ones(len(self.truth), dtype=torch.bool)
        counted[seen] = False
        return pearson(scores[counted], self.truth[counted])

    def by_samples(self, share: float, seeds: Sequence[int]) -> list[tuple[Tensor, float]]:
        """Per random sample of labelled nodes: the scores, and Pearson on the nodes it does not label."""
        found = []
        for seed in seeds:
            nodes = few_shot(len(self.truth), share, seed)
            scores = self.scores(self.options(nodes))
            found.append((scores, self.agreement(scores, nodes)))
        return found
