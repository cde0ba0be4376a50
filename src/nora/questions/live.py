"""A graph that changes: edits are applied for good, and the predictions stay current.

Edits are kept as one edit (`a + b`) of a graph that was there before, the *snapshot*; once they are many, or
not one edit any more (a node that came is to go again), the graph as it is becomes the next one. Where rules
follow the model, what an edit changes is written back to what is prepared (see `live_rows`), which stays the
same whatever becomes of the snapshot. Otherwise what is prepared belongs to the snapshot, and the engine
tells the effect of all edits since then.
"""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from nora.engine.effects import Effects
from nora.engine.exec.update import Written
from nora.engine.rounding import tolerated
from nora.graph.edge_lookup import Directions, as_pairs, one_by_one
from nora.graph.edge_sets import Kind, node_counts
from nora.graph.edit_batch import EditBatch
from nora.graph.edits import Edits
from nora.graph.node_index import Graph, NodeIndex
from nora.model import Transform
from nora.model.calling import Forward
from nora.model.edited import After, Changes, predict_after
from nora.model.task import Task
from nora.questions.live_ids import Moved
from nora.questions.live_rows import (
    EXPECTED,
    Asked,
    Difference,
    Places,
    Rows,
    Version,
    added_edges,
    begun,
)
from nora.questions.session import Session
from nora.questions.staleness import Staleness
from nora.questions.what_if import named_edges
from nora.results.effect import Effect
from nora.stacklevel import warn

# Edits that are kept as one cost less than those that are prepared for.
KEPT = 16
# So many edits can be undone.
UNDONE = 16


@dataclass(frozen=True, eq=False)
class State(Asked):
    """The graph at one time.

    Attributes:
        predictions: The predictions of that time, of every node that ever was.
    """

    predictions: Version


NOTHING = EditBatch.of()


class Live:
    """The predictions of a model on a graph that changes.

    Nodes keep their ids. Added nodes get the next free ids, and the ids of removed nodes are not reused. If
    the first graph is undirected, edges are removed and added in both directions.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The first graph; it is not modified.
        task: The node-level task; node classification from logits by default.
        forward: As in `nora.influence`.
        transform: As in `nora.influence`.
        renew_after: After this many removed, added or changed nodes and edges, the engine is prepared again.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> live = nora.Live(run.model, run.data)
        >>> live.apply(nora.Edits(remove_edges=[(0, 1)], add_edges=[(0, 33)])).added_edges
        ((0, 33),)
        >>> live.effect_of(nora.Edits(remove=5)).removed  # without applying it
        (5,)
        >>> live.predictions.shape
        torch.Size([34, 4])
    """

    def __init__(
        self,
        model: nn.Module,
        data: Graph,
        task: Task | None = None,
        *,
        forward: Forward | None = None,
        transform: Transform | None = None,
        renew_after: int = 64,
    ) -> None:
        if renew_after < 1:
            raise ValueError(f"renew_after must be at least 1, got {renew_after}")
        self._made = {"forward": forward, "transform": transform}
        self._model, self._task, self._renew_after = model, task, renew_after
        data = data.clone()  # a copy that only this object changes
        self._directions: Directions | None = None
        session = self._session(data)
        if session.task.item != "node":
            raise ValueError("Live keeps predictions of nodes current; the task predicts links")
        self._kind = self._predicted_kind(session)
        self._directions = session.edges.directions  # of the first graph, whatever edits make of it
        self._both_ways = None if isinstance(data, HeteroData) else None in self._directions.paired
        place = {kind: torch.arange(count) for kind, count in node_counts(data).items()}
        problem = session.problem()
        if problem.by_id:
            raise ValueError("this model has weights by node id: its graph cannot change")
        with problem.evaluating(), torch.no_grad():
            whole = replace(problem, task=problem.task.on_every_class()).predict()
        self._state = State(
            session, Edits(), NOTHING, place, {}, Version(self._own(session, whole).clone())
        )
        # What rows are written to; None before the first edit. Or why there is nothing of the kind.
        self._written: Written | str | None = None
        self._seen_right = False
        self._stale = Staleness({"model": {"model": model, **self._made}})
        self._known_places = Places(torch.empty(0, dtype=torch.long))
        self._past: deque[State] = deque(maxlen=UNDONE)
        self.snapshots = 1

    def __repr__(self) -> str:
        nodes = sum(int((place >= 0).sum()) for place in self._state.place.values())
        return f"Live({type(self._model).__name__}, {nodes} nodes, {self.snapshots} snapshots)"

    @property
    def predictions(self) -> Tensor:
        """The current predictions `[ids, C]`, NaN for removed nodes. In a `HeteroData`, of one type."""
        return self._state.predictions.whole()

    @property
    def data(self) -> Graph:
        """The current graph, with its nodes renumbered from 0 without gaps."""
        state = self._state
        return state.done.apply(state.session.data)

    def effect_of(self, edits: Edits) -> Effect:
        """Compute which predictions the edits would change, without applying them."""
        return self._effect(edits, *self._answer(edits, write=False))

    def apply(self, edits: Edits) -> Effect:
        """Apply the edits permanently; return which predictions changed, by how much, and to which class."""
        asked, answer = self._answer(edits, write=True)
        effect, past = self._effect(edits, asked, answer), self._state
        rows = Version(answer) if isinstance(answer, Tensor) else answer.after(past.predictions)
        self._past.append(past)
        self._state = State(asked.session, asked.edits, asked.done, asked.place, asked.added, rows)
        kept = KEPT if isinstance(self._written, Written) else 1
        if asked.done.size > kept * self._renew_after:
            self._renew()
        return effect

    def undo(self) -> None:
        """Undo the last edit. Up to 16 edits can be undone."""
        if not self._past:
            raise ValueError("there is nothing to undo")
        now, past = self._state, self._past.pop()
        self._state = replace(past, predictions=Version(past.predictions.whole()))
        if not isinstance(self._written, Written):
            return
        if now.session is not self._state.session:
            self._written = None
            return
        place = now.place[None].clone()
        back = self._state.place[None]
        place[: len(back)] = torch.where(place[: len(back)] < 0, back, place[: len(back)])
        batch = Difference(now, past, Places(place)).batch(self._written)
        if self._written.cannot(batch):
            self._written = None
        else:
            self._written.after(batch, write=True)

    @property
    def how(self) -> str:
        """How predictions are updated: `rows` (changed rows are written back), or `snapshots` and the reason.

        Known after the first edit.
        """
        if self._written is None:
            return "not known yet"
        return f"snapshots: {self._written}" if isinstance(self._written, str) else "rows"

    def _begin(self, total: int) -> Written | str:
        """What rows are written to, with room for so many ids."""
        full = isinstance(self._written, Written) and total > self._written.program.num_nodes
        if self._written is None or full:
            if isinstance(self._state.session.data, HeteroData):
                self._written = "nodes have types"
                return self._written
            place = self._state.place[None]
            there = (place >= 0).nonzero().flatten()
            ids = there[place[there].argsort()]
            try:
                self._written = begun(self._session, self.data, ids, total)
            except (
                ValueError
            ) as reason:  # the model may predict NaN now; tried again with the next edit
                return str(reason)
        return self._written

    def _compared(self, asked: Asked, found: Rows) -> Rows | Tensor:
        """The rows of the first edit, if they are what the definition gives, or else that."""
        rows = found.whole(self._state.predictions.whole())
        problem = asked.session.problem()
        problem = replace(problem, task=problem.task.on_every_class())
        with problem.evaluating(), torch.no_grad():
            before = problem.predict()
            after = predict_after(problem, before, asked.done)
        truth = self._by_id(asked, after)
        error = (truth - rows).abs()
        error = error[~truth.isnan()].nan_to_num(torch.inf)
        self._seen_right = True
        if error.numel() and not float(error.max()) <= tolerated(truth.dtype) * problem.task.scale(
            before
        ):
            warn(
                f"what was written back differs from a full pass by {float(error.max()):.2g}: "
                "predictions are kept by snapshots instead",
                RuntimeWarning,
            )
            self._written = "rows that were written back were wrong"
            return truth
        return found

    def _session(self, data: Graph) -> Session:
        session = Session(self._model, data, self._task, once=True, **self._made)  # type: ignore[arg-type]
        if self._directions is not None:
            session.edges.directions = self._directions
        return session

    @staticmethod
    def _predicted_kind(session: Session) -> Kind:
        targets, index = session.problem().targets, session.node_index
        if not index.types:
            return None
        if targets is None:
            return index.types[0]
        return next(kind for kind in index.types if bool(targets[index.span(kind)].any()))

    def _own(self, session: Session, rows: Tensor) -> Tensor:
        """The rows of the nodes that are predicted."""
        return rows if self._kind is None else rows[session.node_index.span(self._kind)]

    def _renew(self) -> None:
        """Make the graph as it is the snapshot."""
        state = self._state
        done = state.done
        session = self._session(done.apply(state.session.data))
        gone = state.session.node_index.by_type(done.node)
        counts, more = node_counts(state.session.data), done.added_counts
        place = {}
        for kind, there in state.place.items():
            count = counts[kind] + more.get(kind, 0)
            left = torch.ones(count, dtype=torch.bool)
            left[gone[kind]] = False
            new = torch.where(left, left.long().cumsum(0) - 1, -1)
            place[kind] = torch.where(there >= 0, new[there.clamp(min=0)], -1) if count else there
        self._state = State(session, Edits(), NOTHING, place, {}, state.predictions)
        self.snapshots += 1

    def _asked(self, edits: Edits) -> Asked:
        """All edits since the snapshot together with these, checked; on a new snapshot where need be."""
        if not isinstance(edits, Edits):
            raise TypeError(f"give nora.Edits(…), got {type(edits).__name__}")
        if not edits:
            raise ValueError("the edits are empty: nothing would change")
        try:
            return self._together(edits)
        except (ValueError, TypeError):
            if not self._state.edits:
                raise
            # Two edits may contradict each other as one, though not one after the other.
            self._renew()
            return self._together(edits)

    def _together(self, edits: Edits) -> Asked:
        state = self._state
        session = state.session
        came = state.done.added_counts
        come = {}
        if edits.add_nodes is not None:
            come = session.resolve(Edits(add_nodes=edits.add_nodes)).added_counts
        place = dict(state.place)
        counts = node_counts(session.data)
        for kind, count in come.items():
            last = counts[kind] + came.get(kind, 0)
            place[kind] = torch.cat([place[kind], last + torch.arange(count)])
        moved = Moved(session, state.place, place)
        mine = Edits(
            remove=moved.nodes(edits.remove),
            remove_edges=moved.edges(edits.remove_edges),
            add_edges=moved.edges(edits.add_edges),
            add_nodes=edits.add_nodes,
            features=moved.features(edits.features),
            undirected=self._both_ways if edits.undirected is None else edits.undirected,
        )
        both = state.edits + mine if state.edits else mine
        done = session.resolve(both)
        for kind, gone in moved.gone(edits.remove).items():
            if len(gone):
                place[kind] = place[kind].clone()
                place[kind][gone] = -1
        return Asked(session, both, done, place, added_edges(done))

    def _after(self, asked: Asked) -> After:
        problem = asked.session.problem()
        problem = replace(problem, task=problem.task.on_every_class())
        with problem.evaluating(), torch.no_grad():
            effects = Effects.prepare(problem, asked.session.prepared, "exact", EXPECTED)
            return effects.after_edits(asked.done)

    def _answer(self, edits: Edits, write: bool) -> tuple[Asked, Rows | Tensor]:
        """What edits do: the rows that change, or predictions by the ids of the first graph `[ids, C]`."""
        self._stale.raise_if_changed("Live", "nora.Live(model, data)")
        asked = self._asked(edits)
        written = self._begin(max(len(place) for place in asked.place.values()))
        if isinstance(written, str):
            return asked, self._by_id(asked, self._after(asked))
        state, now = self._state, asked.place[None]
        place = state.place[None]
        if len(now) > len(place):
            place = torch.cat([place, now[len(place) :]])
        places = self._places(place)
        batch = Difference(state, asked, places).batch(written)
        if written.cannot(batch):
            self._written = None if write else written  # prepared again for the next graph
            return asked, self._by_id(asked, self._after(asked))
        problem, count = written.engine.problem, state.predictions.count
        training = any(module.training for module in self._model.modules())
        with problem.evaluating() if training else nullcontext(), torch.no_grad():
            item, after = written.after(batch, write)
            # One without neighbours may not change.
            more = written.now(torch.arange(count, len(now)))
        item, order = item.sort()
        there = (item < len(now)) & (now[item.clamp(max=len(now) - 1)] >= 0)
        item, after = item[there], after[order][there]
        new = item >= count
        more[item[new] - count] = after[new]
        item, after = item[~new], after[~new]
        gone = self._places(now).gone
        lost = gone[place[gone] >= 0]
        rows = Rows(Changes(item, after, gone, state.predictions.at(item)), lost, more)
        return asked, rows if self._seen_right else self._compared(asked, rows)

    def _places(self, place: Tensor) -> Places:
        """What follows from where ids are; that of the last edit is kept."""
        if self._known_places.place is not place:
            self._known_places = Places(place)
        return self._known_places

    def _by_id(self, asked: Asked, after: After) -> Tensor:
        place = asked.place[self._kind]
        rows = self._own(asked.session, after.predictions)
        if after.added is not None:
            counts = asked.done.added_counts
            before = 0
            for kind in asked.session.node_index.types:
                if kind == self._kind:
                    break
                before += counts.get(kind, 0)
            rows = torch.cat([rows, after.added[before : before + counts.get(self._kind, 0)]])
        place = place.to(rows.device)
        found = rows[place.clamp(min=0)]
        found[place < 0] = float("nan")
        return found

    def _effect(self, edits: Edits, asked: Asked, answer: Rows | Tensor) -> Effect:
        past = self._state.predictions
        known = past.count
        index = NodeIndex(asked.session.node_index.types, tuple(map(len, asked.place.values())))
        lookup = asked.session.edges
        lost, come = (
            {
                kind: as_pairs([pair[:2] for pair in one_by_one(given)])
                for kind, given in lookup.by_type(part).items()
            }
            for part in (edits.remove_edges, edits.add_edges)
        )
        added = answer.more if isinstance(answer, Rows) else answer[known:]
        about: dict[str, Any] = dict(
            removed=index.named(index.ids(edits.remove).tolist()),
            task=asked.session.task.name,
            classes=asked.session.task.counted_classes,
            removed_edges=named_edges(lost),
            added_edges=named_edges(come),
            changed_features=tuple(edits.features or ()),
            added=added if len(added) else None,
            predicts=asked.session.task.predicts,
        )
        if isinstance(answer, Rows):
            return Effect.of_changes(answer.changes, past.whole, **about)
        return Effect(
            before=past.whole(),
            after=answer[:known],
            counted=asked.place[self._kind][:known].to(answer.device) >= 0,
            **about,
        )
