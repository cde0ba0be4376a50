"""A graph that changes: edits are permanent, and the predictions stay current.

If every convolution has a rule, an edit is resolved against the current graph (`LiveGraph`), and the rows it
changes are written back to the prepared engine (`Written`): its time depends on the rows it changes only.
Otherwise all edits are kept as one edit (`a + b`) of an earlier graph, the *snapshot*, and the
engine computes the joint effect of all of them. Once they are many, or cannot be one edit any more (an added
node is removed again), the current graph becomes the next snapshot.
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
from nora.questions.live_state import NOTHING, EditedGraph, RowChanges, State, predicted_rows
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
        renew_after: If changed rows cannot be written back (see `how`), prepare the engine again after this
            many removed, added or changed nodes and edges.

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
        position = {kind: torch.arange(count) for kind, count in node_counts(data).items()}
        problem = session.problem()
        if problem.by_id:
            raise ValueError("this model has weights by node id: its graph cannot change")
        with problem.evaluating(), torch.no_grad():
            whole = replace(problem, task=problem.task.on_every_class()).predict()
        predictions = Version(predicted_rows(session, whole, self._kind).clone())
        self._state = State(session, Edits(), NOTHING, position, predictions)
        # What rows are written to (None: it was left half written), and the graph; None before the first
        # edit. Or why there is no such thing.
        self._live: tuple[Written | None, LiveGraph] | str | None = None
        self._compared_once = False
        self._stale = Staleness({"model": {"model": model, **self._made}})
        self._past: deque[State] = deque(maxlen=UNDONE)
        self.snapshots = 1

    def __repr__(self) -> str:
        nodes = sum(int((position >= 0).sum()) for position in self._state.position.values())
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
            return self._live[1].now(state.position[None])
        return state.done.apply(state.session.data)

    def effect_of(self, edits: Edits) -> Effect:
        """Compute which predictions the edits would change, without applying them."""
        return self._effect(edits, *self._answer(edits, write=False))

    def apply(self, edits: Edits) -> Effect:
        """Apply the edits permanently; return which predictions changed, by how much, and to which class."""
        edited, answer = self._answer(edits, write=True)
        effect, past = self._effect(edits, edited, answer), self._state
        self._past.append(past)
        if isinstance(answer, RowChanges):
            self._state = State(
                edited.session,
                Edits(),
                NOTHING,
                edited.position,
                answer.after(past.predictions),
                answer.changes.removed,
                answer.inverse,
            )
            return effect
        self._state = State(
            edited.session, edited.edits, edited.done, edited.position, Version(answer)
        )
        if edited.done.size > self._renew_after:
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
            position = state.position[None]
            removed = (position < 0).nonzero().flatten()
            position = torch.where(position < 0, position, torch.arange(len(position)))
            self._live = found = Written(engine), graph
            self._state = replace(
                state,
                session=graph.session,
                edits=Edits(),
                done=NOTHING,
                position={None: position},
                removed=removed,
            )
            return found
        return self._live

    def _compared(
        self, edits: Edits, changes: Changes, more: Tensor
    ) -> tuple[EditedGraph, Tensor] | None:
        """The predictions of a full pass if the rows of the first edit differ from them; else None."""
        assert isinstance(self._live, tuple)
        snapshot = self._state.snapshot(self._session, self._live[1])
        edited = snapshot.after(edits, self._both_ways)
        truth = self._by_definition(edited)
        rows = torch.cat([changes.predictions(self._state.predictions.whole()), more])
        error = (truth - rows).abs()
        error = error[~truth.isnan()].nan_to_num(torch.inf)
        self._compared_once = True
        scale = edited.session.task.scale(truth[~truth.isnan().flatten(1).any(dim=1)])
        if not error.numel() or float(error.max()) <= tolerated(truth.dtype) * scale:
            return None
        warn(
            f"what was written back differs from a full pass by {float(error.max()):.2g}: "
            "predictions are kept by snapshots instead",
            RuntimeWarning,
        )
        self._state, self._live = snapshot, "rows that were written back were wrong"
        return edited, truth

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

    def _edited(self, edits: Edits) -> EditedGraph:
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

    def _after(self, edited: EditedGraph) -> After:
        problem = edited.session.problem()
        problem = replace(problem, task=problem.task.on_every_class())
        with problem.evaluating(), torch.no_grad():
            effects = Effects.prepare(problem, edited.session.prepared, "exact", EXPECTED)
            return effects.after_edits(edited.done)

    def _answer(self, edits: Edits, write: bool) -> tuple[EditedGraph, RowChanges | Tensor]:
        """The effect of edits: changed rows, or predictions by the ids of the first graph `[ids, C]`."""
        self._stale.raise_if_changed("Live", "nora.Live(model, data)")
        edited = self._edited(edits)
        live = self._begin(max(len(position) for position in edited.position.values()))
        if isinstance(live, str):
            return edited, edited.by_id(self._after(edited), self._kind)
        written, graph = live
        if edited.session is not graph.session:
            edited = self._edited(edits)
        state, done = self._state, edited.done
        count, now = state.predictions.count, edited.position[None]
        batch = graph.batch(done, count, written.neighbours)
        # One without neighbours may not change.
        more = written.now(torch.arange(count, len(now)))
        first = not self._compared_once
        try:
            item, after = self._changed(written, graph, batch, write and not first)
        except AddedEdgeError:
            snapshot = state.snapshot(self._session, graph)
            edited = snapshot.after(edits, self._both_ways)
            answer = self._by_definition(edited)
            if write:
                self._state, self._live = snapshot, None
                self.snapshots += 1
            return edited, answer
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
        return edited, RowChanges(changes, done.node, more, inverse)

    def _changed(
        self, written: Written, graph: LiveGraph, batch: EditBatch, write: bool
    ) -> tuple[Tensor, Tensor]:
        """The predictions that an edit changes, see `Written.after`; written back if `write`."""
        chunk = written.chunk(batch, write)
        with self._running(written), torch.no_grad():
            if not write:
                return written.after(chunk)
            self._live = None, graph
            found = written.after(chunk)
            written.finish(chunk, graph.edges.count)
            self._live = written, graph
        return found

    def _by_definition(self, edited: EditedGraph) -> Tensor:
        """Predictions of a full pass, by the ids of the first graph `[ids, C]`."""
        problem = edited.session.problem()
        problem = replace(problem, task=problem.task.on_every_class())
        with problem.evaluating(), torch.no_grad():
            return edited.by_id(predict_after(problem, problem.predict(), edited.done), self._kind)

    def _running(self, written: Written) -> AbstractContextManager[None]:
        """The model in eval mode, which is looked at only where it is not."""
        training = any(module.training for module in self._model.modules())
        return written.engine.problem.evaluating() if training else nullcontext()

    def _effect(self, edits: Edits, edited: EditedGraph, answer: RowChanges | Tensor) -> Effect:
        past = self._state.predictions
        known = past.count
        index = NodeIndex(
            edited.session.node_index.types, tuple(map(len, edited.position.values()))
        )
        lookup = edited.session.edges
        removed_edges, added_edges = (
            {
                kind: as_pairs([pair[:2] for pair in one_by_one(given)])
                for kind, given in lookup.by_type(part).items()
            }
            for part in (edits.remove_edges, edits.add_edges)
        )
        added = answer.added if isinstance(answer, RowChanges) else answer[known:]
        about: dict[str, Any] = dict(
            removed=index.named(index.ids(edits.remove).tolist()),
            task=edited.session.task.name,
            classes=edited.session.task.counted_classes,
            removed_edges=named_edges(removed_edges),
            added_edges=named_edges(added_edges),
            changed_features=tuple(edits.features or ()),
            added=added if len(added) else None,
            predicts=edited.session.task.predicts,
        )
        if isinstance(answer, RowChanges):
            return Effect.of_changes(answer.changes, past.whole, **about)
        return Effect(
            before=past.whole(),
            after=answer[:known],
            counted=edited.position[self._kind][:known].to(answer.device) >= 0,
            **about,
        )
