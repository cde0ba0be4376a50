"""Recompute a few influences of a checkpoint before continuing it, as anyone may have written it."""

from __future__ import annotations

import random
from dataclasses import replace

import torch

from nora.engine.rounding import tolerated
from nora.methods import METHODS
from nora.model import Problem
from nora.results.checkpoint import Shards

RECOMPUTED = 2


def check_finished(shards: Shards, problem: Problem, todo: Problem) -> None:
    """Raise unless a few influences of a checkpoint equal recomputed ones."""
    finished = problem.nodes[~torch.isin(problem.nodes, todo.nodes)].tolist()
    some = random.SystemRandom().sample(finished, min(RECOMPUTED, len(finished)))
    kept = shards.scores() if some else torch.empty(0)
    for node in some:
        ((_, true),) = METHODS["brute"].value(replace(problem, nodes=torch.tensor([node])))
        items = problem.predict().size(0)
        allowed = tolerated(true.dtype) * problem.task.scale(problem.predict()) * items
        if not abs(float(kept[node]) - float(true)) <= allowed:
            name = problem.node_index.named([node])[0]
            raise ValueError(
                f"{shards.folder}: the influence of node {name} is {float(kept[node]):.4g}, and the model "
                f"gives {float(true):.4g}: the checkpoint was changed or damaged. Use another folder"
            )
