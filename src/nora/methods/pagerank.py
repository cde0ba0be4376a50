"""Yardstick: PageRank on the reversed edges, so that a node with many readers ranks high.

    p = d (p S + what nodes without edges hold, shared by all) + (1 − d) / N

by repeated products with the sparse matrix `S` of shares, as NetworkX does it; without a graph of Python
objects, which takes a gigabyte for a million edges.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from nora.methods import METHODS, MethodFacts
from nora.model import Problem

# NetworkX stops when ranks change by no more than this a node, and after so many products. Of a million nodes
# that would be all there is: from so many on, the change of all together stays the same.
CHANGE, PRODUCTS, MANY_NODES = 1e-6, 100, 20_000


@METHODS.register(
    "pagerank", "yardstick: PageRank", MethodFacts(uses_model=False, uses_targets=False)
)
def pagerank(problem: Problem, *, damping: float = 0.85) -> Tensor:
    """PageRank of each node; messages flow along edges, so importance flows against them.

    Args:
        problem: The question; only its graph is used.
        damping: Probability of following an edge.
    """
    size = problem.num_nodes
    target, source = problem.edge_index.cpu().numpy()
    links = csr_array((np.ones(len(source)), (source, target)), shape=(size, size))
    links.data[:] = 1  # an edge that is listed twice is one
    leaving = np.diff(links.indptr)
    shares = links.multiply(1 / np.maximum(leaving, 1)[:, None]).T.tocsr()
    ranks = np.full(size, 1 / max(size, 1))
    for _ in range(PRODUCTS):
        before = ranks
        ranks = damping * (shares @ ranks + ranks[leaving == 0].sum() / size) + (1 - damping) / size
        if np.abs(ranks - before).sum() < CHANGE * min(size, MANY_NODES):
            return torch.from_numpy(ranks).float()
    raise ValueError(
        f"PageRank did not converge in {PRODUCTS} products with damping={damping}: use a smaller damping"
    )
