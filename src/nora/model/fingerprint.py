"""Digests of what a score depends on, so that results of different questions are never mixed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from nora import __version__
from nora.graph.node_index import node_index_of
from nora.model.content import content_digest, sparse_pieces, tensor_bytes
from nora.model.problem import Problem
from nora.model.task import Task

# Grows when the same question gets another fingerprint.
FORMAT = 2


def digest(parts: Iterable[Any]) -> str:
    """One short digest of tensors and of everything else as text."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            total.update(f"{part.dtype}{list(part.shape)}".encode())
            pieces = (part,) if part.layout == torch.strided else sparse_pieces(part)
            for piece in pieces:
                total.update(tensor_bytes(piece))
        else:
            total.update(str(part).encode())
        total.update(b"\0")
    return total.hexdigest()[:16]


def graph_fingerprint(data: Any) -> str:
    """Digest of every tensor of a PyG graph that is saved with a run."""
    items = [
        (f"{store._key}/{key}" if store._key is not None else key, value)
        for store in data.stores
        for key, value in store.items()
        if isinstance(value, Tensor)
    ]
    parts = [part for item in sorted(items, key=lambda item: item[0]) for part in item]
    # Scores are in the order of the types; nodes without features are only a number.
    index = node_index_of(data)
    if len(index.types) > 1 or any("x" not in store for store in data.node_stores):
        parts += [index.types, index.counts]
    return digest(parts)


def _task_facts(task: Task) -> dict[str, Any]:
    """A task's name and arguments, without derived values."""
    given = dict(vars(task))
    if is_dataclass(task):
        given = {one.name: getattr(task, one.name) for one in fields(task) if one.init}
    # Given or by default: the same return type.
    plain = {"return_type": str(given["return_type"])} if "return_type" in given else {}
    return {"name": task.name, **given, **plain}


def pieces_of(problem: Problem) -> dict[str, Any]:
    """The pieces that an answer depends on, by name, so that messages can name a changed one."""
    called = {"forward": problem.forward, "transform": problem.transform}
    return {
        "model": {"model": problem.model, **called},
        "graph": {"data": problem.data},
        "task": {
            "task": _task_facts(problem.task),
            "called": (problem.direct, problem.ends, problem.by_id),
        },
    }


def fingerprint(
    problem: Problem,
    method: str,
    options: Mapping[str, Any],
    key: str | None = None,
    graph: str | None = None,
) -> dict[str, Any]:
    """Everything a score depends on, in named parts, so that a mismatch can be named.

    Args:
        problem: The question.
        method: The method's name.
        options: Its options, without those that change only how the work is done.
        key: A name of the caller's own that stands for what cannot be read, e.g. an open file that
            a model holds.
        graph: The graph's digest, where it is known: reading a large one takes a while.

    Raises:
        UnknownContentError: When something cannot be read and there is no `key`.
    """

    def piece(**named: Any) -> str:
        return content_digest(named, key=key)

    pieces = pieces_of(problem)
    return {
        "version": __version__,
        "model": piece(**pieces["model"]),
        "graph": piece(**pieces["graph"]) if graph is None else graph,
        # A model that brings its own decoder is described already.
        "task": content_digest(pieces["task"], {id(problem.model): "the model"}, key),
        "targets": "all" if problem.targets is None else piece(targets=problem.targets),
        "labels": "none" if problem.labels is None else piece(labels=problem.labels),
        "method": method,
        "options": dict(options),
        "key": key,
    }
