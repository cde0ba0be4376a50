"""An edit made for good: the rows that it changes are written back, and edges exchanged in place.

What was prepared stays prepared: every value gets its new rows, every sum that an edit has reached is
summed anew, and the edges of convolutions lose and gain entries without being sorted again. Nodes keep
their ids; one that goes loses its edges and stays as a row that nobody reads.

This is done where rules follow all that is done with edges, and nothing is about the graph as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from nora.engine.backends.vectorised import expanded, weigh
from nora.engine.changed import LOST_DIGITS, Changed
from nora.engine.edges import Edges, Ties
from nora.engine.edits import by_rules_alone, edges_of
from nora.engine.engine import Engine
from nora.engine.exchange import Rooms, exchanged
from nora.engine.plan import Plan
from nora.engine.steps.moves import Concat, Gather
from nora.engine.steps.step import EVERYWHERE, Chunk, Rows, Value
from nora.engine.steps.sums import Attend, Propagate
from nora.problem.edit_batch import ChangedFeatures, EditBatch

# A sum is made anew after so many corrections, or if it is of so few messages.
CORRECTIONS, FEW = 16, 8


@dataclass(frozen=True, eq=False)
class Change:
    """An edit of a graph whose nodes keep their ids.

    Attributes:
        lost: Edges that go, all copies of each, `[2, m]`, distinct.
        gained: Edges that come `[2, k]`.
        said: What is said of them, by name, `[k, …]`.
        features: Nodes whose features change `[f]`, and their new rows.
    """

    lost: Tensor
    gained: Tensor
    said: Mapping[str, Tensor] = field(default_factory=dict)
    features: tuple[Tensor, Tensor] | None = None


def cannot_write(plan: Plan) -> str:
    """Why rows cannot be written back; empty if they can."""
    if plan.guards.comparisons:
        return f"the model's Python compares sizes at {plan.guards.comparisons[0].line}"
    if not by_rules_alone(plan):
        return "a convolution is followed without a rule"
    if any(edges.number is None or edges.comes is None for edges in edges_of(plan)):
        return "a rule does not say what becomes of edges"
    for edges in edges_of(plan):
        comes = edges.comes
        assert comes is not None
        for value in (comes.weight, None if comes.kind is None else comes.kind[0]):
            if value is not None and id(value) not in plan.templates.given:
                return "edges are weighed by what the model makes of them"
    own = plan.templates.lookup.types[None].edges
    if any(not torch.equal(e.comes.ends.cpu(), own.cpu()) for e in edges_of(plan) if e.comes):
        return "the model turns edges round, or puts them in another order"
    known = {id(value) for value in plan.features.values()}
    read = {id(value) for step in plan.steps for value in step.inputs}
    if any(id(value) in read - known for value in plan.attributes):
        return "the model reads more of nodes than their features"
    kinds = (Rows, Propagate, Attend, Gather, Concat)
    if any(not isinstance(step, kinds) or step.output.depth >= EVERYWHERE for step in plan.steps):
        return "something is about the graph as a whole"
    return ""


class Written:
    """An engine whose rows are kept current.

    Args:
        engine: Of the graph to begin with; it is this one's own from now on.

    Attributes:
        engine: The same engine; what it has prepared is that of the graph as it is now.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.plan = engine, engine.plan
        self.rooms: dict[int, Rooms] = {}  # by the edges that are kept there
        self.corrected: dict[int, Tensor] = {}  # how often every sum was, by step
        values = {id(v): v for step in self.plan.steps for v in (*step.inputs, step.output)}
        for value in values.values():
            if value.base is not None:  # given by somebody, or seen by several
                value.base = value.base.clone(memory_format=torch.contiguous_format)
        for step in self.plan.steps:
            if isinstance(step, Propagate):
                step.total, step.size = step.total.clone(), step.size.clone()
            elif isinstance(step, Attend):
                self._set_attention(step, step.base.peak.clone(), step.base.share.clone())

    def cannot(self, change: Change) -> str:
        """Why rows do not tell what becomes of an edit; empty if they do."""
        kinds: dict[str, set[int]] = {}
        for edges in edges_of(self.plan):
            if edges.comes is not None and edges.comes.kind is not None:
                value, number = edges.comes.kind
                kinds.setdefault(self.plan.templates.given[id(value)][1], set()).add(number)
        for name, known in kinds.items():
            if set(change.said[name].tolist()) - known:
                return "an edge comes of a kind that the graph did not have"
        return ""

    def after(self, change: Change, write: bool = False) -> tuple[Tensor, Tensor]:
        """The predictions that an edit changes: nodes `[q]` and their new predictions `[q, …]`.

        Args:
            change: The edit.
            write: Whether it is made for good.
        """
        removals = EditBatch.of(features={} if change.features is None else {None: change.features})
        chunk = Chunk(removals, self.plan.num_nodes, self.engine.backend)
        places: dict[int, tuple[Edges, Ties]] = {}
        for edges in edges_of(self.plan):
            if id(edges) not in places:
                places[id(edges)] = (edges, self._ties(edges, change))
                chunk.tied[id(edges)] = places[id(edges)][1]
        seen: dict[int, Changed] = {}
        with torch.no_grad():
            changed = self.plan.run(chunk, seen)
            _, item, after = self.engine.changed_items(removals, changed)
            if write:
                self._write(seen, places, removals.features)
        return item, after

    def now(self, node: Tensor) -> Tensor:
        """The predictions of some nodes as they are."""
        return self.engine.problem.task.predict(self.plan.output.at(node))

    def neighbours(self, node: int) -> Tensor:
        """The edges at a node, both ways `[2, m]`, distinct."""
        found = []
        for edges in edges_of(self.plan):
            reverse = edges.comes is not None and edges.comes.reverse
            for (indptr, other, _), out in ((edges.by_source, True), (edges.by_target, False)):
                there = other[int(indptr[node]) : int(indptr[node + 1])]
                here = torch.full_like(there, node)
                pair = torch.stack([here, there] if out != reverse else [there, here])
                found.append(pair)
        return torch.cat(found, dim=1).unique(dim=1) if found else torch.empty(2, 0).long()

    def _ties(self, edges: Edges, change: Change) -> Ties:
        """What goes and comes, as one convolution has it."""
        comes = edges.comes
        assert comes is not None
        weight = None
        if comes.weight is not None:
            name = self.plan.templates.given[id(comes.weight)][1]
            weight = _said(change, name, edges.weight)
        source, target = change.gained
        if comes.kind is not None:
            value, number = comes.kind
            mine = change.said[self.plan.templates.given[id(value)][1]] == number
            source, target = source[mine], target[mine]
            weight = None if weight is None else weight[mine]
        sent = torch.ones(len(source), dtype=torch.double) if weight is None else weight.double()
        lost, come = change.lost, torch.stack([source, target])
        loops: dict[int, float] = {}
        if comes.loops is not None:
            if edges.weight is not None and comes.own_loops:
                loops = dict.fromkeys(lost[0, lost[0] == lost[1]].tolist(), float(comes.loops))
                for node, one in zip(come[0].tolist(), (come[0] == come[1]).tolist(), strict=True):
                    loops |= {node: 0.0} if one else {}
                for node, other, one in zip(*come.tolist(), sent.tolist(), strict=True):
                    loops |= {node: one} if node == other else {}
            lost = lost[:, lost[0] != lost[1]]
            new = come[0] != come[1]
            come, sent = come[:, new], sent[new]
        if comes.reverse:
            lost, come = lost.flip(0), come.flip(0)
        place = _places(edges, lost)
        nodes = torch.tensor(list(loops), dtype=torch.long)
        place = torch.cat([place, _places(edges, torch.stack([nodes, nodes]))])
        come = torch.cat([come, torch.stack([nodes, nodes])], dim=1)
        sent = torch.cat([sent, torch.tensor(list(loops.values()), dtype=torch.double)])
        _, column, edge = edges.by_target
        gone, weighted = edge[place], edges.normalise == "sym" and edges.weight is not None
        ones, minus = torch.ones(len(gone)).double(), -torch.ones(come.size(1), dtype=torch.long)
        loss = edges.weight[gone].double() if weighted and edges.weight is not None else ones
        return Ties(
            torch.tensor([0, len(gone) + come.size(1)]),
            torch.cat([column[place], come[0]]),
            torch.cat([edges.target[gone], come[1]]),
            torch.cat([loss, -sent if weighted else minus.double()]),
            torch.cat([torch.ones_like(gone), minus]),
            torch.cat([place, minus]),
            torch.cat([ones, sent]),
        )

    def _write(
        self,
        seen: dict[int, Changed],
        places: dict[int, tuple[Edges, Ties]],
        features: Mapping[Any, ChangedFeatures],
    ) -> None:
        for kind, changed in features.items():
            _put(self.plan.features[kind], changed)
        for step in self.plan.steps:
            new = seen.get(id(step.output))
            if new is not None and len(new):
                _put(step.output, new)
        made = {}
        for key, (edges, ties) in places.items():
            made[key] = edges
            if len(ties):
                rooms = self.rooms.pop(key) if key in self.rooms else Rooms(edges)
                made[key] = exchanged(edges, ties, rooms)
                self.rooms[id(made[key])] = rooms
        for step in self.plan.steps:
            if not isinstance(step, Propagate | Attend):
                continue
            step.edges = made[id(step.edges)]
            new = seen.get(id(step.output))
            if new is None or not len(new):
                continue
            if isinstance(step, Propagate):
                self._sum(step, new)
            else:
                y = seen.get(id(step.inputs[0]))
                self._weigh_anew(step, new.node, None if y is None else y.node)

    def _sum(self, step: Propagate, new: Changed) -> None:
        """The sums that have changed: read off what they have become, from scratch every so often.

        A sum that was corrected many times, or is small beside what it was or what is added to it, has lost
        digits; a short one costs nothing.
        """
        node, edges, unit = new.node, step.edges, step.unit.t()
        plus = step.inputs[1].whole()[node] if isinstance(step.added, Value) else step.added
        left = edges.left[node]
        rest = new.rows - plus if len(plus) else new.rows
        total = rest / left.to(rest.dtype).unsqueeze(-1)
        size = total.abs() @ unit
        times = self.corrected.setdefault(id(step), torch.zeros(edges.num_nodes, dtype=torch.uint8))
        times[node] += 1
        few = edges.by_target[0][node + 1] - edges.by_target[0][node] <= FEW
        sure = (times[node] < CORRECTIONS) & ~few & size.isfinite().all(dim=1)
        sure &= (size >= LOST_DIGITS * step.size[node]).all(dim=1)
        if len(plus):
            sure &= (rest.abs() @ unit >= LOST_DIGITS * (plus.abs() @ unit)).all(dim=1)
        size = torch.maximum(size, step.size[node])
        anew = (~sure).nonzero().flatten()
        total[anew] = _sum_anew(step, node[anew])
        size[anew] = total[anew].abs() @ unit
        times[node[anew]] = 0
        step.total[node], step.size[node] = total, size

    def _weigh_anew(self, step: Attend, node: Tensor, sent: Tensor | None) -> None:
        """The largest score and the denominator of the nodes that hear something else."""
        base = step.base
        indptr, sender, _ = step.edges.by_target
        owner, position, _ = expanded(indptr, node)
        score = base.near[sender[position]] + base.far[node][owner]
        nothing = score.new_zeros(len(score), score.size(1), 0)
        _, peak, share = weigh(score, nothing, owner, len(node), base.slope)
        base.peak[node], base.share[node] = peak, share
        if sent is not None and "size" in vars(base):
            base.size[sent] = (base.y[sent].abs() * base.unit).sum(dim=-1)

    @staticmethod
    def _set_attention(step: Attend, peak: Tensor, share: Tensor) -> None:
        y, near, far = (value.whole() for value in step.inputs)
        step.base = replace(
            step.base, y=y, near=near, far=far, whole=step.output.whole(), peak=peak, share=share
        )


def _said(change: Change, name: str, like: Tensor | None) -> Tensor:
    assert like is not None
    found = change.said.get("edge_weight" if name == "adj_t" else name)
    if found is None:
        return torch.ones(change.gained.size(1), dtype=like.dtype)
    return found.to(like.dtype).reshape(-1)


def _put(value: Value, changed: Changed | ChangedFeatures) -> None:
    if value.base is not None:
        value.base[changed.node] = changed.rows


def _sum_anew(step: Propagate, node: Tensor) -> Tensor:
    """Some sums from scratch `[q, F]`."""
    edges, y = step.edges, step.inputs[0].whole()
    indptr, sender, edge = edges.by_target
    owner, position, _ = expanded(indptr, node)
    source = sender[position]
    factor = edges.right[source]
    if edges.weight is not None:
        factor = factor * edges.weight[edge[position]].double()
    sent = y[source] * factor.to(y.dtype).unsqueeze(-1)
    return y.new_zeros(len(node), y.size(1)).index_add_(0, owner, sent)


def _places(edges: Edges, pairs: Tensor) -> Tensor:
    """Where all copies of edges `[2, m]` stand in `by_target`."""
    indptr, column, _ = edges.by_target
    owner, position, _ = expanded(indptr, pairs[1])
    return position[column[position] == pairs[0][owner]]
