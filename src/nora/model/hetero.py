"""Questions about graphs with node and edge types (`HeteroData`), in global ids.

A model of such a graph returns one output per node type. Concatenated, with zeros for the
types that no prediction is made of, they are one output `[N, D]` like any other; pairs and targets are
moved to global ids. No later step needs the types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from nora.graph.node_index import NodeIndex, Nodes, node_index_of
from nora.graph.removal import check_in_range
from nora.model.task import NodeTask, Task
from nora.model.tasks.link_prediction import LinkPrediction

CallModel = Callable[[nn.Module, Any], Any]


@dataclass(frozen=True)
class HeteroForward:
    """Calls a model of a graph with node types; its output is one row per node, by global ids.

    Attributes:
        call: `(model, data) -> {node type: output}`, or the output of the only type wanted.
        wanted: The node types that predictions are made of, in the order of global ids.
    """

    call: CallModel
    wanted: tuple[str, ...]

    def __call__(self, model: nn.Module, data: HeteroData) -> Tensor:
        """Output `[N, D]`, zeros for types that are not wanted."""
        found = self.picked(self.call(model, data))
        like = next(iter(found.values()))
        widths = {kind: list(part.shape[1:]) for kind, part in found.items()}
        if len({str(width) for width in widths.values()}) > 1:
            raise ValueError(
                f"link prediction needs outputs of equal width for both node types, got {widths}"
            )
        index = node_index_of(data)
        rows = []
        for node_type, count in zip(index.types, index.counts, strict=True):
            part = found.get(node_type)
            if part is None:
                part = like.new_zeros(count, *like.shape[1:])
            elif part.shape[0] != count:
                raise ValueError(
                    f"the model returned {part.shape[0]} rows for the {count} nodes of type "
                    f"{node_type!r}: does it store one row per node itself? Keep these rows in data (or "
                    "ids in x, to look them up in forward), so that a removal deletes them too"
                )
            rows.append(part)
        return torch.cat(rows)

    def picked(self, output: Any) -> dict[str, Tensor]:
        """The wanted types' outputs."""
        if not isinstance(output, Mapping):
            if len(self.wanted) > 1:
                raise TypeError(
                    f"the model returned {type(output).__name__}, expected outputs by node type, "
                    f"{{{', '.join(map(repr, self.wanted))}}}"
                )
            return {self.wanted[0]: output}
        missing = [node_type for node_type in self.wanted if node_type not in output]
        if missing:
            raise ValueError(
                f"the model returned no output for node type {missing[0]!r}, but for "
                f"{', '.join(map(repr, output)) or 'none'}"
            )
        return {node_type: output[node_type] for node_type in self.wanted}


def hetero_forward(task: Task, index: NodeIndex, call: CallModel) -> HeteroForward:
    """The forward call that returns the task's output."""
    if isinstance(task, LinkPrediction):
        ends = end_types(task, index)
        return HeteroForward(call, tuple(t for t in index.types if t in ends))
    assert isinstance(task, NodeTask)
    remedy = f"{type(task).__name__}(node_type={{0!r}})"
    node_type = task.node_type or _only(index, remedy)[0]
    index.check_type(node_type)
    return HeteroForward(call, (node_type,))


def end_types(task: LinkPrediction, index: NodeIndex) -> tuple[str, str]:
    """The types of the sources and targets of a task's pairs."""
    ends = task.node_types or _only(index, "LinkPrediction(pairs, node_types=({0!r}, {0!r}))")
    for node_type in ends:
        index.check_type(node_type)
    return ends


def _only(index: NodeIndex, remedy: str) -> tuple[str, str]:
    if len(index.types) != 1:
        raise ValueError(
            f"the graph has nodes of the types {', '.join(index.types)}: name the one that is predicted, "
            f"e.g. task=nora.{remedy.format(index.types[0])}"
        )
    return index.types[0], index.types[0]


def with_global_ids(task: Task, index: NodeIndex) -> Task:
    """The task with its pairs moved from each type's own numbers to global ids."""
    if not isinstance(task, LinkPrediction):
        return task
    ends = task.node_types or (index.types[0], index.types[0])
    for row, node_type in zip(task.pairs, ends, strict=True):
        span = index.span(node_type)
        check_in_range(row, span.stop - span.start, "pairs name", f"type {node_type!r}")
    shift = torch.tensor([[index.starts[node_type]] for node_type in ends])
    return replace(task, pairs=task.pairs + shift.to(task.pairs.device), node_types=None)


def hetero_targets(task: Task, index: NodeIndex, wanted: tuple[str, ...], targets: Nodes) -> Tensor:
    """Positions of the target nodes by global ids; only nodes that are classified can be targets."""
    ids = index.ids(targets, "target node", wanted[0])
    outside = ~index.mask(wanted[0])[ids]
    if bool(outside.any()):
        found = index.located(ids[outside][:1])[0]
        raise ValueError(f"target {found} has no prediction: the task is about {wanted[0]!r}")
    return ids
