"""Which edits the engine can answer, seen once to give what the definition gives."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from nora.engine.changed import Changed, Gained, Removals
from nora.engine.edges import Edges
from nora.engine.engine import Engine
from nora.engine.plan import Plan
from nora.engine.steps.step import Value
from nora.engine.verification import tolerated
from nora.problem.edge_lookup import EdgeLookup
from nora.problem.edit_resolution import Gained as GainedEdges
from nora.problem.edit_resolution import Resolved
from nora.problem.edited import predict_after
from nora.stacklevel import warn

# How many edits of a kind are compared with the definition before the first answer.
COMPARED = 3


def edges_of(plan: Plan) -> list[Edges]:
    """The edges of all convolutions that are followed as one piece."""
    found = (getattr(step, "edges", None) for step in plan.steps)
    return [edges for edges in found if isinstance(edges, Edges)]


def cannot_lose(plan: Plan, numbers: Tensor) -> str:
    """Why edges cannot be taken away by themselves; empty if they can."""
    if plan.unsure_of_edges:
        return plan.unsure_of_edges
    for edges in edges_of(plan):
        if edges.number is None:
            return "a rule makes edges of its own, and does not say of which"
        if edges.opaque is not None and bool(torch.isin(edges.opaque, numbers).any()):
            return "without its own self-loop a node gets another weight"
    return ""


def cannot_gain(plan: Plan, done: Resolved) -> str:
    """Why edges cannot come; empty if they can."""
    if done.added:
        return "a node comes"
    if set(done.gained) - {None}:
        return "edges come that have a type"
    if any(gained.attributes for gained in done.gained.values()):
        return "edges come that something is said of"
    values = [value for step in plan.steps for value in (*step.inputs, step.output)]
    if any(value.space.origin is not None for value in values):
        return "a convolution without a rule would have to read the new edges"
    if not all(edges.plain and edges.number is not None for edges in edges_of(plan)):
        return "a convolution uses some edges only, or weighs them"
    return ""


def cannot_change(plan: Plan, done: Resolved) -> str:
    """Why features cannot change; empty if they can."""
    for kind in done.features:
        value = plan.features.get(kind)
        if value is None:
            return "the features are not read as rows of nodes"
        if value in set(_made_of(plan.frozen)):
            return "the model picks rows or edges, or weighs edges, by what features say"
    return ""


def _made_of(values: Iterable[Value]) -> Iterable[Value]:
    """The values, and everything they are made of."""
    seen: dict[int, Value] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            waiting += value.step.inputs if value.step is not None else ()
    return seen.values()


def as_removals(done: Resolved, device: torch.device) -> Removals:
    """One edit as the engine takes it."""
    found = Removals.group(done.removed.to(device), done.numbers.to(device))
    gained = None
    if done.gained:
        source, target = done.gained[None].edges.to(device)
        gained = Gained(torch.tensor([0, len(source)], device=device), source, target)
    features = {
        kind: Changed(torch.tensor([0, len(ids)], device=device), ids.to(device), rows.to(device))
        for kind, (ids, rows) in done.features.items()
    }
    return Removals(found.ptr, found.node, found.edge_ptr, found.edge, gained, features)


def why_not(engine: Engine, done: Resolved) -> str:
    """Why the engine cannot tell the effect of an edit; empty if it can.

    The first edit of each kind is preceded by a comparison of a few such edits with the definition.
    """
    plan = engine.plan
    kinds = {
        "edges": (len(done.numbers) > 0, lambda: cannot_lose(plan, done.numbers)),
        "new edges": (bool(done.come or done.added), lambda: cannot_gain(plan, done)),
        "features": (bool(done.features), lambda: cannot_change(plan, done)),
    }
    for kind, (asked, reason) in kinds.items():
        if not asked:
            continue
        told = reason()
        if told:
            return told
        if kind not in plan.compared:
            plan.compared[kind] = _compared(engine, kind)
            if plan.compared[kind]:
                warn(
                    f"exact does not give what the definition gives after a change of {kind} "
                    f"({plan.compared[kind]}): such edits take a full pass each",
                    RuntimeWarning,
                )
        if plan.compared[kind]:
            return plan.compared[kind]
    return ""


@torch.no_grad()
def _compared(engine: Engine, kind: str) -> str:
    """What is wrong with a few edits of a kind; empty if nothing is."""
    problem, generator = engine.problem, torch.Generator().manual_seed(0)
    for done in _examples(engine, kind, generator):
        if kind == "edges" and cannot_lose(engine.plan, done.numbers):
            continue
        truth = predict_after(problem, engine.before, done)
        try:
            found = engine.effect_of(as_removals(done, engine.before.device))
        except Exception as failed:  # a step in a case that it does not know
            return str(failed).splitlines()[0] if str(failed) else type(failed).__name__
        apart = (found - truth.predictions)[truth.survivors].abs().nan_to_num(torch.inf)
        error = float(apart.max()) if apart.numel() else 0.0
        if not error <= tolerated(found.dtype) * problem.task.scale(engine.before):
            return f"predictions differ by up to {error:.2g}"
    return ""


def _examples(engine: Engine, kind: str, generator: torch.Generator) -> Iterable[Resolved]:
    """Edits to compare: at the node with most edges, and at random ones."""
    problem = engine.problem
    edges = problem.edge_index.cpu()
    none = torch.empty(0, dtype=torch.long)
    count = edges.size(1)
    if kind == "edges" and count:
        at_node = torch.bincount(edges.flatten(), minlength=problem.num_nodes)
        hub = int(at_node[edges].sum(dim=0).argmax())
        others = torch.randint(count, (COMPARED - 1,), generator=generator).tolist()
        lookup = EdgeLookup(problem.data)
        for number in dict.fromkeys([hub, *others]):
            for key, column in lookup.columns(torch.tensor([number])).items():
                if len(column):
                    named = lookup.named({key: lookup.types[key].edges.cpu()[:, column]})
                    yield Resolved(none, named, lookup.numbers(named), {}, {})
    elif kind == "new edges":
        n = problem.num_nodes
        some = torch.randint(n, (2, 3 * COMPARED), generator=generator)
        new = ~EdgeLookup(problem.data).types[None].holds(some) & (some[0] != some[1])
        pairs = some[:, new][:, :COMPARED]
        if pairs.numel():
            both = torch.cat([pairs, pairs.flip(0)], dim=1)
            yield Resolved(none, {}, none, {None: pairs}, {None: GainedEdges(both, {})})
    elif kind == "features":
        for node_type, value in engine.plan.features.items():
            x = value.whole().cpu()
            ids = torch.randint(len(x), (min(COMPARED, len(x)),), generator=generator).unique()
            from_ = torch.randint(len(x), (len(ids),), generator=generator)
            rows = x[from_] + x[ids] if x.is_floating_point() else x[from_]
            yield Resolved(none, {}, none, {}, {}, {node_type: (ids, rows)})
