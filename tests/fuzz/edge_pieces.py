"""Trials of models made of the samples between nodes and edges (`edge_samples.py`), in every question."""

from __future__ import annotations

import random
import time

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from edge_samples import SAMPLES
from fuzz.branches import CLASSES, FEATURES, relational
from fuzz.branching import QUESTIONS, asked
from fuzz.trial import Outcome


class Composed(nn.Module):
    """Samples one after the other, each beside what there was before."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names, self.first = names, nn.Linear(FEATURES, CLASSES)
        self.maps = nn.ModuleList(nn.Linear(CLASSES, CLASSES) for _ in names)

    def forward(self, data: Data) -> Tensor:
        h = self.first(data.x)
        for name, lin in zip(self.names, self.maps, strict=True):
            sample, rows = SAMPLES[name], h.tanh()
            rows = rows if 2 in sample.dims else rows.unsqueeze(1)
            h = h + lin(sample.function(rows, data.edge_index).reshape(h.shape).tanh())
        return h


def run(seed: int) -> Outcome:
    """The trial of a seed."""
    dice, start = random.Random(seed), time.monotonic()
    torch.manual_seed(seed)
    data = relational(seed, nodes=dice.randint(6, 22), edges=dice.randint(12, 80))
    names = [dice.choice(list(SAMPLES)) for _ in range(dice.choice((1, 1, 2, 3)))]
    question = dice.choice(QUESTIONS)
    outcome = Outcome(seed, pieces=[*names, question])
    asked(question, Composed(names).double().eval(), data, outcome, dice)
    outcome.seconds = time.monotonic() - start
    return outcome
