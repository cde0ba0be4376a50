"""The tensors that a traced pass is given, by name."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from nora.graph.node_index import Graph
from nora.model import Problem
from nora.model.tasks.link_prediction import LinkPrediction, dot_product

PAIRS, RELATION = "the pairs", "the relation of each pair"


def tensors_of(data: Graph) -> dict[str, Tensor]:
    """Every tensor of a graph, by a name of its own."""
    found = {}
    for store in data.stores:
        for key, value in sorted(store.items()):
            if isinstance(value, Tensor):
                found[f"{getattr(store, '_key', None)}/{key}"] = value
    return found


def with_own_memory(data: Graph) -> Graph:
    """A graph whose tensors share no memory with each other, as those of its parts do not.

    Two edge types may have one `edge_index` tensor between them; without a node they have two.
    """
    new, seen = data, set[int]()
    for place, store in enumerate(data.stores):
        for key, value in sorted(store.items()):
            if not isinstance(value, Tensor) or value.layout != torch.strided or not value.numel():
                continue
            memory = value.untyped_storage().data_ptr()
            if memory in seen:
                new = copy.copy(data) if new is data else new
                new.stores[place][key] = value.clone()
            seen.add(memory)
    return new


def decodes(problem: Problem) -> bool:
    """Whether the program ends in the scores of pairs; else it ends in the model's own output."""
    return isinstance(problem.task, LinkPrediction) and (
        problem.direct or problem.task.decoder is not dot_product
    )
