"""Which edits the engine can answer; the first of each kind are compared with full passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from nora.engine.engine import Engine
from nora.engine.exec.added_edges import AddedRows
from nora.engine.exec.edge_templates import AddedEdgeError
from nora.engine.ir.edges import Edges
from nora.engine.ir.op import Value
from nora.engine.program import Program
from nora.engine.rounding import tolerated
from nora.engine.unsupported import described
from nora.graph.edge_lookup import EdgeLookup, EdgeType
from nora.graph.edge_sets import edge_companions
from nora.graph.edit_batch import EditBatch, store_of
from nora.model import Problem
from nora.model.edited import predict_after
from nora.stacklevel import warn

# How many edits of a kind are compared with the definition before the first answer.
COMPARED = 3


def convolution_edges(program: Program) -> list[Edges]:
    """The edges of all convolutions that were lowered by a rule."""
    found = (getattr(op, "edges", None) for op in program.ops)
    return [edges for edges in found if isinstance(edges, Edges)]


def unsupported_removed_edges(program: Program) -> str:
    """The reason why single edges cannot be removed; empty if they can."""
    if program.unsure_of_edges:
        return program.unsure_of_edges
    for edges in convolution_edges(program):
        if edges.edge_id is None:
            return "a rule makes new edges without naming the edges they come from"
        if edges.own_loops is not None and len(edges.own_loops[0]) and edges.for_added is None:
            return "a node without its own self-loop gets another weight"
    return ""


def unsupported_added_edges(program: Program, done: EditBatch) -> str:
    """The reason why edges cannot be added; empty if they can."""
    if done.added_nodes:
        return "a node is added"
    if program.unsure_of_edges:
        return program.unsure_of_edges
    given = program.templates.given.items()
    attributes = {value for value, (_, name) in given if name != "edge_index"}
    attributes.update(program.attributes)
    if any(value in attributes for value in _made_of(program.structure)):
        return "the model selects rows or edges by attributes of nodes or edges"
    try:
        added_rows = AddedRows(program.templates, done.added_edges, len(done))
        if added_rows.loops and not by_rules_alone(program):
            return "an added edge is a self-loop, which the model may ignore"
        added_rows.check(program)
    except AddedEdgeError as reason:
        return str(reason)
    return ""


def by_rules_alone(program: Program) -> bool:
    """Whether only rules use edges, and only the graph's own."""
    given = program.templates.given.items()
    own = {value.space for value, (_, name) in given if name in ("edge_index", "adj_t")}
    rows = (value for op in program.ops for value in (*op.inputs, op.output))
    return all(value.space.origin is None for value in rows) and all(
        edges.for_added is not None and edges.for_added.space in own
        for edges in convolution_edges(program)
    )


def unsupported_features(program: Program, done: EditBatch) -> str:
    """The reason why features cannot change; empty if they can."""
    for kind in done.features:
        value = program.features.get(kind)
        if value is None:
            return "the model does not read the features as one row per node"
        if value in set(_made_of([*program.structure, *program.edge_inputs])):
            return "the model selects rows or edges, or weights edges, by features"
    return ""


def _made_of(values: Iterable[Value]) -> Iterable[Value]:
    """The values, and all values from which they are computed."""
    seen: dict[Value, Value] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen[value] = value
            waiting += value.op.inputs if value.op is not None else ()
    return seen.values()


def unsupported_edits(engine: Engine, done: EditBatch) -> str:
    """The reason why the engine cannot answer edits; empty if it can.

    Before the first edit of each kind, a few such edits are compared with full passes.
    """
    program = engine.program
    kinds = {
        "edges": (len(done.edge) > 0, lambda: unsupported_removed_edges(program)),
        _new_edges_of(done): (
            bool(done.added_edges or done.added_nodes),
            lambda: unsupported_added_edges(program, done),
        ),
        "features": (bool(done.features), lambda: unsupported_features(program, done)),
    }
    for kind, (asked, reason) in kinds.items():
        if not asked:
            continue
        why = reason()
        if why:
            return why
        if kind not in program.compared:
            program.compared[kind] = _compared(engine, kind, done)
            if program.compared[kind]:
                warn(
                    f"exact differs from a full pass after a change of {kind} "
                    f"({program.compared[kind]}): every such edit takes a full pass",
                    RuntimeWarning,
                )
        if program.compared[kind]:
            return program.compared[kind]
    return ""


def _new_edges_of(done: EditBatch) -> str:
    """The name of new edges, by their types: each combination of types is compared by itself."""
    types = sorted(str(key) for key in done.added_edges if key is not None)
    return f"new edges {' and '.join(types)}".rstrip()


@torch.no_grad()
def _compared(engine: Engine, kind: str, asked: EditBatch) -> str:
    """The error of a few edits of a kind, compared with full passes; empty if there is none."""
    problem, generator = engine.problem, torch.Generator().manual_seed(0)
    for done in _examples(engine, kind, asked, generator):
        truth = predict_after(problem, engine.before, done)
        try:
            found = engine.effect_of(done.to(engine.before.device))
        except Exception as failed:  # an operation in a case that it does not know
            return described(failed)
        apart = (found - truth.predictions)[truth.survivors].abs().nan_to_num(torch.inf)
        error = float(apart.max()) if apart.numel() else 0.0
        if not error <= tolerated(found.dtype) * problem.task.scale(engine.before):
            return f"predictions differ by up to {error:.2g}"
    return ""


def _examples(
    engine: Engine, kind: str, asked: EditBatch, generator: torch.Generator
) -> Iterable[EditBatch]:
    """Edits to compare: at the node with most edges, and at random ones."""
    problem = engine.problem
    edges = problem.edge_index.cpu()
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
                    yield EditBatch.of(edges=lookup.edge_ids(named))
    elif asked.added_edges and kind == _new_edges_of(asked):
        done = _new_edges(problem, set(asked.added_edges), generator)
        alone = replace(EditBatch.of(), added_edges=asked.merge(len(asked)).added_edges)
        yield (
            alone if not done.added_edges or unsupported_added_edges(engine.program, done) else done
        )
    elif kind == "features":
        for node_type, value in engine.program.features.items():
            x = value.base_rows().cpu()
            ids = torch.randint(len(x), (min(COMPARED, len(x)),), generator=generator).unique()
            from_ = torch.randint(len(x), (len(ids),), generator=generator)
            rows = x[from_] + x[ids] if x.is_floating_point() else x[from_]
            yield EditBatch.of(features={node_type: (ids, rows)})


def _new_edges(problem: Problem, types: set[EdgeType], generator: torch.Generator) -> EditBatch:
    """A few edges of some types, each in both directions between nodes of one type."""
    lookup = EdgeLookup(problem.data)
    added: dict[EdgeType, tuple[Tensor, dict[str, Tensor]]] = {}
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
        attributes = edge_companions(store_of(problem.data, key))
        added[key] = pairs, {name: rows.cpu()[like] for name, rows in attributes.items()}
    return EditBatch.of(added_edges=added)
