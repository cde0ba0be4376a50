"""Digests of what a score depends on, so that results of different questions are never mixed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.transforms import BaseTransform

from nora import __version__
from nora.problem.calling import HeteroDecoder
from nora.problem.hetero import HeteroForward
from nora.problem.node_index import node_index_of
from nora.problem.problem import Problem
from nora.problem.tasks.link_prediction import LinkPrediction
from nora.problem.tasks.node_classification import NodeClassification


def digest(parts: Iterable[Any]) -> str:
    """One short digest of tensors and of everything else as text."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            tensor = part.detach().cpu()
            if tensor.layout != torch.strided:
                tensor = tensor.to_dense()
            total.update(f"{tensor.dtype}{list(tensor.shape)}".encode())
            total.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
        else:
            total.update(str(part).encode())
        total.update(b"\0")
    return total.hexdigest()[:16]


def graph_fingerprint(data: Any) -> str:
    """Digest of every tensor of a PyG graph."""
    items = [
        (f"{store._key}/{key}" if store._key is not None else key, value)
        for store in data.stores
        for key, value in store.items()
        if isinstance(value, Tensor)
    ]
    parts = [part for item in sorted(items, key=lambda item: item[0]) for part in item]
    if isinstance(data, HeteroData):
        # Scores are in the order of the types; nodes without features are only a number.
        index = node_index_of(data)
        if len(index.types) > 1 or any("x" not in store for store in data.node_stores):
            parts += [index.types, index.counts]
    return digest(parts)


def _module_parts(model: nn.Module) -> Iterator[Any]:
    """Weights, classes and plain settings: modules with equal weights may still compute otherwise."""
    for item in model.state_dict().items():
        yield from item
    for name, module in model.named_modules():
        yield name
        yield type(module).__qualname__
        settings = vars(module).items()
        yield sorted(
            (key, value)
            for key, value in settings
            if isinstance(value, bool | int | float | str) and key != "training"
        )


def _function_parts(function: Any) -> Iterator[Any]:
    """What a callable does, as far as it can be told: its code, constants and bound values."""
    if isinstance(function, nn.Module):
        yield from _module_parts(function)
        return
    if isinstance(function, HeteroForward):
        yield function.wanted
        yield from _function_parts(function.call)
        return
    if isinstance(function, HeteroDecoder):
        yield function.ends
        yield from _function_parts(function.decoder)
        return
    if isinstance(function, BaseTransform):
        yield type(function).__qualname__
        yield sorted(vars(function).items(), key=lambda item: item[0])
        return
    if isinstance(function, partial):
        yield from _function_parts(function.func)
        yield [function.args, sorted(function.keywords.items())]
        return
    code = getattr(function, "__code__", None)
    yield getattr(function, "__qualname__", type(function).__qualname__)
    if code is not None:
        yield code.co_code
        yield [c for c in code.co_consts if isinstance(c, bool | int | float | str | tuple | None)]
        for cell in getattr(function, "__closure__", None) or ():
            value = cell.cell_contents
            if isinstance(value, bool | int | float | str | tuple | list | Tensor):
                yield value


def fingerprint(problem: Problem, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a score depends on, piece by piece, so that a mismatch can be named.

    Args:
        problem: The question.
        method: The method's name.
        options: Its options, without those that change only how the work is done.
    """
    task = problem.task
    described: list[Any] = [task.name, getattr(task, "return_type", None)]
    if isinstance(task, LinkPrediction):
        described += [task.pairs, *_function_parts(task.decoder)]
        described += [] if task.relation is None else [task.relation]
    if isinstance(task, NodeClassification) and task.classes is not None:
        described += ["classes", task.classes]
    if isinstance(task, NodeClassification) and task.mode is not None:
        described += ["mode", task.mode]
    calls = [problem.forward] if problem.transform is None else [problem.forward, problem.transform]
    return {
        "version": __version__,
        "model": digest(
            [
                *_module_parts(problem.model),
                *(part for call in calls for part in _function_parts(call)),
            ]
        ),
        "graph": graph_fingerprint(problem.data),
        "task": digest(described),
        "targets": "all" if problem.targets is None else digest([problem.targets]),
        "labels": "none" if problem.labels is None else digest([problem.labels]),
        "method": method,
        "options": dict(options),
    }
