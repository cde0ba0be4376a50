"""Which edits the engine can answer, seen once to give what the definition gives."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from nora.engine.engine import Engine
from nora.engine.exec.added_edges import Arrivals
from nora.engine.exec.edge_templates import CannotComeError
from nora.engine.ir.changed_rows import ChangedRows, Gained, Removals
from nora.engine.ir.edges import Edges
from nora.engine.ir.op import Value
from nora.engine.program import Program
from nora.engine.rounding import tolerated
from nora.graph.edge_lookup import EdgeLookup, EdgeType
from nora.graph.edge_sets import edge_companions
from nora.graph.edit_resolution import Gained as GainedEdges
from nora.graph.edit_resolution import Resolved
from nora.model import Problem
from nora.model.edited import predict_after
from nora.stacklevel import warn

# How many edits of a kind are compared with the definition before the first answer.
COMPARED = 3


def edges_of(program: Program) -> list[Edges]:
    """The edges of all convolutions that are followed as one piece."""
    found = (getattr(op, "edges", None) for op in program.ops)
    return [edges for edges in found if isinstance(edges, Edges)]


def cannot_lose(program: Program) -> str:
    """Why edges cannot be taken away by themselves; empty if they can."""
    if program.unsure_of_edges:
        return program.unsure_of_edges
    for edges in edges_of(program):
        if edges.number is None:
            return "a rule makes edges of its own, and does not say of which"
        if edges.own_loops is not None and len(edges.own_loops[0]) and edges.comes is None:
            return "without its own self-loop a node gets another weight"
    return ""


def cannot_gain(program: Program, done: Resolved) -> str:
    """Why edges cannot come; empty if they can."""
    if done.added:
        return "a node comes"
    if program.unsure_of_edges:
        return program.unsure_of_edges
    said = {
        id(value) for _, name, value in program.templates.given.values() if name != "edge_index"
    }
    said |= {id(value) for value in program.attributes}
    if any(id(value) in said for value in _made_of(program.structure)):
        return "the model picks rows or edges by what is said of nodes or edges"
    try:
        arrivals = Arrivals(program.templates, gained_of(program, done), 1)
        if arrivals.loops and not by_rules_alone(program):
            return "a self-loop comes, which the model may leave out"
        arrivals.check(program)
    except CannotComeError as reason:
        return str(reason)
    return ""


def gained_of(program: Program, done: Resolved) -> tuple[Gained, ...]:
    """The edges that come with an edit, in global ids."""
    found = []
    for key, gained in done.gained.items():
        source, target = gained.edges + program.templates.shift(key)
        found.append(Gained(key, torch.tensor([0, len(source)]), source, target, gained.attributes))
    return tuple(found)


def by_rules_alone(program: Program) -> bool:
    """Whether rules follow everything that is done with edges, and take the graph's own."""
    given = program.templates.given.values()
    own = {id(value.space) for _, name, value in given if name in ("edge_index", "adj_t")}
    rows = (value for op in program.ops for value in (*op.inputs, op.output))
    return all(value.space.origin is None for value in rows) and all(
        edges.comes is not None and id(edges.comes.space) in own for edges in edges_of(program)
    )


def cannot_change(program: Program, done: Resolved) -> str:
    """Why features cannot change; empty if they can."""
    for kind in done.features:
        value = program.features.get(kind)
        if value is None:
            return "the features are not read as rows of nodes"
        if value in set(_made_of([*program.structure, *program.told])):
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
            waiting += value.op.inputs if value.op is not None else ()
    return seen.values()


def as_removals(program: Program, done: Resolved, device: torch.device) -> Removals:
    """One edit as the engine takes it."""
    found = Removals.group(done.removed.to(device), done.numbers.to(device))
    features = {
        kind: ChangedRows(
            torch.tensor([0, len(ids)], device=device), ids.to(device), rows.to(device)
        )
        for kind, (ids, rows) in done.features.items()
    }
    gained = gained_of(program, done) if done.gained else ()
    return Removals(found.ptr, found.node, found.edge_ptr, found.edge, gained, features)


def why_not(engine: Engine, done: Resolved) -> str:
    """Why the engine cannot tell the effect of an edit; empty if it can.

    The first edit of each kind is preceded by a comparison of a few such edits with the definition.
    """
    program = engine.program
    kinds = {
        "edges": (len(done.numbers) > 0, lambda: cannot_lose(program)),
        _new_edges_of(done): (bool(done.come or done.added), lambda: cannot_gain(program, done)),
        "features": (bool(done.features), lambda: cannot_change(program, done)),
    }
    for kind, (asked, reason) in kinds.items():
        if not asked:
            continue
        told = reason()
        if told:
            return told
        if kind not in program.compared:
            program.compared[kind] = _compared(engine, kind, done)
            if program.compared[kind]:
                warn(
                    f"exact does not give what the definition gives after a change of {kind} "
                    f"({program.compared[kind]}): such edits take a full pass each",
                    RuntimeWarning,
                )
        if program.compared[kind]:
            return program.compared[kind]
    return ""


def _new_edges_of(done: Resolved) -> str:
    """New edges, by their types: what is right of one type need not be of another."""
    types = sorted(str(key) for key in done.gained if key is not None)
    return f"new edges {' and '.join(types)}".rstrip()


@torch.no_grad()
def _compared(engine: Engine, kind: str, asked: Resolved) -> str:
    """What is wrong with a few edits of a kind, like the one that is asked for; empty if nothing is."""
    problem, generator = engine.problem, torch.Generator().manual_seed(0)
    for done in _examples(engine, kind, asked, generator):
        truth = predict_after(problem, engine.before, done)
        try:
            found = engine.effect_of(as_removals(engine.program, done, engine.before.device))
        except Exception as failed:  # a op in a case that it does not know
            return str(failed).splitlines()[0] if str(failed) else type(failed).__name__
        apart = (found - truth.predictions)[truth.survivors].abs().nan_to_num(torch.inf)
        error = float(apart.max()) if apart.numel() else 0.0
        if not error <= tolerated(found.dtype) * problem.task.scale(engine.before):
            return f"predictions differ by up to {error:.2g}"
    return ""


def _examples(
    engine: Engine, kind: str, asked: Resolved, generator: torch.Generator
) -> Iterable[Resolved]:
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
    elif asked.gained and kind == _new_edges_of(asked):
        done = _new_edges(problem, set(asked.gained), generator)
        alone = Resolved(none, {}, none, asked.come, asked.gained)
        yield alone if not done.gained or cannot_gain(engine.program, done) else done
    elif kind == "features":
        for node_type, value in engine.program.features.items():
            x = value.whole().cpu()
            ids = torch.randint(len(x), (min(COMPARED, len(x)),), generator=generator).unique()
            from_ = torch.randint(len(x), (len(ids),), generator=generator)
            rows = x[from_] + x[ids] if x.is_floating_point() else x[from_]
            yield Resolved(none, {}, none, {}, {}, {node_type: (ids, rows)})


def _new_edges(problem: Problem, types: set[EdgeType], generator: torch.Generator) -> Resolved:
    """A few edges of some types, each in both directions between nodes of one type."""
    lookup, none = EdgeLookup(problem.data), torch.empty(0, dtype=torch.long)
    gained: dict[EdgeType, GainedEdges] = {}
    for key, own in lookup.types.items():
        count = own.edges.size(1)
        if key not in types or not count:
            continue
        some = torch.stack(
            [torch.randint(size, (3 * COMPARED,), generator=generator) for size in own.sizes]
        )
        same = key is None or key[0] == key[2]
        new = ~own.holds(some) & ((some[0] != some[1]) | (not same))
        pairs = some[:, new][:, :COMPARED]
        pairs = torch.cat([pairs, pairs.flip(0)], dim=1) if same else pairs
        like = torch.randint(count, (pairs.size(1),), generator=generator)
        store = problem.data if key is None else problem.data[key]
        said = {name: rows.cpu()[like] for name, rows in edge_companions(store).items()}
        if pairs.numel():
            gained[key] = GainedEdges(pairs, said)
    return Resolved(none, {}, none, {key: one.edges for key, one in gained.items()}, gained)
