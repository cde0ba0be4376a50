"""Yardstick: how many edges are at a node, as `nora.graph.degrees` counts them."""

from __future__ import annotations

import torch
from torch import Tensor

from nora.graph.degrees import degrees
from nora.methods import METHODS, MethodFacts
from nora.model import Problem


@METHODS.register(
    "degree",
    "yardstick: edges at the node, in and out",
    MethodFacts(uses_model=False, uses_targets=False),
)
def degree(problem: Problem) -> Tensor:
    """Edges at each node `[num_nodes]`, self-loops not counted."""
    return degrees(problem.data).to(problem.device, torch.get_default_dtype())
