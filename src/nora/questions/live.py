"""A graph that changes: edits are applied for good, and the predictions stay current.

Where rules follow the model, an edit is resolved against the graph as it is (`LiveGraph`), and what it
changes is written back to what is prepared (`Written`): it takes what it changes, whatever came before.
Otherwise edits are kept as one edit (`a + b`) of a graph that was there before, the *snapshot*, and the
engine tells the effect of all of them; once they are many, or not one edit any more (a node that came is to
go again), the graph as it is becomes the next snapshot.
"""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from nora.engine.effects import Effects
from nora.engine.exec.edge_templates import AddedEdgeError
from nora.engine.exec.update import Written, cannot_write
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
from nora.questions.live_graph import LiveGraph
from nora.questions.live_state import NOTHING, Asked, Rows, State, predicted_rows
from nora.questions.live_versions import Version
from nora.questions.session import Session
from nora.questions.staleness import Staleness
from nora.questions.what_if import named_edges
from nora.results.effect import Effect
from nora.stacklevel import warn

# A graph that changes once will change again: an engine pays.
EXPECTED = 1000
# So many edits can be undone.
UNDONE = 16


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
        renew_after: Where changed rows cannot be written back (see `how`): after this many removed, added or
            changed nodes and edges, the engine is prepared again.

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
            raise ValueError(
                "Live supports tasks that predict nodes; this task predicts links. Use nora.what_if"
            )
        self._kind = self._predicted_kind(session)
        self._directions = session.edges.directions  # of the first graph, whatever edits make of it
        self._both_ways = None if isinstance(data, HeteroData) else None in self._directions.paired
        place = {kind: torch.arange(count) for kind, count in node_counts(data).items()}
        problem = session.problem()
        if problem.by_id:
            raise ValueError("this model has weights by node id: its graph cannot change")
        with problem.evaluating(), torch.no_grad():
            whole = replace(problem, task=problem.task.on_every_class()).predict()
        predictions = Version(predicted_rows(session, whole, self._kind).clone())
        self._state = State(session, Edits(), NOTHING, place, predictions)
        # What rows are written to (None: it was left half written), and the graph; None before the first
        # edit. Or why there is no such thing.
        self._live: tuple[Written | None, LiveGraph] | str | None = None
        self._compared_once = False
        self._stale = Staleness({"model": {"model": model, **self._made}})
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
        if isinstance(self._live, tuple):
            return self._live[1].now(state.place[None])
        return state.done.apply(state.session.data)

    def effect_of(self, edits: Edits) -> Effect:
        """Compute which predictions the edits would change, without applying them."""
        return self._effect(edits, *self._answer(edits, write=False))

    def apply(self, edits: Edits) -> Effect:
        """Apply the edits permanently; return which predictions changed, by how much, and to which class."""
        asked, answer = self._answer(edits, write=True)
        effect, past = self._effect(edits, asked, answer), self._state
        self._past.append(past)
        if isinstance(answer, Rows):
            self._state = State(
                asked.session,
                Edits(),
                NOTHING,
                asked.place,
                answer.after(past.predictions),
                answer.changes.removed,
                answer.inverse,
            )
            return effect
        self._state = State(asked.session, asked.edits, asked.done, asked.place, Version(answer))
        if asked.done.size > self._renew_after:
            self._renew()
        return effect

    def undo(self) -> None:
        """Undo the last edit. Up to 16 edits can be undone."""
        if not self._past:
            raise ValueError("there is no edit to undo")
        now, past = self._state, self._past[-1]
        past = replace(past, predictions=Version(past.predictions.whole()))
        if now.inverse is None:
            self._past.pop()
            self._state = past
            self._live = self._live if isinstance(self._live, str) else None
            return
        live = self._live if isinstance(self._live, tuple) else None
        written, graph = live or (None, now.graph(self._session))
        batch = graph.inverse(now.inverse)
        try:
            if written is not None:
                self._changed(written, graph, batch, write=True)
        except AddedEdgeError:
            written = None
        graph.write(batch, batch.node)
        graph.fill(now.inverse.nodes, now.inverse.rows)
        self._past.pop()
        self._state = replace(past, session=graph.session)
        if written is None:
            self._live = None
            self._state = self._state.snapshot(self._session, graph)
            self.snapshots += 1

    @property
    def how(self) -> str:
        """How predictions are updated: `rows` (changed rows are written back), or `snapshots` and the reason.

        Known after the first edit.
        """
        if self._live is None:
            return "not known yet"
        return f"snapshots: {self._live}" if isinstance(self._live, str) else "rows"

    def _begin(self, total: int) -> tuple[Written, LiveGraph] | str:
        """The arrays that rows are written to, for this many ids."""
        state = self._state
        if isinstance(self._live, tuple):
            written, graph = self._live
            if written is not None and total <= graph.session.num_nodes:
                return written, graph
            self._state = state = state.snapshot(self._session, graph)
            self._live = None
            self.snapshots += 1
        if self._live is None:
            if isinstance(state.session.data, HeteroData):
                self._live = "nodes have types"
                return self._live
            graph = state.graph(self._session, total)
            try:
                problem = graph.session.problem()
                problem = replace(problem, task=problem.task.on_every_class())
                with problem.evaluating(), torch.no_grad():
                    effects = Effects.prepare(problem, graph.session.prepared, "exact", EXPECTED)
            except (
                ValueError
            ) as reason:  # the model may predict NaN now; tried again with the next edit
                return str(reason)
            engine = effects.engine
            why = "the model is not followed" if engine is None else cannot_write(engine.program)
            if engine is None or why:
                self._live = why
                return why
            place = state.place[None]
            removed = (place < 0).nonzero().flatten()
            place = torch.where(place < 0, place, torch.arange(len(place)))
            self._live = found = Written(engine), graph
            self._state = replace(
                state,
                session=graph.session,
                edits=Edits(),
                done=NOTHING,
                place={None: place},
                removed=removed,
            )
            return found
        return self._live

    def _compared(
        self, edits: Edits, changes: Changes, more: Tensor
    ) -> tuple[Asked, Tensor] | None:
        """The predictions of a full pass if the rows of the first edit differ from them; else None."""
        assert isinstance(self._live, tuple)
        snapshot = self._state.snapshot(self._session, self._live[1])
        asked = snapshot.after(edits, self._both_ways)
        truth = self._by_definition(asked)
        rows = torch.cat([changes.predictions(self._state.predictions.whole()), more])
        error = (truth - rows).abs()
        error = error[~truth.isnan()].nan_to_num(torch.inf)
        self._compared_once = True
        scale = asked.session.task.scale(truth[~truth.isnan().flatten(1).any(dim=1)])
        if not error.numel() or float(error.max()) <= tolerated(truth.dtype) * scale:
            return None
        warn(
            f"what was written back differs from a full pass by {float(error.max()):.2g}: "
            "predictions are kept by snapshots instead",
            RuntimeWarning,
        )
        self._state, self._live = snapshot, "rows that were written back were wrong"
        return asked, truth

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

    def _renew(self) -> None:
        """Make the graph as it is the snapshot."""
        self._state = self._state.renewed(self._session)
        self.snapshots += 1

    def _asked(self, edits: Edits) -> Asked:
        """These edits, with all since the snapshot, checked; on a new snapshot where need be."""
        if not isinstance(edits, Edits):
            raise TypeError(f"expected nora.Edits(…), got {type(edits).__name__}")
        if not edits:
            raise ValueError("the edits are empty: give at least one edit")
        try:
            return self._state.after(edits, self._both_ways)
        except (ValueError, TypeError):
            if not self._state.edits:
                raise
            # Two edits may contradict each other as one, though not one after the other.
            self._renew()
            return self._state.after(edits, self._both_ways)

    def _after(self, asked: Asked) -> After:
        problem = asked.session.problem()
        problem = replace(problem, task=problem.task.on_every_class())
        with problem.evaluating(), torch.no_grad():
            effects = Effects.prepare(problem, asked.session.prepared, "exact", EXPECTED)
            return effects.after_edits(asked.done)

    def _answer(self, edits: Edits, write: bool) -> tuple[Asked, Rows | Tensor]:
        """The effect of edits: changed rows, or predictions by the ids of the first graph `[ids, C]`."""
        self._stale.raise_if_changed("Live", "nora.Live(model, data)")
        asked = self._asked(edits)
        live = self._begin(max(len(place) for place in asked.place.values()))
        if isinstance(live, str):
            return asked, asked.by_id(self._after(asked), self._kind)
        written, graph = live
        if asked.session is not graph.session:
            asked = self._asked(edits)
        state, done = self._state, asked.done
        count, now = state.predictions.count, asked.place[None]
        batch = graph.batch(done, count, written.neighbours)
        # One without neighbours may not change.
        more = written.now(torch.arange(count, len(now)))
        first = not self._compared_once
        try:
            item, after = self._changed(written, graph, batch, write and not first)
        except AddedEdgeError:
            snapshot = state.snapshot(self._session, graph)
            asked = snapshot.after(edits, self._both_ways)
            answer = self._by_definition(asked)
            if write:
                self._state, self._live = snapshot, None
                self.snapshots += 1
            return asked, answer
        if len(done.node) or len(more):
            there = now[item] >= 0
            item, after = item[there], after[there]
            new = item >= count
            more[item[new] - count] = after[new]
            item, after = item[~new], after[~new]
        assert state.removed is not None
        removed = torch.cat([state.removed, done.node]) if len(done.node) else state.removed
        changes = Changes(item, after, removed, state.predictions.at(item))
        if first:
            if truth := self._compared(edits, changes, more):
                return truth
            if write:
                self._changed(written, graph, batch, write)
        inverse = None
        if write:
            inverse = graph.write(batch, done.node)
            for added in done.added_nodes.values():
                graph.fill(torch.arange(count, len(now)), added.rows)
        return asked, Rows(changes, done.node, more, inverse)

    def _changed(
        self, written: Written, graph: LiveGraph, batch: EditBatch, write: bool
    ) -> tuple[Tensor, Tensor]:
        """The predictions that an edit changes, see `Written.after`; written back if asked for."""
        chunk = written.chunk(batch, write)
        with self._running(written), torch.no_grad():
            if not write:
                return written.after(chunk)
            self._live = None, graph
            found = written.after(chunk)
            written.finish(chunk, graph.edges.count)
            self._live = written, graph
        return found

    def _by_definition(self, asked: Asked) -> Tensor:
        """Predictions of a full pass, by the ids of the first graph `[ids, C]`."""
        problem = asked.session.problem()
        problem = replace(problem, task=problem.task.on_every_class())
        with problem.evaluating(), torch.no_grad():
            return asked.by_id(predict_after(problem, problem.predict(), asked.done), self._kind)

    def _running(self, written: Written) -> AbstractContextManager[None]:
        """The model in eval mode, which is looked at only where it is not."""
        training = any(module.training for module in self._model.modules())
        return written.engine.problem.evaluating() if training else nullcontext()

    def _effect(self, edits: Edits, asked: Asked, answer: Rows | Tensor) -> Effect:
        past = self._state.predictions
        known = past.count
        index = NodeIndex(asked.session.node_index.types, tuple(map(len, asked.place.values())))
        lookup = asked.session.edges
        removed_edges, added_edges = (
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
            removed_edges=named_edges(removed_edges),
            added_edges=named_edges(added_edges),
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
