"""One question, checked before any long work: a model, a graph, a task, whom to remove."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric.data import Data, HeteroData

from nora.guard import evaluating
from nora.labels import Labels, label_tensor
from nora.numbering import Graph, Nodes, Numbering, line_edges, numbering_of
from nora.removal import kept, node_ids, remove_nodes
from nora.task import LinkPrediction, NodeClassification, Task, item_change
from nora.typed import (
    TypedForward,
    check_edges,
    check_features,
    check_follows,
    check_typed_graph,
    default_call,
    on_the_line,
    typed_forward,
    typed_targets,
)

Forward = Callable[[nn.Module, Any], Any]


@dataclass(frozen=True)
class Problem:
    """What every method receives. Made by `pose`, which checks it.

    Attributes:
        model: The trained model.
        data: The graph `G`.
        task: What is predicted; its nodes are on the line of all nodes (see `nora.numbering`).
        nodes: The nodes to remove, one at a time, `[n]`, sorted.
        targets: Mask `[items]` of the predictions that count, or None for all.
        forward: `(model, data) -> output`, one row per node.
        original: The model's output on `G`, once `check_model` has computed it.
        labels: True influences `[N]` that are known, NaN elsewhere; None when none are.
        prepared: An engine that choosing a method has prepared already.
    """

    model: nn.Module
    data: Graph
    task: Task
    nodes: Tensor
    targets: Tensor | None
    forward: Forward
    original: Tensor | None = None
    labels: Tensor | None = None
    prepared: Any = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes of `G`."""
        return int(self.data.num_nodes or 0)

    @cached_property
    def numbering(self) -> Numbering:
        """How the nodes of `G` are numbered."""
        return numbering_of(self.data)

    @cached_property
    def edge_index(self) -> Tensor:
        """The edges of `G` of all types, `[2, E]`, between nodes on the line."""
        return line_edges(self.data, self.numbering)

    @property
    def device(self) -> torch.device:
        """Where the graph is."""
        return self.edge_index.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the node features; torch's default where there are none."""
        features = [store.get("x") for store in self.data.node_stores]
        floating = [x.dtype for x in features if isinstance(x, Tensor) and x.is_floating_point()]
        return floating[0] if floating else torch.get_default_dtype()

    def known_influence(self) -> Tensor:
        """The labels, on the graph's device and in the precision of its features."""
        if self.labels is None:
            raise ValueError(
                "this method learns from the true influence of some nodes: pass "
                "labels=(ids, influences), e.g. labels=nora.influence(model, data, nodes=sample)"
            )
        return self.labels.to(self.device, self.dtype)

    def evaluating(self) -> AbstractContextManager[None]:
        """The model, and the decoder where it is a module, in eval mode; restored on leaving."""
        return evaluating(self.model, getattr(self.task, "decoder", None))

    def output(self) -> Tensor:
        """The model's output on `G`."""
        if self.original is not None:
            return self.original
        return self.forward(self.model, self.data)

    def predict(self) -> Tensor:
        """Predictions on `G`, `[items]` or `[items, C]`."""
        return self.task.predict(self.output())

    def predict_without(self, removed: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions on `G − removed`, straight from the definition.

        Returns:
            Predictions of the surviving items, and the mask `[items]` of those items.
        """
        keep = kept(removed.to(self.device), self.num_nodes)
        task, survivors = self.task.survivors(keep)
        if not bool(keep.any()):
            return self.predict()[:0], survivors
        output = self.forward(self.model, remove_nodes(self.data, removed))
        if output.size(0) != int(keep.sum()):
            raise ValueError(
                f"on a graph of {int(keep.sum())} nodes the model returned {output.size(0)} rows: does it "
                "hold rows of its own for the nodes? Keep them in the data (e.g. data.x or data.n_id) "
                "and look them up in forward, so that they go with a removed node"
            )
        return task.predict(output), survivors

    def total_change(self, before: Tensor, after: Tensor, survivors: Tensor) -> Tensor:
        """`F`: the L1 change summed over the surviving items that count."""
        change = item_change(before[survivors], after)
        if self.targets is not None:
            change = change[self.targets[survivors]]
        return change.sum()


def pose(
    model: nn.Module,
    data: Graph,
    task: Task | None = None,
    nodes: Nodes | None = None,
    targets: Nodes | None = None,
    forward: Forward | None = None,
    labels: Labels | None = None,
) -> Problem:
    """Check the input and put it in one value; every error says what was wrong and what to do."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(data, Data | HeteroData):
        raise TypeError(
            "data must be a torch_geometric.data.Data or HeteroData, got " + type(data).__name__
        )
    task = NodeClassification() if task is None else task
    if not isinstance(task, NodeClassification | LinkPrediction):
        raise TypeError(
            "task must be a NodeClassification or a LinkPrediction, got "
            f"{type(task).__name__}; e.g. task=nora.LinkPrediction(pairs)"
        )
    _check_graph(data)
    line = numbering_of(data)
    device = line_edges(data, line).device
    if isinstance(task, LinkPrediction):
        relation = None if task.relation is None else task.relation.to(device)
        task = replace(task, pairs=task.pairs.to(device), relation=relation)
    if isinstance(data, HeteroData):
        call = default_call(model, data) if forward is None else forward
        forward = typed_forward(task, line, call)
        task = on_the_line(task, line)
    else:
        kinds = task.node_types if isinstance(task, LinkPrediction) else task.node_type
        if kinds is not None:
            raise ValueError(
                f"the task is about nodes of type {kinds!r}, but data has no node types"
            )
        forward = default_forward(model, data) if forward is None else forward
    counted = _counted(task, line, targets, forward)
    return Problem(
        model=model,
        data=data,
        task=task,
        nodes=torch.arange(line.total) if nodes is None else line.ids(nodes),
        targets=None if counted is None else counted.to(device),
        forward=forward,
        labels=None if labels is None else label_tensor(labels, line),
    )


def _counted(task: Task, line: Numbering, targets: Nodes | None, forward: Forward) -> Tensor | None:
    """Mask `[items]` of the predictions that count; None for all."""
    num_items = task.num_items(line.total)
    wanted = forward.wanted if isinstance(forward, TypedForward) and task.item == "node" else ()
    if targets is None:
        # What is said of other types is no prediction.
        return line.mask(wanted[0]) if wanted and len(line.types) > 1 else None
    if wanted:
        ids = typed_targets(task, line, wanted, targets)
    else:
        owner = "graph" if task.item == "node" else "task"
        ids = node_ids(targets, num_items, f"target {task.item}", owner)
    if ids.numel() == 0:
        raise ValueError("targets is empty: name at least one target, or leave it out for all")
    mask = torch.zeros(num_items, dtype=torch.bool)
    mask[ids] = True
    return mask


def _check_graph(data: Graph) -> None:
    if isinstance(data, HeteroData):
        check_typed_graph(data)
    if int(data.num_nodes or 0) == 0:
        raise ValueError("the graph is empty: it has no nodes")
    if isinstance(data, HeteroData):
        return
    if data.edge_index is None:
        raise ValueError("data has no edge_index; a graph needs one of shape [2, num_edges]")
    num_nodes = int(data.num_nodes or 0)
    check_edges(data.edge_index, num_nodes, num_nodes)
    check_features(data.x, num_nodes)


def default_forward(model: nn.Module, data: Data) -> Forward:
    """PyG's calling convention: `model(x, edge_index)`, with `edge_weight`, `edge_attr` and
    `edge_type` added where the data has them and the model's `forward` names them."""
    if data.x is None:
        raise ValueError(
            "data has no node features x; add them, or pass forward=lambda model, data: … that "
            "says how to call the model"
        )
    named = inspect.signature(model.forward).parameters
    extra = tuple(
        key
        for key in ("edge_weight", "edge_attr", "edge_type")
        if key in named and data.get(key) is not None
    )

    def forward(model: nn.Module, data: Data) -> Tensor:
        return model(data.x, data.edge_index, **{key: getattr(data, key) for key in extra})

    return forward


def _told(error: Exception) -> str:
    """An error in words; Python shows a missing key without saying that it is missing."""
    return f"there is no {error}" if isinstance(error, KeyError) else str(error)


def _shapes(data: Graph) -> str:
    """The shape of the node features, in words."""
    if isinstance(data, Data):
        x = data.x
        return f"x has shape {list(x.shape) if isinstance(x, Tensor) else None}"
    found = {
        store._key: list(store.x.shape) if isinstance(store.get("x"), Tensor) else None
        for store in data.node_stores
    }
    return f"x has shapes {found}"


def check_model(problem: Problem) -> Problem:
    """Run the model twice: it must accept the graph, fit the task, and be deterministic.

    Returns:
        The problem, with the output it has now been seen to have.
    """
    if any(isinstance(p, UninitializedParameter) for p in problem.model.parameters()):
        raise ValueError(
            f"the model {type(problem.model).__name__} has layers that have not seen data yet (in_channels "
            "-1): run it once, and train it, before asking"
        )
    with problem.evaluating(), torch.no_grad():
        try:
            first = problem.output()
        except (RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:
            usual = (
                "(x, edge_index)" if isinstance(problem.data, Data) else "(x_dict, edge_index_dict)"
            )
            raise ValueError(
                f"the model {type(problem.model).__name__} could not be run on this graph: "
                f"{_told(error)}. {_shapes(problem.data)}: was the model built for that many features? If "
                f"it takes other arguments than {usual}, pass forward=lambda model, data: …"
            ) from error
        if not isinstance(first, Tensor):
            raise TypeError(
                f"the model returned {type(first).__name__}, expected one tensor; pass "
                "forward=lambda model, data: … that picks it"
            )
        problem.task.check(first, problem.num_nodes)
        again = problem.predict()
        difference = (problem.task.predict(first) - again).abs()
        # Scatter on several threads may add in another order: allow rounding, nothing more.
        if difference.numel() and float(difference.max()) > 1e-4:
            raise ValueError(
                f"the model {type(problem.model).__name__} is not deterministic in eval mode: two "
                f"passes over the same graph differ by {float(difference.max()):.3g}. Is dropout called with "
                "training=True, or a random state drawn in forward?"
            )
        if isinstance(problem.data, HeteroData):
            check_follows(problem.forward, problem.model, problem.data, first)
    return replace(problem, original=first)
