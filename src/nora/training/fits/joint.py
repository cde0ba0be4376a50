"""Joint training of TIMME: parties and the links of all relations, from one embedding.

    loss = cross-entropy of the training users' parties
         + Σ_r mean binary cross-entropy over relation r's training links and non-links
         + 0.01 · mean of the squared embedding

Relations count the same, however many links they have. The non-links are the split's, the same in every
epoch, so that what is trained on and what is asked about later are the same pairs. Training stops
when the mean of validation accuracy (or balanced accuracy) and validation AUC (itself a mean over
relations) has not improved for `patience` epochs, and keeps the best epoch. What the model is trained
for does not depend on whether it is asked about parties or links later: both tasks get the same weights.
"""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import HeteroData

from nora.models.timme import TIMME, both_ways
from nora.training.auc import roc_auc
from nora.training.fits import FITS, FitFacts, Settings
from nora.training.fits.plain import cross_entropy, descend
from nora.training.recall import balanced_accuracy
from nora.training.relational_splits import RelationalSplit

EMBEDDING_PENALTY = 0.01


@FITS.register(
    "joint", "parties and the links of all relations together", FitFacts(models=(TIMME,))
)
def fit_jointly(
    network: TIMME, data: HeteroData, split: RelationalSplit, settings: Settings
) -> dict[str, float]:
    """Fit `network` in place on one split, with early stopping.

    Returns:
        Epochs; accuracy of the parties and AUC of the links (mean over relations) in each part; and
        each relation's own AUC in the test part.
    """
    edges = {
        kind: both_ways(edge_index, data["user"].num_nodes)
        for kind, edge_index in data.edge_index_dict.items()
    }

    def loss() -> Tensor:
        embedding = network.embed(data.x_dict, edges)
        return _loss(network, embedding, data["user"].y, split, settings.balanced)

    def validated() -> tuple[float, str]:
        accuracy, balanced, aucs = _quality(network, data, edges, split, "val")
        value = _mean([balanced if settings.balanced else accuracy, _mean(aucs)])
        return value, f"validation accuracy {accuracy:.3f}, auc {_mean(aucs):.3f}"

    metrics = descend(network, replace(settings, selection="eval"), loss, validated)
    del metrics["still_improving"]
    for part in ("train", "val", "test"):
        accuracy, balanced, aucs = _quality(network, data, edges, split, part)
        metrics |= {f"{part}_accuracy": accuracy, f"{part}_balanced_accuracy": balanced}
        metrics[f"{part}_auc"] = _mean(aucs)
    own = dict(zip(network.relations, aucs, strict=True))
    return metrics | {f"test_auc_{relation}": auc for relation, auc in own.items()}


def _loss(
    network: TIMME, embedding: Tensor, y: Tensor, split: RelationalSplit, balanced: bool = False
) -> Tensor:
    known = split.nodes.train
    party = cross_entropy(network.party(embedding)[known], y[known], balanced)
    score = network.decoder(embedding, split.train, split.train_relation)
    each = F.binary_cross_entropy_with_logits(score, split.train_labels, reduction="none")
    count = split.train_relation.bincount(minlength=len(network.relations))
    links = (each / count[split.train_relation]).sum()
    return party + links + EMBEDDING_PENALTY * embedding.pow(2).mean()


@torch.no_grad()
def _quality(
    network: TIMME, data: HeteroData, edges: dict, split: RelationalSplit, part: str
) -> tuple[float, float, list[float]]:
    """Accuracy and balanced accuracy of the parties, and each relation's AUC."""
    network.eval()
    embedding = network.embed(data.x_dict, edges)
    known = getattr(split.nodes, part)
    predicted, labels = network.party(embedding)[known].argmax(dim=-1), data["user"].y[known]
    relation, linked = getattr(split, f"{part}_relation"), getattr(split, f"{part}_labels")
    score = network.decoder(embedding, getattr(split, part), relation)
    own = [relation == number for number in range(len(network.relations))]
    aucs = [roc_auc(score[mine], linked[mine]) for mine in own]
    right = (predicted == labels).float().mean()
    return float(right), balanced_accuracy(predicted, labels), aucs


def _mean(values: list[float]) -> float:
    """The mean of what could be measured: a small part may hold no user or link of some kind."""
    found = [value for value in values if not isnan(value)]
    return sum(found) / len(found) if found else float("nan")
