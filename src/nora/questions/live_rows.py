"""The rows behind `Live`: what an edit changes is written back to what is prepared.

Nodes have the ids of the first graph. Some rows are kept free for nodes that come; those of nodes that are
gone stay, without edges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from nora.engine.effects import Effects
from nora.engine.exec.update import Written, cannot_write
from nora.graph.edge_sets import Kind, Rewriting, edge_companions, rewrite
from nora.graph.edit_batch import EditBatch
from nora.graph.edits import Edits
from nora.model.edited import Changes
from nora.questions.session import Session

AddedEdges = dict[tuple[int, int], list[dict[str, Tensor]]]
# A graph that changes once will change again: an engine pays.
EXPECTED = 1000
# Rows that are kept free for nodes that come, at least, and as a share of those that are there.
ROOM, SHARE = 64, 0.01


def begun(
    session_of: Callable[[Any], Session], data: Any, ids: Tensor, total: int
) -> Written | str:
    """What is prepared for a graph whose rows are to be written back, or why it cannot be.

    Args:
        session_of: A session about a graph.
        data: The graph as it is.
        ids: The id of each of its nodes in the first graph `[N]`.
        total: How many ids have been given.
    """
    if not isinstance(data, Data):
        return "nodes have types"
    room = total + max(ROOM, int(SHARE * total))
    rows = torch.zeros(room, dtype=torch.long)
    rows[ids] = torch.arange(len(ids))
    session = session_of(rewrite(data, Rewriting({None: rows}, [{None: ids}])))
    problem = session.problem()
    problem = replace(problem, task=problem.task.on_every_class())
    with problem.evaluating(), torch.no_grad():
        engine = Effects.prepare(problem, session.prepared, "exact", EXPECTED).engine
    if engine is None:
        return "the model is not followed"
    reason = cannot_write(engine.program)
    return reason or Written(engine)


class Version:
    """Predictions at one time, of which only the newest are held whole; each older one knows what came next.

    Args:
        table: The predictions, which the next version writes to.
    """

    def __init__(self, table: Tensor) -> None:
        self.count = len(table)
        self._table: Tensor | None = table
        self._next: tuple[Version, Tensor, Tensor] | None = None

    def whole(self) -> Tensor:
        """All predictions of that time, a copy."""
        version, patches = self, []
        while version._next is not None:
            version, *patch = version._next
            patches.append(patch)
        assert version._table is not None
        table = version._table[: self.count].clone()
        for item, rows in reversed(patches):
            table[item] = rows
        return table

    def at(self, item: Tensor) -> Tensor:
        """Some of the newest predictions."""
        assert self._table is not None, "only the newest version is asked for rows"
        return self._table[item]

    def replaced(self, item: Tensor, rows: Tensor, more: Tensor) -> Version:
        """The next version: some predictions are others, and more follow; this one keeps what they were."""
        assert self._table is not None, "only the newest version is followed by another"
        before, table = self._table[item], self._table
        table[item] = rows
        made = Version(torch.cat([table, more]) if len(more) else table)
        self._next, self._table = (made, item, before), None
        return made


@dataclass(frozen=True, eq=False)
class Rows:
    """The predictions that an edit changes, by the ids of the first graph.

    Attributes:
        changes: What becomes of nodes that were there.
        lost: Nodes that are removed by it.
        more: Predictions of nodes that are added `[k, C]`.
    """

    changes: Changes
    lost: Tensor
    more: Tensor

    def whole(self, before: Tensor) -> Tensor:
        """All predictions after it."""
        return torch.cat([self.changes.predictions(before), self.more])

    def after(self, before: Version) -> Version:
        """The version after it."""
        rows = self.changes.after
        nan = rows.new_full((len(self.lost), *rows.shape[1:]), float("nan"))
        item = torch.cat([self.changes.item, self.lost])
        return before.replaced(item, torch.cat([rows, nan]), self.more)


@dataclass(frozen=True, eq=False)
class Places:
    """Where every id is in the snapshot, and what follows; made once, as most edits change edges alone.

    Attributes:
        place: The place of every id, −1 where its node is removed.
    """

    place: Tensor

    @cached_property
    def gone(self) -> Tensor:
        """The ids of removed nodes."""
        return (self.place < 0).nonzero().flatten()

    @cached_property
    def ids(self) -> Tensor:
        """The id at every place, −1 where there is none."""
        there = (self.place >= 0).nonzero().flatten()
        ids = torch.full((len(self.place),), -1)
        ids[self.place[there]] = there
        return ids


def added_edges(done: EditBatch) -> AddedEdges:
    """The attributes of the edges that an edit adds, by their ends."""
    found: AddedEdges = {}
    one = done.added_edges.get(None)
    if one is not None:
        for at, (source, target) in enumerate(one.edge_index.t().tolist()):
            rows = {key: value[at] for key, value in one.attributes.items()}
            found.setdefault((source, target), []).append(rows)
    return found


@dataclass(frozen=True, eq=False)
class Asked:
    """The graph after some edits, seen from the snapshot.

    Attributes:
        session: The session about the snapshot.
        edits: All edits since the snapshot, in its ids.
        done: The same, resolved.
        place: Where every node that ever was is in the snapshot, by type; nodes added since have the ids
            after its last one, and removed ones −1.
        added: The attributes of the edges they add, by their ends.
    """

    session: Session
    edits: Edits
    done: EditBatch
    place: dict[Kind, Tensor]
    added: AddedEdges


class Difference:
    """From one edit of a graph to another, in the ids of the first graph.

    Args:
        before, after: The graph after each, seen from the same snapshot.
        places: Where every id is in that snapshot; nodes that have come since follow its own.
    """

    def __init__(self, before: Asked, after: Asked, places: Places) -> None:
        self.session, self.added = after.session, (before.added, after.added)
        self.before, self.after = before.done, after.done
        self.own = self.session.edges.types[None]
        self.place, self.ids = places.place, places.ids
        self.keys = edge_companions(self.session.data)

    def batch(self, written: Written) -> EditBatch:
        """The edit of the graph that is written to: all edges between affected nodes are made again."""
        # Between two of which one was removed before and is removed now, nothing happens.
        pairs = sorted(self._affected(written))
        known = (self._ids(pairs) >= 0).all(dim=0).tolist()
        pairs = [pair for pair, both in zip(pairs, known, strict=True) if both]
        removed = set(self.after.node.tolist())
        again: list[tuple[int, int]] = []
        attributes: list[dict[str, Tensor]] = []
        added = self.added[1]
        for pair in pairs:
            if not removed & set(pair):
                copies = [*self._copies(pair), *added.get(pair, ())]
                again += [pair] * len(copies)
                attributes += copies
        rows = {key: torch.stack([one[key] for one in attributes]) for key in self.keys if again}
        return EditBatch.of(
            edges=written.edge_ids(self._ids(pairs)),
            added_edges={None: (self._ids(again), rows)},
            features=self._features(),
        )

    def _ids(self, pairs: list[tuple[int, int]]) -> Tensor:
        return self.ids[torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()]

    def _affected(self, written: Written) -> set[tuple[int, int]]:
        """Pairs of nodes between which an edge is removed or added."""
        one, other = (set(done.edge.tolist()) for done in (self.before, self.after))
        number = torch.tensor(sorted(one ^ other), dtype=torch.long)
        found = {tuple(pair) for pair in self.own.edges.cpu()[:, number].t().tolist()}
        old, new = self.added
        for pair in old.keys() | new.keys():
            each: list[Any] = [added.get(pair, ()) for added in self.added]
            if self.keys:
                each = [sorted(map(_key, copies)) for copies in each]
            if len(each[0]) != len(each[1]) or (self.keys and each[0] != each[1]):
                found.add(pair)
        gone, now = set(self.before.node.tolist()), set(self.after.node.tolist())
        for node in now - gone:
            pairs = written.neighbours(int(self.ids[node]))
            found |= {tuple(pair) for pair in self.place[pairs].t().tolist()}
        edges = self.own.edges.cpu()
        for node in gone - now:
            found |= {tuple(p) for p in edges[:, (edges == node).any(dim=0)].t().tolist()}
            found |= {pair for pair in new if node in pair}
        return found

    def _copies(self, pair: tuple[int, int]) -> list[dict[str, Tensor]]:
        """The attributes of the graph's own edges between two nodes that are there after the edit."""
        if max(pair) >= min(self.own.sizes):
            return []
        _, column = self.own.columns(torch.tensor([[pair[0]], [pair[1]]]))
        lost = torch.isin(column + self.own.start, self.after.edge)
        return [
            {key: value[at].cpu() for key, value in self.keys.items()}
            for at in column[~lost].tolist()
        ]

    def _features(self) -> dict[Kind, tuple[Tensor, Tensor]]:
        old, new = (
            {} if one is None else dict(zip(one.node.tolist(), one.rows, strict=True))
            for one in (done.features.get(None) for done in (self.before, self.after))
        )
        found = {
            node: row
            for node, row in new.items()
            if node not in old or not torch.equal(old[node], row)
        }
        found |= {node: self.session.data.x[node] for node in old if node not in new}
        count, more = self.session.num_nodes, self.after.added_nodes.get(None)
        first = self.before.added_counts.get(None, 0)
        if more is not None:
            found |= {count + at: more.rows["x"][at] for at in range(first, len(more))}
        found = {node: row for node, row in found.items() if int(self.ids[node]) >= 0}
        if not found:
            return {}
        nodes, like = sorted(found), self.session.data.x
        return {None: (self.ids[nodes], torch.stack([found[node] for node in nodes]).to(like))}


def _key(copy: dict[str, Tensor]) -> tuple[Any, ...]:
    return tuple((key, *value.flatten().tolist()) for key, value in sorted(copy.items()))
