"""Yardstick: how many edges touch a node (self-loops not counted)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import degree as count

from nora.methods import METHODS, MethodFacts
from nora.problem import Problem


@METHODS.register(
    "degree",
    "yardstick: edges at the node (in and out, halved)",
    MethodFacts(uses_model=False, uses_targets=False),
)
def degree(problem: Problem) -> Tensor:
    """Edges into plus edges out of each node; an undirected edge, stored twice, counts as one."""
    source, target = problem.edge_index
    other = source != target
    ends = torch.cat([source[other], target[other]])
    return count(ends, problem.num_nodes, dtype=torch.get_default_dtype()) / 2
