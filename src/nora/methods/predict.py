"""Predict-N and Predict-E: learn influence from a few nodes whose influence is known.

A small GCN on the graph's own features is trained on labelled nodes, 70 % of them to fit the mean
squared error, 30 % to stop early; the model in question is never run. `predict-n` regresses each
node's standardised influence. `predict-e` gives every node a source and a target embedding and reads
influence off the edges,

    F(r) ≈ Σ_{i∈N(r)} s_r · t_i,

with `N(r)` the nodes that receive messages from `r`. `predict-n` divides messages by the sender's degree,
where GCN's symmetric normalisation hides it: on one cycle of Cora (GCN) that takes its Pearson from 0.55 at
best to 0.82. Scores are cut at 0, and nodes that send no messages get 0, as
the definition has it.

`as_published=True` does what the paper's scripts do: rows of features are divided by their sums, the GCN has
no self-loops, the first 70 % of the labelled nodes fit and the others stop, the kept prediction is that of
the best of all epochs with dropout on, and standardised predictions are cut at 0, the mean.

Reference: baselines of Fast Inference of Removal-Based Node Influence, WWW 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCN
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_remaining_self_loops, degree

from nora.methods import METHODS, MethodFacts, Part
from nora.model import Problem
from nora.model.message_passing import message_edges
from nora.model.preserve import seeded
from nora.results.agreement import pearson
from nora.seeds import shuffled
from nora.sparse import csr_matrix, sparse_matrix, sparse_where_sparse

FIT = 0.7
SPACE = {
    "lr": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "hidden": (32, 64),
    "layers": (2, 3),
    "dropout": (0.0, 0.2, 0.5),
    "weight_decay": (0.0, 1e-5),
}
FACTS = MethodFacts(uses_model=False, uses_targets=False, labels="required", space=SPACE)

Normalisation = Literal["symmetric", "sender"]
Predicted = Generator[Part, None, dict[str, Any]]
Head = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Fitting:
    """How the GCN is built and trained; the options of both methods."""

    lr: float
    weight_decay: float
    epochs: int
    patience: int
    hidden: int
    layers: int
    dropout: float
    normalisation: Normalisation
    seed: int
    as_published: bool = False


def fit(
    problem: Problem, head: Head, width: int, target: Tensor, how: Fitting
) -> tuple[Tensor, dict[str, Any]]:
    """Train on the labelled nodes, predict all.

    Args:
        problem: The question.
        head: From the GCN's output `[N, width]` to one value per node `[N]`.
        width: Width of the GCN's output.
        target: `[N]`, NaN where unknown.
        how: Sizes and settings.

    Returns:
        Predictions `[N]` in the target's units, and facts about the training.
    """
    features = _features(problem, how.as_published)
    if how.epochs < 1 or how.patience < 1 or not how.lr > 0:
        raise ValueError(
            f"epochs and patience must be at least 1 and lr positive, got {how.epochs}, {how.patience} "
            f"and {how.lr}"
        )
    known = (~target.isnan()).nonzero().flatten()
    if known.numel() < 4:
        raise ValueError(
            f"{known.numel()} labelled nodes are too few to learn from; give at least 4, "
            "better 10 % of all"
        )
    order = known
    if not how.as_published:
        order = known[shuffled(known.numel(), how.seed).to(known.device)]
    size = round(FIT * known.numel())
    fitted, held_back = order[:size], order[size:]
    adjacency = _normalised(problem, how, features.dtype)
    with seeded(how.seed), torch.enable_grad():
        # Normalised once, and a sparse product per layer: half the time of message passing.
        network = GCN(
            features.size(1), how.hidden, how.layers, width, dropout=how.dropout, normalize=False
        ).to(features.device, features.dtype)
        optimizer = torch.optim.Adam(network.parameters(), lr=how.lr, weight_decay=how.weight_decay)
        best, best_epoch, found = float("inf"), 0, torch.zeros_like(target)
        for epoch in range(1, how.epochs + 1):
            network.train()
            optimizer.zero_grad()
            predicted = head(network(features, adjacency))
            F.mse_loss(predicted[fitted], target[fitted]).backward()
            optimizer.step()
            if not how.as_published:
                with torch.no_grad():
                    predicted = head(network.eval()(features, adjacency))
            predicted = predicted.detach()
            loss = float(F.mse_loss(predicted[held_back], target[held_back]))
            if loss < best:
                best, best_epoch, found = loss, epoch, predicted
            if epoch - best_epoch >= how.patience and not how.as_published:
                break
    return found, {
        "fitted": len(fitted),
        "held_back": len(held_back),
        "best_epoch": best_epoch,
        "held_back_pearson": pearson(found[held_back], target[held_back]),
    }


def _features(problem: Problem, row_normalised: bool) -> Tensor:
    """Node features `[N, F]`, sparse where few are not zero.

    With node types each type has columns of its own; a type without features, or with ids that the
    model looks up, is one-hot.
    """
    if isinstance(problem.data, Data):
        x = problem.data.x
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise ValueError(
                "predict-n and predict-e learn from node features, but data.x has none"
            )
        return sparse_where_sparse(divided_by_row_sums(x) if row_normalised else x)
    blocks = []
    for store in problem.data.node_stores:
        x = store.get("x")
        if isinstance(x, Tensor) and x.is_floating_point():
            blocks.append(sparse.csr_array(x.detach().cpu().reshape(len(x), -1).numpy()))
        else:
            blocks.append(sparse.eye_array(int(store.num_nodes or 0), format="csr"))
    joined = sparse.block_diag(blocks, format="csr")
    values = torch.from_numpy(joined.data).to(problem.dtype)
    ptr, column = (torch.from_numpy(part).long() for part in (joined.indptr, joined.indices))
    return csr_matrix(ptr, column, values, joined.shape[1]).to(problem.device)


def divided_by_row_sums(x: Tensor) -> Tensor:
    """Features `[N, F]` divided by their row's sum; rows that sum to 0 stay as they are.

    >>> divided_by_row_sums(torch.tensor([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    total = x.sum(dim=1, keepdim=True)
    return x / torch.where(total == 0, torch.ones_like(total), total)


def _normalised(problem: Problem, fitting: Fitting, dtype: torch.dtype) -> Tensor:
    """The normalised adjacency, sparse `[N, N]`, a row per receiver; with self-loops unless as published."""
    num_nodes, how = problem.num_nodes, fitting.normalisation
    if fitting.as_published:
        edges, weight = gcn_norm(
            _to_others(problem), None, num_nodes, add_self_loops=False, dtype=dtype
        )
    elif how == "symmetric":
        edges, weight = gcn_norm(message_edges(problem), None, num_nodes, dtype=dtype)
    elif how == "sender":
        edges, _ = add_remaining_self_loops(message_edges(problem), num_nodes=num_nodes)
        weight = 1 / degree(edges[0], num_nodes, dtype=dtype)[edges[0]]
    else:
        raise ValueError(f"normalisation is {how!r}; it must be 'symmetric' or 'sender'")
    return sparse_matrix(edges.flip(0), weight, num_nodes)


def _to_others(problem: Problem) -> Tensor:
    """Edges `[2, E]` from a node to another, which receives its messages."""
    edges = message_edges(problem)
    return edges[:, edges[0] != edges[1]]


def _predicted(
    problem: Problem, head: Head, width: int, how: Fitting, *, centred: bool
) -> Predicted:
    """Yield the scores of a GCN that `fit` trains on the labels, brought to a standard deviation of 1.

    Args:
        problem: The question.
        head: From the GCN's output to one value per node; see `fit`.
        width: Width of the GCN's output.
        how: Sizes and settings.
        centred: Whether the labels' mean is subtracted, too; as published it always is.
    """
    labels = problem.known_influence()
    known = labels[~labels.isnan()]
    spread = known.std(correction=0)
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))
    mean = known.mean() if centred or how.as_published else torch.zeros_like(spread)
    found, facts = fit(problem, head, width, (labels - mean) / spread, how)
    if how.as_published:  # cut at the mean
        scores = found.clamp(min=0) * spread + mean
    else:
        sends = torch.zeros(problem.num_nodes, dtype=torch.bool, device=found.device)
        sends[_to_others(problem)[0]] = True
        scores = (found * spread + mean).clamp(min=0)
        scores = torch.where(sends, scores, torch.zeros_like(scores))
    yield problem.nodes, scores[problem.nodes.to(scores.device)]
    return facts


@METHODS.register(
    "predict-n", "baseline: a GCN that regresses influence from labelled nodes", FACTS
)
def predict_n(  # noqa: PLR0913
    problem: Problem,
    *,
    lr: float = 1e-4,
    weight_decay: float = 0.0,
    epochs: int = 100,
    patience: int = 15,
    hidden: int = 64,
    layers: int = 3,
    dropout: float = 0.5,
    normalisation: Normalisation = "sender",
    seed: int = 0,
    as_published: bool = False,
) -> Predicted:
    """Scores by regression on the nodes.

    Args:
        problem: The question, with labels.
        lr: Adam's learning rate.
        weight_decay: Adam's weight decay.
        epochs: Most passes over the graph; the best on the labels held back is kept.
        patience: Stop when these have not improved for so many epochs.
        hidden: Width of the GCN.
        layers: Depth of the GCN.
        dropout: Dropout probability.
        normalisation: `sender` divides a node's messages by its number of receivers, so that hubs stand
            out; `symmetric` is GCN's own.
        seed: Seed of the weights and of which labels are held back.
        as_published: Do what the paper's scripts do; `patience` and `normalisation` do not count then.
    """
    how = Fitting(
        lr,
        weight_decay,
        epochs,
        patience,
        hidden,
        layers,
        dropout,
        normalisation,
        seed,
        as_published,
    )
    return _predicted(problem, lambda output: output.squeeze(-1), 1, how, centred=True)


@METHODS.register(
    "predict-e", "baseline: a GCN that regresses influence from a node's edges", FACTS
)
def predict_e(  # noqa: PLR0913
    problem: Problem,
    *,
    lr: float = 1e-3,
    weight_decay: float = 0.0,
    epochs: int = 100,
    patience: int = 15,
    hidden: int = 64,
    layers: int = 2,
    dropout: float = 0.0,
    normalisation: Normalisation = "symmetric",
    seed: int = 0,
    as_published: bool = False,
) -> Predicted:
    """Scores by source and target embeddings; the options are those of `predict-n`."""
    how = Fitting(
        lr,
        weight_decay,
        epochs,
        patience,
        hidden,
        layers,
        dropout,
        normalisation,
        seed,
        as_published,
    )
    edges = _to_others(problem)
    receivers = sparse_matrix(
        edges, torch.ones_like(edges[0], dtype=problem.known_influence().dtype), problem.num_nodes
    )

    def head(output: Tensor) -> Tensor:
        source, target = output.chunk(2, dim=-1)
        return (source * (receivers @ target)).sum(dim=-1)

    return _predicted(problem, head, 2 * hidden, how, centred=False)
