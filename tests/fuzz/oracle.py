"""The definition, in its own words: cut the graph by hand, run a fresh copy of the model, compare.

Nothing of the product is used here, and nothing is shared between two passes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import MessagePassing

from fuzz.graphs import EDGE_KEYS, NODE_KEYS

Removed = Sequence[Any]
Call = Callable[[nn.Module, Any], Any]


def without(data: Data, removed: Sequence[int]) -> tuple[Data, Tensor]:
    """The graph without these nodes and their edges, and the mask of those that stay."""
    stays = torch.ones(len(data.x), dtype=torch.bool)
    stays[list(removed)] = False
    place = {old: new for new, old in enumerate(stays.nonzero().flatten().tolist())}
    left = Data()
    for key in NODE_KEYS:
        if key in data:
            left[key] = data[key][stays].clone()
    for index, keys in (("edge_index", EDGE_KEYS), ("edge_index2", ("edge_weight2",))):
        if index not in data:
            continue
        pairs = data[index].t().tolist()
        alive = [at for at, (a, b) in enumerate(pairs) if a in place and b in place]
        moved = [[place[end] for end in pairs[at]] for at in alive]
        left[index] = torch.tensor(moved, dtype=torch.long).reshape(-1, 2).t().contiguous()
        for key in keys:
            if key in data:
                left[key] = data[key][alive].clone()
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
