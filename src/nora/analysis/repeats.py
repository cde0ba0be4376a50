"""The same analysis with other seeds and other architectures: what of its ranking is about the data?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from nora.analysis.model_choice import ModelChoice
from nora.analysis.options import TrainOptions
from nora.datasets import Dataset
from nora.machine import release_memory
from nora.results.exactness import method_name
from nora.results.influence import Influence
from nora.results.stability import Member, Stability
from nora.training.runs import Run
from nora.training.train import train
from nora.training.trust import Trust, assess

# The first nodes are a few of all: of half a graph, any two rankings share half.
FEW = 4


@dataclass(frozen=True)
class First:
    """The model that others are compared with: what it was trained on, the verdict on it, its influences.

    `targets` are the nodes whose predictions count; None for all.
    """

    run: Run
    trust: Trust
    scores: Influence
    dataset: Dataset
    targets: Tensor | None = None


def repeated(
    first: First,
    choices: Sequence[ModelChoice],
    training: TrainOptions,
    top: int,
    method: tuple[str, dict[str, Any]],
    progress: bool,
    show: Callable[[str], None],
) -> Stability:
    """Train and rank again, and compare with the first model.

    Args:
        first: The first model: of the first choice, with the first seed.
        choices: Architectures.
        training: How many seeds of each, which follow the first one, and how they are trained.
        top: How many nodes are called the first, if the graph has some more.
        method: How influences are found: a method and its options.
        progress: Show progress bars.
        show: Called with a line about each model.
    """
    run, scores = first.run, first.scores
    seeds = range(run.seed, run.seed + training.repeats)
    members, found = [_member(choices[0].name, run.seed, first.trust, scores)], [scores.scores]
    for chosen, seed in [*product(choices, seeds)][1:]:
        other = train(
            chosen.name,
            first.dataset,
            run.task.name,
            seed=seed,
            epochs=training.epochs,
            balanced=training.balanced,
            progress=progress,
            **chosen.sizes,
        )
        verdict = assess(other)
        session = other.session(targets=first.targets)
        theirs = session.influence(method[0], progress=progress, **method[1])
        members.append(_member(chosen.name, seed, verdict, theirs))
        found.append(theirs.scores)
        weak = "; too weak to be trusted" if verdict.weak else ""
        show(f"  · {members[-1]}: {verdict.metric.replace('_', ' ')} {verdict.value:.3f}{weak}")
        del other, session, theirs
        release_memory()
    k = min(top, max(1, len(scores) // FEW))
    stacked = torch.stack([one.double().cpu() for one in found])
    return Stability(tuple(members), stacked, k, scores.names)


def _member(model: str, seed: int, trust: Trust, scores: Influence) -> Member:
    return Member(model, seed, trust.metric, trust.value, trust.weak, method_name(scores))
