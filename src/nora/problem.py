"""One question, checked before any long work: a model, a graph, a task, whom to remove."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from nora.guard import evaluating
from nora.labels import Labels, label_tensor
from nora.removal import kept, node_ids, remove_nodes
from nora.task import LinkPrediction, NodeClassification, Task, item_change

Forward = Callable[[nn.Module, Data], Tensor]
Nodes = Iterable[int] | Tensor


@dataclass(frozen=True)
class Problem:
    """What every method receives. Made by `pose`, which checks it.

    Attributes:
        model: The trained model.
        data: The graph `G`.
        task: What is predicted.
        nodes: The nodes to remove, one at a time, `[n]`, sorted.
        targets: Mask `[items]` of the predictions that count, or None for all.
        forward: `(model, data) -> output`.
        original: The model's output on `G`, once `check_model` has computed it.
        labels: True influences `[N]` that are known, NaN elsewhere; None when none are.
        prepared: An engine that choosing a method has prepared already.
    """

    model: nn.Module
    data: Data
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

    def known_influence(self) -> Tensor:
        """The labels, on the graph's device and in the default precision of its features."""
        if self.labels is None:
            raise ValueError(
                "this method learns from the true influence of some nodes: pass "
                "labels=(ids, influences), e.g. labels=nora.influence(model, data, nodes=sample)"
            )
        x = self.data.x
        floating = isinstance(x, Tensor) and x.is_floating_point()
        dtype = x.dtype if floating else torch.get_default_dtype()
        return self.labels.to(self.data.edge_index.device, dtype)

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
        device = self.data.edge_index.device
        keep = kept(removed.to(device), self.num_nodes)
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
    data: Data,
    task: Task | None = None,
    nodes: Nodes | None = None,
    targets: Nodes | None = None,
    forward: Forward | None = None,
    labels: Labels | None = None,
) -> Problem:
    """Check the input and put it in one value; every error says what was wrong and what to do."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(data, Data):
        raise TypeError(f"data must be a torch_geometric.data.Data, got {type(data).__name__}")
    task = NodeClassification() if task is None else task
    if not isinstance(task, NodeClassification | LinkPrediction):
        raise TypeError(
            "task must be a NodeClassification or a LinkPrediction, got "
            f"{type(task).__name__}; e.g. task=nora.LinkPrediction(pairs)"
        )
    _check_graph(data)
    if isinstance(task, LinkPrediction):
        task = replace(task, pairs=task.pairs.to(data.edge_index.device))
    num_nodes = int(data.num_nodes or 0)
    mask: Tensor | None = None
    if targets is not None:
        num_items = task.num_items(num_nodes)
        owner = "graph" if task.item == "node" else "task"
        ids = node_ids(targets, num_items, f"target {task.item}", owner)
        if ids.numel() == 0:
            raise ValueError("targets is empty: name at least one target, or leave it out for all")
        mask = torch.zeros(num_items, dtype=torch.bool, device=data.edge_index.device)
        mask[ids.to(mask.device)] = True
    every = torch.arange(num_nodes)
    return Problem(
        model=model,
        data=data,
        task=task,
        nodes=every if nodes is None else node_ids(nodes, num_nodes),
        targets=mask,
        forward=default_forward(model, data) if forward is None else forward,
        labels=None if labels is None else label_tensor(labels, num_nodes),
    )


def _check_graph(data: Data) -> None:
    edge_index = data.edge_index
    if edge_index is None:
        raise ValueError("data has no edge_index; a graph needs one of shape [2, num_edges]")
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(
            f"edge_index must have shape [2, num_edges], got {list(getattr(edge_index, 'shape', []))}"
        )
    if edge_index.dtype != torch.long:
        raise TypeError(
            f"edge_index must hold torch.long node ids, got {edge_index.dtype}; "
            "use edge_index.long()"
        )
    num_nodes = int(data.num_nodes or 0)
    if num_nodes == 0:
        raise ValueError("the graph is empty: it has no nodes")
    if edge_index.numel():
        low, high = int(edge_index.min()), int(edge_index.max())
        if low < 0 or high >= num_nodes:
            raise ValueError(
                f"edge_index names node {low if low < 0 else high}: the graph has {num_nodes} "
                f"nodes (0 … {num_nodes - 1})"
            )
    x = data.x
    if not isinstance(x, Tensor):
        return
    if x.layout != torch.strided:
        raise TypeError(f"x is a sparse tensor ({x.layout}); pass data with x.to_dense()")
    if x.size(0) != num_nodes:
        raise ValueError(f"x has {x.size(0)} rows but the graph has {num_nodes} nodes")
    # The sum is finite unless an entry is not: no mask of the size of x is needed.
    if x.is_floating_point() and not bool(x.sum().isfinite()):
        bad = (~x.isfinite()).flatten(1).any(dim=1).nonzero()
        if bad.numel():
            raise ValueError(
                f"x holds NaN or infinite values (first at node {int(bad[0])}); fill or drop them first"
            )


def default_forward(model: nn.Module, data: Data) -> Forward:
    """PyG's calling convention: `model(x, edge_index)`, with `edge_weight` / `edge_attr` added
    where the data has them and the model's `forward` names them."""
    if data.x is None:
        raise ValueError(
            "data has no node features x; add them, or pass forward=lambda model, data: … that "
            "says how to call the model"
        )
    named = inspect.signature(model.forward).parameters
    extra = tuple(
        key for key in ("edge_weight", "edge_attr") if key in named and data.get(key) is not None
    )

    def forward(model: nn.Module, data: Data) -> Tensor:
        return model(data.x, data.edge_index, **{key: getattr(data, key) for key in extra})

    return forward


def check_model(problem: Problem) -> Problem:
    """Run the model twice: it must accept the graph, fit the task, and be deterministic.

    Returns:
        The problem, with the output it has now been seen to have.
    """
    with problem.evaluating(), torch.no_grad():
        try:
            first = problem.output()
        except (RuntimeError, IndexError, ValueError, TypeError, AttributeError) as error:
            x = problem.data.x
            shape = list(x.shape) if isinstance(x, Tensor) else None
            raise ValueError(
                f"the model {type(problem.model).__name__} could not be run on this graph: "
                f"{error}. x has shape {shape}: was the model built for that many features? If it "
                "takes other arguments than (x, edge_index), pass forward=lambda model, data: …"
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
    return replace(problem, original=first)
