"""The definition itself: one full forward pass on `G−r` for every removed node `r`."""

from __future__ import annotations

from collections.abc import Generator

import torch

from nora.methods import METHODS, MethodFacts, Part
from nora.model import Problem


@METHODS.register(
    "brute", "the definition: one forward pass per removal (the oracle)", MethodFacts(exact=True)
)
def brute(problem: Problem) -> Generator[Part, None, None]:
    """Yield `F(r)` node by node."""
    with torch.no_grad():
        before = problem.predict()
        for node in problem.nodes.unsqueeze(1):
            after, survivors = problem.predict_without(node)
            yield node, problem.total_change(before, after, survivors).reshape(1)
