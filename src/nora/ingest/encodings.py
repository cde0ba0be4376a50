"""Features for nodes that have none, from the graph alone.

    degree       how many neighbours: log(1 + degree), standardised, and its order of magnitude
    onehot       which node it is: one feature per node, as wide as the graph has nodes
    random       the same in short: 128 random numbers per node, from a fixed seed
    random-walk  the probability that a random walk is back after 1, 2, … steps: what kind of place
                 the node has in the graph (Dwivedi et al., 2022; PyG's `AddRandomWalkPE`)

Degree and random walk describe what a node's place is *like*; they cannot separate two camps
of the same shape. `onehot` and `random` can, because neighbours share what they are made of. `auto`
therefore joins one of these (`onehot` up to 3,000 nodes) with both others. Parts can be joined by hand
with `+`.

Encodings are features: made once, and like all features they stay as they are when a node is removed.
They are made from the whole graph, but for link prediction from the edges that messages pass along:
made from an edge that is held out, they would give it away (`encoded_from`, which training uses).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from nora.datasets import Dataset
from nora.ingest.features import standardised
from nora.registry import unknown_name

ENCODINGS = ("degree", "onehot", "random", "random-walk")
ONEHOT_UP_TO, ONEHOT_AT_MOST = 3_000, 10_000
RANDOM_WIDTH, WALK_STEPS = 128, 16
# Products of the transition matrix with its powers may take so many multiplications.
WALK_WORK = 20_000_000


def chosen_encoding(encoding: str, num_nodes: int) -> str:
    """Replace `auto` by encodings, and check all other names.

    >>> chosen_encoding("auto", 34), chosen_encoding("degree", 34)
    ('onehot+random-walk+degree', 'degree')
    """
    if encoding == "auto":
        identity = "onehot" if num_nodes <= ONEHOT_UP_TO else "random"
        return f"{identity}+random-walk+degree"
    for part in encoding.split("+"):
        if part not in ENCODINGS:
            raise unknown_name("encoding", part, ["auto", *ENCODINGS])
    if "onehot" in encoding.split("+") and num_nodes > ONEHOT_AT_MOST:
        raise ValueError(
            f"the encoding onehot has one feature per node: {num_nodes:,} nodes are more than the "
            f"{ONEHOT_AT_MOST:,} it is made for. Use random, or auto"
        )
    return encoding


def encode(
    encoding: str, edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None
) -> Tensor:
    """Features `[num_nodes, F]` from the graph alone.

    Args:
        encoding: One of `ENCODINGS`, several joined by `+`, or `auto`.
        edge_index: `[2, E]`.
        num_nodes: Number of nodes.
        edge_weight: `[E]`; a random walk prefers heavy edges.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> encode("random-walk", path, 3).shape
        torch.Size([3, 16])
    """
    parts = []
    for part in chosen_encoding(encoding, num_nodes).split("+"):
        if part == "degree":
            parts.append(_degree(edge_index, num_nodes))
        elif part == "onehot":
            parts.append(torch.eye(num_nodes))
        elif part == "random":
            seeded = torch.Generator().manual_seed(0)
            parts.append(torch.randn(num_nodes, RANDOM_WIDTH, generator=seeded))
        else:
            walks = return_probabilities(edge_index, num_nodes, edge_weight)
            parts.append(_columns_standardised(walks))
    return torch.cat(parts, dim=1)


def encoded_from(dataset: Dataset, seen: Data) -> Tensor:
    """Features `[num_nodes, F]` of a dataset, those made by its encoding from the edges of `seen` only.

    The number of made features may differ, as that of orders of magnitude of degrees does.
    """
    if dataset.encoding is None:
        return dataset.data.x
    given = dataset.data.x[:, : dataset.given_features]
    num_nodes = int(dataset.data.num_nodes or 0)
    made = encode(dataset.encoding, seen.edge_index, num_nodes, seen.get("edge_weight"))
    return torch.cat([given, made], dim=1)


def _columns_standardised(values: Tensor) -> Tensor:
    columns = [standardised(column) for column in values.double().numpy().T]
    return torch.from_numpy(np.stack(columns, axis=1)).float()


def _degree(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Logarithm of the degree, and one 0/1 feature per order of magnitude (powers of 2)."""
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    degree = (source.bincount(minlength=num_nodes) + target.bincount(minlength=num_nodes)) / 2
    logarithm = degree.add(1).log()
    magnitude = degree.add(1).log2().floor().long()
    return torch.cat(
        [
            _columns_standardised(logarithm.unsqueeze(1)),
            torch.nn.functional.one_hot(magnitude).float(),
        ],
        dim=1,
    )


def return_probabilities(
    edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None, steps: int = WALK_STEPS
) -> Tensor:
    """Probability `[N, steps]` that a random walk from each node is back after 1 … `steps` steps.

    With the transition matrix `P`, this is the diagonal of `P^k = P^a P^b`, `a + b = k`: half of the
    powers suffice, `diag(P^k)_i = Σ_j (P^a)_ij (P^b)_ji`. Where even these grow too dense, as they
    do around hubs, there are fewer steps; there are always at least two.

    Example:
        >>> triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
        >>> return_probabilities(triangle, 3, steps=3)[0]
        tensor([0.0000, 0.5000, 0.2500])
    """
    source, target = edge_index.numpy()
    weight = np.ones(len(source)) if edge_weight is None else edge_weight.double().numpy()
    adjacency = sp.csr_array((weight, (source, target)), shape=(num_nodes, num_nodes))
    total = np.asarray(adjacency.sum(axis=1)).ravel()
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    step = sp.csr_array(sp.diags_array(scale) @ adjacency)
    powers, found = [step], [step.diagonal()]
    leaving = np.diff(step.indptr)
    for k in range(2, steps + 1):
        most, least = (k + 1) // 2, k // 2
        if most > len(powers):
            work = int(leaving[powers[-1].indices].sum())
            if work > WALK_WORK:
                break
            powers.append(sp.csr_array(powers[-1] @ step))
        product = powers[most - 1].multiply(powers[least - 1].T.tocsr())
        found.append(np.asarray(product.sum(axis=1)).ravel())
    return torch.from_numpy(np.stack(found, axis=1)).float()
