"""The rows behind `Live`: what an edit changes is written back to what is prepared.

Nodes have the ids of the first graph. Some rows are kept free for nodes that come; those of nodes that are
gone stay, without edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from nora.engine.effects import Effects
from nora.engine.exec.update import Written, cannot_write
from nora.graph.edge_lookup import EdgeLookup
from nora.graph.edge_sets import Kind, Rewriting, edge_companions, rewrite
from nora.graph.edit_batch import EditBatch
from nora.questions.session import Session

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
    told = cannot_write(engine.program)
    return told or Written(engine)


class Difference:
    """From one edit of a graph to another, in the ids of the first graph.

    Args:
        session: About the graph that both are edits of.
        before, after: The edits.
        place: Where every id is in that graph; nodes that have come since follow its own.
    """

    def __init__(
        self, session: Session, before: EditBatch, after: EditBatch, place: Tensor
    ) -> None:
        self.session, self.before, self.after = session, before, after
        self.lookup: EdgeLookup = session.edges
        self.own = self.lookup.types[None]
        count = int(session.num_nodes) + max(
            (one.added_counts.get(None, 0) for one in (before, after)), default=0
        )
        self.ids = torch.full((count,), -1)
        there = (place >= 0).nonzero().flatten()
        self.ids[place[there]] = there
        self.place = place
        self.keys = edge_companions(session.data)

    def batch(self, written: Written) -> EditBatch:
        """The edit of the graph that is written to: all edges between affected nodes are made again."""
        # Between two of which one was removed before and is removed now, nothing happens.
        pairs = sorted(self._affected(written))
        known = (self._ids(pairs) >= 0).all(dim=0).tolist()
        pairs = [pair for pair, both in zip(pairs, known, strict=True) if both]
        removed = set(self.after.node.tolist())
        again: list[tuple[int, int]] = []
        attributes: list[dict[str, Tensor]] = []
        added = self._added(self.after)
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
        counts = [
            Counter(
                (pair, *_key(copy)) for pair, each in self._added(done).items() for copy in each
            )
            for done in (self.before, self.after)
        ]
        found |= {key[0] for key in (counts[0] - counts[1]) + (counts[1] - counts[0])}
        gone, now = set(self.before.node.tolist()), set(self.after.node.tolist())
        for node in now - gone:
            pairs = written.neighbours(int(self.ids[node]))
            found |= {tuple(pair) for pair in self.place[pairs].t().tolist()}
        edges = self.own.edges.cpu()
        for node in gone - now:
            found |= {tuple(p) for p in edges[:, (edges == node).any(dim=0)].t().tolist()}
            found |= {pair for pair in self._added(self.after) if node in pair}
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

    @staticmethod
    def _added(done: EditBatch) -> dict[tuple[int, int], list[dict[str, Tensor]]]:
        """The attributes of added edges, by their ends."""
        found: dict[tuple[int, int], list[dict[str, Tensor]]] = {}
        one = done.added_edges.get(None)
        if one is not None:
            for at, (source, target) in enumerate(one.edge_index.t().tolist()):
                rows = {key: value[at] for key, value in one.attributes.items()}
                found.setdefault((source, target), []).append(rows)
        return found

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
