"""What is the smallest removal that changes one node's predicted class?

Removals that cannot reach the node do not count, and are known: `L` layers carry a change so far and no
further. So the question is asked of the part of the graph within reach alone, where every removal has the
same effect on the node as in the whole graph: what lies outside cannot change its prediction, together or one
after the other, with or without other removals. (Where two removals could break a guard on sizes, all are
tried, on the whole graph.) An edge can only matter where the removal of either of its
ends would, so that both ends lie within reach.

Every single removal is tried, then every pair where they are few enough (else the most likely), each exactly.
If none flips the prediction, what helps most is added one at a time, and what turns out superfluous is left
out again. What was tried without exception is proved; the result lists it. What is found is checked
by a full forward pass on the whole graph.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from nora.engine.effects import Effects
from nora.engine.prepared import Prepared
from nora.engine.rounding import tolerated
from nora.graph.edit_batch import EditBatch
from nora.graph.node_index import Graph, Nodes
from nora.graph.removal import kept
from nora.model import Problem
from nora.model.edited import predict_after
from nora.model.measuring import items_of
from nora.model.misfit import MISFIT
from nora.model.task import Task
from nora.progress import Advance, progress_bar
from nora.questions.frontier import frontier_nodes
from nora.questions.session import Session
from nora.questions.session_options import SessionOptions, takes_session_options
from nora.questions.what_if import named_edges
from nora.results.flip import Flip, margins

# Pairs that are tried at most, and removals that are tried between two looks at the bar.
PAIRS, AT_ONCE = 20_000, 2048
# How many sets that seem to flip a prediction are checked by a full pass before they are given up.
CHECKED = 5


@takes_session_options(SessionOptions)
def flip(
    model: nn.Module,
    data: Graph,
    node: int | tuple[str, int],
    to: int | str | None = None,
    task: Task | None = None,
    *,
    by: str = "nodes",
    at_most: int = 5,
    pairs: int = PAIRS,
    progress: bool = True,
    **about: Unpack[SessionOptions],
) -> Flip:
    """Find the smallest set of removals that changes a node's predicted class.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        node: The node whose prediction should change; in a `HeteroData`, `("author", 17)`.
        to: The class to reach. Default: any other class.
        task: What is predicted; node classification from logits by default.
        by: What may be removed: other `nodes`, or `edges` (both directions together in an undirected graph).
        at_most: The largest number of removals.
        pairs: The largest number of pairs to try. If there are more, the most promising are tried, and
            nothing is proven about the others.
        progress: Show a progress bar.
        **about: Arguments of `nora.Session`.

    Returns:
        The removal, and what was tried. `size` is 0 if nothing was found; `smallest` is true if it is proven
        that no smaller set does it; `proof` gives the reason.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> found = nora.flip(run.model, run.data, 8, by="edges", progress=False)
        >>> found.size == len(found.removed) <= 5
        True
    """
    session = Session(model, data, task, **about, once=True)
    return session.flip(node, to, by=by, at_most=at_most, pairs=pairs, progress=progress)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a search, and how to remove a set of them.

    Attributes:
        by: `nodes` or `edges`.
        ids: Nodes by global ids `[n]`, or places in the list of all edges `[n]`, in the whole graph.
        single: One removal per candidate, in the graph that is asked.
        whole: The same in the whole graph.
    """

    by: str
    ids: Tensor
    single: EditBatch
    whole: EditBatch

    def __len__(self) -> int:
        return len(self.ids)

    def sets(self, chosen: Tensor) -> EditBatch:
        """Removals of several candidates each, `[m, s]` by their places."""
        return self.single.pick(chosen.flatten()).merge(chosen.size(1))


@dataclass(frozen=True, eq=False)
class FlipSearch:
    """The effects of removals on one prediction.

    Attributes:
        whole: The question about the whole graph.
        node: The node there, by its global id.
        effects: Effects on the part of the graph that is asked.
        prepared: What is prepared for that part.
        item: The node there.
        now: Its class on `G`.
        to: The class wanted; None for any other.
        candidates: What may be removed.
        advance: Called with the number of removals that were tried.
    """

    whole: Effects
    node: int
    effects: Effects
    prepared: Prepared
    item: int
    now: int
    to: int | None
    candidates: Candidates
    advance: Advance = lambda *_: None

    def ready_for(self, removals: int) -> FlipSearch:
        """The same, by what so many removals more are worth: an engine, or compiled loops."""
        asked = Effects.prepare(self.effects.problem, self.prepared, "exact", removals)
        return replace(self, effects=asked)

    def tried(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Margin `[m]` and whether the prediction flips `[m]`, for sets of candidates `[m, s]`."""
        parts = []
        for some in chosen.split(AT_ONCE):
            rows = self.effects.before[self.item].expand(len(some), -1).clone()
            for moves in self.effects.moves(self.candidates.sets(some.to(rows.device))):
                mine = moves.item == self.item
                rows[moves.which.to(mine.device)[moves.removal[mine]]] = moves.after[mine]
            parts.append(margins(rows.cpu(), self.now, self.to))
            self.advance(len(some))
        if not parts:
            return torch.empty(0), torch.empty(0, dtype=torch.bool)
        margin, flips = (torch.cat(column) for column in zip(*parts, strict=True))
        return margin, flips

    def after(self, chosen: Tensor) -> Tensor:
        """The node's prediction without these candidates `[C]`, by a full pass on the whole graph."""
        done = self.candidates.whole.pick(chosen).merge(len(chosen))
        return predict_after(self.whole.problem, self.whole.before, done).predictions[self.node]

    def confirmed(self, sets: Tensor, margin: Tensor, flips: Tensor) -> Tensor | None:
        """The set that flips the prediction most clearly, seen by a full pass to do so; None for none."""
        for one in sets[flips][margin[flips].argsort(stable=True)[:CHECKED]]:
            _, right = margins(self.after(one).unsqueeze(0), self.now, self.to)
            if bool(right):
                return one
        return None


def find_flip(
    session: Session,
    node: Nodes,
    to: int | str | None,
    by: str,
    at_most: int,
    pairs: int,
    progress: bool,
) -> Flip:
    """See `flip`."""
    if by not in ("nodes", "edges"):
        raise ValueError(f"by is {by!r}; it must be 'nodes' or 'edges'")
    if at_most < 1:
        raise ValueError(f"at_most must be at least 1, got {at_most}")
    if pairs < 0:
        raise ValueError(f"pairs must not be negative, got {pairs}")
    if session.task.predicts != "classes":
        raise ValueError(
            f"flip needs a task that predicts classes; this task predicts {session.task.predicts}"
        )
    ids = session.node_index.ids(node)
    if ids.numel() != 1:
        raise ValueError(f"node must be one node id, e.g. node=17; got {ids.numel()} nodes")
    asked = session.problem()
    if asked.targets is not None and not bool(asked.targets[ids]):
        raise ValueError(
            f"node {node!r} has no prediction that counts: it is not of the type that is classified, or "
            "not among the session's targets"
        )
    start = time.perf_counter()
    problem = replace(asked, task=asked.task.on_every_class(), targets=None)
    with problem.evaluating(), torch.no_grad():
        effects = Effects.prepare(problem, session.prepared, "exact", problem.num_nodes)
        before = effects.before[int(ids)]
        items = items_of(problem, effects.before, class_names=session.class_names)
        now, wanted = int(before.argmax()), None if to is None else items.class_id(str(to), "to")
        if wanted == now:
            raise ValueError(
                f"node {node!r} is already predicted as class {to!r}: name another class by to="
            )
        with progress_bar(f"flip: removing {by}", None, progress) as advance:
            search = replace(_search(session, effects, int(ids), now, wanted, by), advance=advance)
            found, singles, tried = _smallest(search, at_most, pairs)
        after = search.after(found) if len(found) else before
    return Flip(
        node=session.node_index.named([int(ids)])[0],
        by=by,
        removed=_named(session, search.candidates, found),
        before=before.cpu(),
        after=after.cpu(),
        candidates=len(search.candidates),
        singles=singles,
        pairs=tried,
        at_most=at_most,
        to=wanted,
        seconds=time.perf_counter() - start,
        names=session.names,
        class_names=session.class_names,
    )


def _search(
    session: Session, effects: Effects, node: int, now: int, to: int | None, by: str
) -> FlipSearch:
    """The question on what lies within reach; on the whole graph where that is not known, or no less."""
    problem, engine = effects.problem, effects.engine
    reached = frontier_nodes(problem, engine, torch.tensor([node]))
    if engine is not None and not engine.program.guards.safe(2):
        # Two removals together may make the model take another branch, wherever they are.
        reached = torch.arange(problem.num_nodes)
    if by == "nodes":
        ids = reached[reached != node]
        single = whole = EditBatch.remove_nodes(ids)
    else:
        ids, whole = _edges_within(session, reached)
        single = whole
    item = node
    part = _part(effects, reached, node) if 2 * len(reached) < problem.num_nodes else None
    asked, prepared = effects, session.prepared
    if part is not None:
        prepared = Prepared()
        asked = Effects.prepare(part, prepared, "exact", len(ids))
        place = torch.full((problem.num_nodes,), -1)
        place[reached] = torch.arange(len(reached))
        item = int(place[node])
        if by == "nodes":
            single = EditBatch.remove_nodes(place[ids])
        else:
            inside = (place[problem.edge_index.cpu()] >= 0).all(dim=0)
            edge = (inside.long().cumsum(0) - 1)[whole.edge]
            single = EditBatch.remove_edges(whole.edge_ptr, edge)
    single = single.to(effects.before.device)
    candidates = Candidates(by, ids, single, whole)
    return FlipSearch(effects, node, asked, prepared, item, now, to, candidates)


def _edges_within(session: Session, reached: Tensor) -> tuple[Tensor, EditBatch]:
    """Positions of the edges between reached nodes `[n]`, and their removals."""
    every = EditBatch.remove_edges(*session.edge_units)
    first = every.edge[every.edge_ptr[:-1]]  # all ids of an edge have the same ends
    ends = session.problem(uses_model=False).edge_index.cpu()[:, first]
    places = torch.isin(ends, reached).all(dim=0).nonzero().flatten()
    return places, every.pick(places)


def _part(effects: Effects, reached: Tensor, node: int) -> Problem | None:
    """The part of the graph within reach; None where the node's prediction differs there."""
    problem = effects.problem
    if effects.engine is None or problem.by_id or problem.transform is not None:
        return None
    if not effects.engine.program.guards.safe(2, within=reached):
        return None  # of a part so small the model may do something else
    inside = torch.isin(problem.edge_index.cpu(), reached).all(dim=0)
    try:
        data = problem.without(kept(reached, problem.num_nodes).nonzero().flatten())
        part = replace(
            problem,
            data=data,
            nodes=torch.arange(len(reached)),
            original=None,
            checked_removals={},
        )
        before = part.predict()
    except MISFIT:
        return None  # a type may have no node left, or the model may want more of them
    error = float((before[int((reached == node).nonzero())] - effects.before[node]).abs().max())
    same = part.edge_index.size(1) == int(inside.sum()) and error <= tolerated(before.dtype)
    return part if same else None


def _smallest(
    search: FlipSearch, at_most: int, budget: int
) -> tuple[Tensor, int, tuple[int, int, int]]:
    """The smallest set found (places of candidates), how many singles flip, and pairs: all, tried, flip."""
    count = len(search.candidates)
    none, every = torch.empty(0, dtype=torch.long), count * (count - 1) // 2
    singles = torch.arange(count).unsqueeze(1)
    margin, flips = search.tried(singles)
    found = search.confirmed(singles, margin, flips)
    if found is not None:
        return found, int(flips.sum()), (every, 0, 0)
    if at_most == 1 or count < 2:
        return none, 0, (every, 0, 0)
    order = margin.argsort(stable=True)
    # So many of the most likely have no more pairs than may be tried.
    likely = count if every <= budget else int((1 + (1 + 8 * budget) ** 0.5) / 2)
    sets = order[torch.combinations(torch.arange(likely), 2)]
    search = search.ready_for(len(sets))
    margin, flips = search.tried(sets)
    found = search.confirmed(sets, margin, flips)
    if found is not None:
        return found, 0, (every, len(sets), int(flips.sum()))
    tried = (every, len(sets), 0)
    best = sets[margin.argmin()] if len(sets) else order[:1]
    while len(best) < min(at_most, count):
        others = torch.arange(count)[~torch.isin(torch.arange(count), best)]
        larger = torch.cat([best.expand(len(others), -1), others.unsqueeze(1)], dim=1)
        margin, flips = search.tried(larger)
        found = search.confirmed(larger, margin, flips)
        if found is not None:
            return _shrunk(search, found), 0, tried
        best = larger[margin.argmin()]
    return none, 0, tried


def _shrunk(search: FlipSearch, found: Tensor) -> Tensor:
    """The same without what is not needed, one at a time."""
    while len(found) > 1:
        fewer = torch.stack([torch.cat([found[:at], found[at + 1 :]]) for at in range(len(found))])
        less = search.confirmed(fewer, *search.tried(fewer))
        if less is None:
            return found
        found = less
    return found


def _named(session: Session, candidates: Candidates, found: Tensor) -> tuple[Any, ...]:
    """The removed as results name them, sorted."""
    ids = candidates.ids[found].sort().values
    if candidates.by == "nodes":
        return session.node_index.named(ids.tolist())
    listed = named_edges(session.every_edge)
    return tuple(listed[at] for at in ids.tolist())
