"""The same analysis with other seeds and other architectures: what of its ranking is about the data?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch

from nora.analysis.model_choice import ModelChoice
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


def repeated(
    run: Run,
    trust: Trust,
    scores: Influence,
    dataset: Dataset,
    choices: Sequence[ModelChoice],
    repeats: int,
    top: int,
    *,
    method: str,
    options: dict[str, Any],
    epochs: int,
    balanced: bool,
    targets: Any,
    progress: bool,
    tell: Callable[[str], None],
) -> Stability:
    """Train and rank again, and compare with the first model.

    Args:
        run: The first model: of the first choice, with the first seed.
        trust: The verdict on it.
        scores: Its influences.
        dataset: What it was trained on.
        choices: Architectures.
        repeats: How many seeds of each; they follow the first one.
        top: How many nodes are called the first, if the graph has some more.
        method, options: How influences are found.
        epochs: Most passes in training.
        balanced: Whether every class counts the same in training.
        targets: The nodes whose predictions count; None for all.
        progress: Show progress bars.
        tell: Called with a line about each model.
    """
    seeds = range(run.seed, run.seed + repeats)
    members, found = [_member(choices[0].name, run.seed, trust, scores)], [scores.scores]
    for chosen, seed in [*product(choices, seeds)][1:]:
        other = train(
            chosen.name,
            dataset,
            run.task.name,
            seed=seed,
            epochs=epochs,
            balanced=balanced,
            progress=progress,
            **chosen.sizes,
        )
        verdict = assess(other)
        theirs = other.session(targets=targets).influence(method, progress=progress, **options)
        members.append(_member(chosen.name, seed, verdict, theirs))
        found.append(theirs.scores)
        weak = "; too weak to be trusted" if verdict.weak else ""
        tell(f"  · {members[-1]}: {verdict.metric.replace('_', ' ')} {verdict.value:.3f}{weak}")
        del other, theirs
        release_memory()
    k = min(top, max(1, len(scores) // FEW))
    stacked = torch.stack([one.double().cpu() for one in found])
    return Stability(tuple(members), stacked, k, scores.names)


def _member(model: str, seed: int, trust: Trust, scores: Influence) -> Member:
    return Member(model, seed, trust.metric, trust.value, trust.weak, method_name(scores))
