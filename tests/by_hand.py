"""The definition by hand: cut the graph, run the model, compare. The one oracle of all tests.

Nothing of the product is used here, and nothing is shared between two passes of an `Oracle`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import MessagePassing

Removed = Sequence[Any]
Call = Callable[[nn.Module, Any], Any]
Predict = Callable[[Tensor], Tensor]
Edges = Iterable[tuple[int, int]]


# Graphs


def without(data: Data, nodes: Iterable[int], edges: Edges = ()) -> tuple[Data, Tensor]:
    """The graph without these nodes and directed edges, and the mask of the nodes that stay.

    Tensors named `edge_…` have a row per edge (`edge_…2`: of `edge_index2`), others of `N` rows one per node.
    """
    n, gone = data.num_nodes, set(edges)
    stays = torch.ones(n, dtype=torch.bool)
    stays[list(nodes)] = False
    new, alive, left = stays.long().cumsum(0) - 1, {}, Data()
    for end in ("", "2"):
        if (key := f"edge_index{end}") in data:
            alive[end] = stays[data[key]].all(dim=0)
            if gone:
                cut = [tuple(pair) in gone for pair in data[key].t().tolist()]
                alive[end] &= ~torch.tensor(cut, dtype=torch.bool)
            left[key] = new[data[key][:, alive[end]]]
    for key, value in data.items():
        rows = value.size(0) if isinstance(value, Tensor) and value.dim() else None
        of_edges = alive.get("2" if key.endswith("2") else "", stays)
        if key in left:  # the edges themselves
            continue
        if key.startswith("edge_") and rows == len(of_edges):
            left[key] = value[of_edges].clone()
        else:
            left[key] = value[stays].clone() if rows == n else value
    left.num_nodes = int(stays.sum())
    return left, stays


def without_typed(data: HeteroData, removed: Removed) -> tuple[HeteroData, dict[str, Tensor]]:
    """The same with several node types; `removed` are pairs `(type, id)`."""
    stays = {t: torch.ones(data[t].num_nodes, dtype=torch.bool) for t in data.node_types}
    for kind, node in removed:
        stays[kind][node] = False
    place = {t: mask.long().cumsum(0) - 1 for t, mask in stays.items()}
    left = HeteroData()
    for kind, mask in stays.items():
        for key, value in data[kind].items():
            left[kind][key] = int(mask.sum()) if key == "num_nodes" else value[mask].clone()
    for kind in data.edge_types:
        source, target = data[kind].edge_index
        alive = stays[kind[0]][source] & stays[kind[2]][target]
        for key, value in data[kind].items():
            if key != "edge_index":
                left[kind][key] = value[alive].clone()
        ends = [place[kind[0]][source[alive]], place[kind[2]][target[alive]]]
        left[kind].edge_index = torch.stack(ends)
    return left, stays


# Models that are called as `model(x, edge_index)`


def plain(model: nn.Module, data: Data) -> Tensor:
    """`model(x, edge_index)`, with the edges' weights, features and types where it asks for them."""
    asked = inspect.signature(model.forward).parameters
    every = any(one.kind is one.VAR_KEYWORD for one in asked.values())
    keys = ("edge_weight", "edge_attr", "edge_type")
    extra = {key: data[key] for key in keys if key in data and (every or key in asked)}
    return model(data.x, data.edge_index, **extra)


@torch.no_grad()
def outputs(
    model: nn.Module, data: Data, nodes: Iterable[int] = (), edges: Edges = ()
) -> dict[int, Tensor]:
    """The model's output row of every remaining node."""
    part, stays = without(data, nodes, edges)
    left = stays.nonzero().flatten().tolist()
    return dict(zip(left, plain(model, part), strict=True)) if left else {}


def predictions(task: Any, rows: dict[int, Tensor]) -> dict[int, Tensor]:
    """What is predicted from these output rows, by item: of a task with `pairs` links, else classes."""
    if not hasattr(task, "pairs"):
        some = getattr(task, "classes", None)
        counted = slice(None) if some is None else list(some)
        return {node: row.softmax(dim=-1)[counted] for node, row in rows.items()}
    return {
        at: torch.stack([(rows[i] * rows[j]).sum().sigmoid()])
        for at, (i, j) in enumerate(task.pairs.t().tolist())
        if i in rows and j in rows
    }


def changes(
    model: nn.Module,
    data: Data,
    nodes: Iterable[int] = (),
    edges: Edges = (),
    task: Any = None,
) -> dict[int, float]:
    """The L1 change of every item that survives."""
    before = predictions(task, outputs(model, data))
    after = predictions(task, outputs(model, data, nodes, edges))
    return {item: float((before[item] - after[item]).abs().sum()) for item in after}


def total(model: nn.Module, data: Data, nodes: Iterable[int], task: Any = None) -> float:
    """`F(nodes)`."""
    return sum(changes(model, data, nodes, task=task).values())


# Any call


def classes(output: Tensor) -> Tensor:
    """What a node classifier's output predicts."""
    return output.softmax(dim=-1)


@torch.no_grad()
def influence(
    model: nn.Module,
    data: Data,
    nodes: Iterable[Any],
    call: Call = plain,
    predict: Predict = classes,
) -> Tensor:
    """`F` of each of these nodes, or groups of nodes."""
    model.eval()
    before = predict(call(model, data.clone()))
    found = []
    for node in nodes:
        part, stays = without(data, [node] if isinstance(node, int) else node)
        after = predict(call(model, part)) if bool(stays.any()) else before[stays]
        found.append((before[stays] - after).abs().sum())
    return torch.stack(found)


@torch.no_grad()
def link_influence(
    data: Data, pairs: Tensor, nodes: Iterable[int], score: Callable[[Data, Tensor], Tensor]
) -> Tensor:
    """`F` of each node over links; `score(data, pairs)` are probabilities."""
    before = score(data.clone(), pairs)
    found = []
    for node in nodes:
        part, stays = without(data, [node])
        counted = (pairs != node).all(dim=0)
        after = score(part, (stays.long().cumsum(0) - 1)[pairs[:, counted]])
        found.append((before[counted] - after).abs().sum())
    return torch.stack(found)


@torch.no_grad()
def typed_influence(
    model: nn.Module, data: HeteroData, target: str, kind: str, call: Any
) -> Tensor:
    """`F` of each node of a type on the classes of another."""
    model.eval()
    before = call(model, data).softmax(dim=-1)
    found = []
    for node in range(data[kind].num_nodes):
        part, stays = without_typed(data, [(kind, node)])
        after = call(model, part).softmax(dim=-1)
        found.append((before[stays[target]] - after).abs().sum())
    return torch.stack(found)


# Any model, call and task, at random


def fresh(model: nn.Module, light: bool = False) -> nn.Module:
    """A copy of a model that shares nothing with it but what PyG knows of its layers' signatures.

    Args:
        model: The model.
        light: Share empty tables of hooks too, most of a copy's cost; for passes that make none.
    """
    shared = [m.inspector for m in model.modules() if isinstance(m, MessagePassing)]
    if light:
        tables = (
            value for m in model.modules() for key, value in vars(m).items() if "hooks" in key
        )
        shared += [table for table in tables if not table]
    return copy.deepcopy(model, {id(one): one for one in shared})


@dataclass
class Oracle:
    """A question, and its answers by the definition.

    Attributes:
        model: The model; never run itself, only copies of it.
        data: The graph; never given away, only copies of it.
        call: `(model, data) -> output`.
        pairs: Node pairs `[2, P]` of a link task; None for a node task.
        decoder: `(z, pairs) -> scores [P]` of a link task; the dot product by default.
        return_type: What the model (or the decoder) returns: `raw`, `probs` or `log_probs`.
        mode: `multilabel`: every column by itself. `binary`: one number per node. Else one class of
            several.
        classes: The classes that count; None for all.
        targets: The items that count; None for all.
        kinds: The node type that is classified, or the types of both ends of a pair.
    """

    model: nn.Module
    data: Data | HeteroData
    call: Call
    pairs: Tensor | None = None
    decoder: Callable[..., Tensor] | None = None
    return_type: str = "raw"
    mode: str | None = None
    classes: Sequence[int] | None = None
    targets: Sequence[int] | None = None
    kinds: tuple[str, ...] = ()
    _before: Any = field(default=None, repr=False)

    @torch.no_grad()
    def output(self, data: Data | HeteroData) -> Any:
        """What a fresh copy of the model says of a copy of this graph."""
        found = self.call(fresh(self.model, light=True).eval(), copy.deepcopy(data))
        if self.kinds and isinstance(found, Tensor):
            found = {self.kinds[0]: found}
        return found

    def before(self) -> Any:
        """The output on the whole graph."""
        if self._before is None:
            self._before = self.output(self.data)
        return self._before

    def items(self) -> int:
        """How many predictions there are."""
        if self.pairs is not None:
            return self.pairs.size(1)
        return len(self.before()[self.kinds[0]] if self.kinds else self.before())

    def changes(self, removed: Removed) -> Tensor:
        """The change of every item, 0 for those that do not count or went with the removed."""
        first = self.before()
        if self.kinds:
            reduced, stays = without_typed(self.data, removed)
            masks = [stays[kind] for kind in self.kinds]
        else:
            reduced, mask = without(self.data, removed)
            masks = [mask]
        change = torch.zeros(self.items(), dtype=torch.double)
        counted = self._counted(masks)
        if not bool(masks[0].any()) or not bool(counted.any()):
            return change
        after = self.output(reduced)
        if self.pairs is None:
            old, new = (self._of(each, 0) for each in (first, after))
            if len(new) != int(masks[0].sum()):
                raise RuntimeError(f"{len(new)} rows for {int(masks[0].sum())} nodes")
            moved = (self._probabilities(old)[masks[0]] - self._probabilities(new)).abs().sum(-1)
            change[masks[0]] = moved.double()
        else:
            shift = [mask.long().cumsum(0) - 1 for mask in (masks[0], masks[-1])]
            moved_pairs = torch.stack([s[p] for s, p in zip(shift, self.pairs, strict=True)])
            old = self._link(first, self.pairs[:, counted])
            new = self._link(after, moved_pairs[:, counted])
            change[counted] = (old - new).abs().double()
        return torch.where(counted, change, 0.0)

    def total(self, removed: Removed) -> float:
        """The influence of what is removed."""
        return float(self.changes(removed).sum())

    def _counted(self, masks: list[Tensor]) -> Tensor:
        """Mask of the items that survive and count."""
        alive = masks[0].clone()
        if self.pairs is not None:
            alive = masks[0][self.pairs[0]] & masks[-1][self.pairs[1]]
        if self.targets is not None:
            chosen = torch.zeros_like(alive)
            chosen[list(self.targets)] = True
            alive &= chosen
        return alive

    def _of(self, output: Any, at: int) -> Tensor:
        return output[self.kinds[at]] if self.kinds else output

    def _probabilities(self, rows: Tensor) -> Tensor:
        if self.return_type == "log_probs":
            rows = rows.exp()
        elif self.return_type == "raw":
            rows = rows.softmax(dim=-1) if self.mode is None else rows.sigmoid()
        if self.mode == "binary":
            rows = rows.reshape(-1, 1)
            rows = torch.cat([1 - rows, rows], dim=1)
        return rows if self.classes is None else rows[:, sorted(set(self.classes))]

    @torch.no_grad()
    def _link(self, output: Any, pairs: Tensor) -> Tensor:
        left, right = self._of(output, 0), self._of(output, -1)
        if self.decoder is None:
            score = (left[pairs[0]] * right[pairs[1]]).sum(dim=-1)
        elif self.kinds and self.kinds[0] != self.kinds[1]:
            both = torch.cat([left, right])
            score = self.decoder(both, torch.stack([pairs[0], pairs[1] + len(left)]))
        else:
            score = self.decoder(left, pairs)
        if self.return_type == "raw":
            return score.sigmoid()
        return score.exp() if self.return_type == "log_probs" else score
