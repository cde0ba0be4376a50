"""One question, checked before any long work: a model, a graph, a task, the nodes to remove."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GAE

from nora.graph.edit_batch import EditBatch
from nora.graph.node_index import Graph, NodeIndex, Nodes, global_edges, node_index_of
from nora.graph.removal import isolate_nodes, kept, node_ids, remove_nodes
from nora.model.calling import (
    PAIRS,
    Forward,
    Transform,
    calling,
    decoder_modules,
    hetero_decoder,
    transformed,
)
from nora.model.edited import run_after
from nora.model.graph_checks import check_graph
from nora.model.hetero import (
    HeteroForward,
    end_types,
    hetero_forward,
    hetero_targets,
    with_global_ids,
)
from nora.model.known_influences import Labels, label_tensor
from nora.model.misfit import MISFIT, transform_failure
from nora.model.on_cpu import on_cpu
from nora.model.preserve import CheckedRemoval, ForwardPasses, evaluating
from nora.model.task import Task, item_change
from nora.model.tasks.link_prediction import LinkPrediction, dot_product
from nora.model.tasks.node_classification import NodeClassification

# A full pass over a graph of so many edges takes about a second or more.
LARGE_EDGES = 1_000_000


@dataclass(frozen=True)
class Problem:
    """The input of every method. `build_problem` makes and checks it.

    Attributes:
        model: The trained model.
        data: The graph `G`.
        task: What is predicted; its nodes are by global ids (see `nora.graph.node_index`).
        nodes: The nodes to remove, one at a time, `[n]`, sorted.
        targets: Mask `[items]` of the predictions that count, or None for all.
        forward: `(model, data) -> output`, one row per node; `run` calls it.
        transform: `data -> data`, applied to `G` and again to each `G−r` before the model sees it.
        direct: Whether the output is the scores of the task's pairs instead of rows of nodes.
        ends: The node types of the pairs of a direct model, where nodes have types.
        by_id: Whether the model has weights per node id: `G−r` then keeps all nodes and their ids,
            and `r` loses its edges. `check_model` finds out.
        original: The model's output on `G`, once `check_model` has computed it.
        labels: True influences `[N]` that are known, NaN elsewhere; None when none are.
        strict: Refuse structure that was computed beforehand, instead of warning of it.
        checked_removals: Removals of one node that checks have computed by the definition on their way.
        predictions: Predictions on `G` that were made, with the output and the task they are of.
    """

    model: nn.Module
    data: Graph
    task: Task
    nodes: Tensor
    targets: Tensor | None
    forward: Forward
    transform: Transform | None = None
    direct: bool = False
    ends: tuple[str, str] | None = None
    by_id: bool = False
    original: Tensor | None = None
    labels: Tensor | None = None
    strict: bool = False
    passes: ForwardPasses = field(default_factory=ForwardPasses, repr=False, compare=False)
    checked_removals: dict[int, CheckedRemoval] = field(
        default_factory=dict, repr=False, compare=False
    )
    predictions: deque[tuple[Tensor, Task, Tensor]] = field(
        default_factory=lambda: deque(maxlen=4), repr=False, compare=False
    )

    @property
    def num_nodes(self) -> int:
        """Number of nodes of `G`."""
        return int(self.data.num_nodes or 0)

    @cached_property
    def node_index(self) -> NodeIndex:
        """How the nodes of `G` are numbered."""
        return node_index_of(self.data)

    @cached_property
    def edge_index(self) -> Tensor:
        """The edges of `G` of all types, `[2, E]`, between nodes by global ids."""
        return global_edges(self.data, self.node_index)

    @property
    def is_large(self) -> bool:
        """Whether the model is checked on parts of the graph, in place of further passes over all of it.

        Not where it has weights by node id: it cannot be run on a part.
        """
        return self.edge_index.size(1) >= LARGE_EDGES and not self.by_id

    @property
    def device(self) -> torch.device:
        """The device of the graph."""
        return self.edge_index.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the node features; torch's default without features."""
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
        return evaluating(self.model, *decoder_modules(self.task))

    def run(self, data: Graph) -> Tensor:
        """The model's output on `data`: the one place where a forward pass happens.

        Each pass starts from the state in which the model was found, and leaves it and `data` so. A
        model that scores pairs itself finds them in `data.edge_label_index`: see `asked`.
        """
        return self.passes.run(self.call, self.model, data, *self.decoders)

    @property
    def decoders(self) -> Iterable[Any]:
        """The modules of the task's decoder."""
        return decoder_modules(self.task)

    def call(self, model: nn.Module, data: Graph) -> Any:
        """Call the model on `data`, after the transform if there is one; see `run`."""
        found = self.forward(model, self.seen(data))
        one_column = self.direct and isinstance(found, Tensor) and found.dim() == 2
        return found.squeeze(1) if one_column and found.size(1) == 1 else found

    def seen(self, data: Graph) -> Graph:
        """The graph after the transform, if there is one."""
        return data if self.transform is None else transformed(self.transform, data)

    def asked(self, data: Graph, task: Task) -> Graph:
        """`data` as the model gets it: with the task's pairs, where it scores them itself."""
        if not self.direct:
            return data
        assert isinstance(task, LinkPrediction)
        given, pairs = copy.copy(data), task.pairs
        if self.ends is not None:
            starts = node_index_of(data).starts
            pairs = pairs - pairs.new_tensor([[starts[kind]] for kind in self.ends])
        setattr(given, PAIRS, pairs)
        return given

    def items(self, data: Graph, task: Task) -> Tensor:
        """Predictions of `task`'s items on `data`, `[items]` or `[items, C]`."""
        return self.predicted(self.run(self.asked(data, task)), task)

    def predicted(self, output: Tensor, task: Task) -> Tensor:
        """Predictions of `task`'s items from the model's output."""
        if self.direct:
            assert isinstance(task, LinkPrediction)
            return task.from_scores(output)
        if isinstance(task, LinkPrediction) and task.decoder is not dot_product:
            with self.passes.state_kept(self.model, *decoder_modules(task)):
                return task.predict(output)
        return task.predict(output)

    def output(self) -> Tensor:
        """The model's output on `G`."""
        if self.original is not None:
            return self.original
        return self.run(self.asked(self.data, self.task))

    def predict(self) -> Tensor:
        """Predictions on `G`, `[items]` or `[items, C]`: made once for every task, not to be written to."""
        if self.original is None:
            return self.predicted(self.output(), self.task)
        for output, task, known in self.predictions:
            if output is self.original and task is self.task:
                return known
        found = self.predicted(self.original, self.task)
        if not found.requires_grad:
            self.predictions.append((self.original, self.task, found))
        return found

    def without(self, removed: Tensor) -> Graph:
        """`G − removed`: without these nodes, or with them isolated where weights are by node id."""
        return (isolate_nodes if self.by_id else remove_nodes)(self.data, removed)

    def predict_without(self, removed: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions on `G − removed`, straight from the definition.

        Returns:
            Predictions of the surviving items, and the mask `[items]` of those items.
        """
        keep = kept(removed.to(self.device), self.num_nodes)
        if not bool(keep.any()):
            return self.predict()[:0], self.task.survivors(keep)[1]
        passed = run_after(self, EditBatch.of(removed))
        return passed.predictions()[0], passed.survivors

    def wrong_rows(self, output: Tensor, task: Task, num_nodes: int) -> str:
        """The error if the number of rows does not fit this number of nodes; empty if it fits."""
        if output.size(0) == (task.num_items(num_nodes) if self.direct else num_nodes):
            return ""
        return f"on a graph of {num_nodes} nodes the model returned {output.size(0)} rows"

    def total_change(self, before: Tensor, after: Tensor, survivors: Tensor) -> Tensor:
        """`F`: the L1 change summed over the surviving items that count."""
        change = item_change(before[survivors], after)
        if self.targets is not None:
            change = change[self.targets[survivors]]
        return change.sum()


def uncompiled(model: Any) -> Any:
    """The model as it was written, where `torch.compile` has wrapped it."""
    return getattr(model, "_orig_mod", model) if isinstance(model, nn.Module) else model


def build_problem(
    model: nn.Module,
    data: Graph,
    task: Task | None = None,
    nodes: Nodes | None = None,
    targets: Nodes | None = None,
    forward: Forward | None = None,
    labels: Labels | None = None,
    transform: Transform | None = None,
    strict: bool = False,
) -> Problem:
    """Check the input and put it in one value; every error says what was wrong and what to do."""
    model = uncompiled(model)
    model, data, task = on_cpu(model, data, _checked_task(model, data, task, forward))
    if transform is not None and not callable(transform):
        raise TypeError(
            f"transform must be a function of the graph, got {type(transform).__name__}"
        )
    check_graph(data)
    index = node_index_of(data)
    device = global_edges(data, index).device
    if isinstance(task, LinkPrediction):
        if not task.pairs.size(1):
            raise ValueError("the task has no pairs: give the links that are predicted, [2, P]")
        task = task.to(device)
    try:
        seen = data if transform is None else transformed(transform, data.clone())
    except MISFIT as error:
        failure = transform_failure(error)
        if not failure:
            raise
        raise ValueError(f"{failure}. It must work on this graph") from error
    how, ends = calling(model, seen, task, forward), None
    call = how.call
    if isinstance(data, HeteroData):
        ends = end_types(task, index) if isinstance(task, LinkPrediction) else None
        call = call if how.direct else hetero_forward(task, index, call)
        task = with_global_ids(hetero_decoder(how.task, ends), index)
    else:
        kinds = getattr(task, "node_types", getattr(task, "node_type", None))
        if kinds is not None:
            raise ValueError(
                f"the task is about nodes of type {kinds!r}, but data has no node types"
            )
        task = how.task
    counted = _counted(task, index, targets, call)
    return Problem(
        model=model,
        data=data,
        task=task,
        nodes=torch.arange(index.total) if nodes is None else index.ids(nodes),
        targets=None if counted is None else counted.to(device),
        forward=call,
        transform=transform,
        direct=how.direct,
        ends=ends if how.direct else None,
        labels=None if labels is None else label_tensor(labels, index),
        strict=strict,
    )


def _checked_task(model: Any, data: Any, task: Any, forward: Forward | None) -> Task:
    """The task, by default node classification; raises unless model, data and task are of their types."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(data, Data | HeteroData):
        one = ": features and edges go together, torch_geometric.data.Data(x=x, edge_index=edge_index)"
        raise TypeError(
            f"data must be a torch_geometric.data.Data or HeteroData, got {type(data).__name__}"
            + (one if isinstance(data, Tensor) else "")
        )
    if task is None and forward is None and isinstance(model, GAE):
        raise ValueError(
            f"{type(model).__name__} predicts links: pass task=nora.LinkPrediction(pairs); to ask about what "
            "it encodes of nodes, task=nora.NodeRegression()"
        )
    task = NodeClassification() if task is None else task
    if not isinstance(task, Task):
        raise TypeError(
            "task must be a NodeClassification, a NodeRegression or a LinkPrediction, got "
            f"{type(task).__name__}; e.g. task=nora.LinkPrediction(pairs)"
        )
    return task


def _counted(
    task: Task, index: NodeIndex, targets: Nodes | None, forward: Forward
) -> Tensor | None:
    """Mask `[items]` of the predictions that count; None for all."""
    num_items = task.num_items(index.total)
    wanted = forward.wanted if isinstance(forward, HeteroForward) and task.item == "node" else ()
    if targets is None:
        # Rows of other types are not predictions.
        return index.mask(wanted[0]) if wanted and len(index.types) > 1 else None
    if wanted:
        ids = hetero_targets(task, index, wanted, targets)
    else:
        owner = "graph" if task.item == "node" else "task"
        ids = node_ids(targets, num_items, f"target {task.item}", owner)
    if ids.numel() == 0:
        raise ValueError("targets is empty: name at least one target, or leave it out for all")
    mask = torch.zeros(num_items, dtype=torch.bool)
    mask[ids] = True
    return mask
