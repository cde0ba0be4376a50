"""Compiles a model: trace it on several graphs, align the traces, lower them, optimise the program.

The program's output is compared with the model's own. Convolutions that have a lowering are lowered as one;
if that does not reproduce the model, everything is lowered operation by operation.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nora.engine.exec.edge_templates import Templates
from nora.engine.guards import Guards
from nora.engine.ir.op import Value
from nora.engine.ir.space import Space
from nora.engine.lower.bindings import Notes
from nora.engine.lower.builder import Builder
from nora.engine.lower.calls import Calls, watched_modules
from nora.engine.lower.graph_inputs import Extent, GraphInputs
from nora.engine.lower.known import Layout, Matrix, Picked, Pointers, Uniform
from nora.engine.lower.lower_program import lower_program
from nora.engine.lower.lowerings import is_ours, lowering_of
from nora.engine.passes.optimise import optimise
from nora.engine.program import Program
from nora.engine.rounding import same
from nora.engine.store.array_store import ArrayStore, moved
from nora.engine.trace.align import CoincidenceError, align
from nora.engine.trace.model import TracedCall, TraceInput, decodes, trace_on
from nora.engine.trace.samples import sample_graphs, without_one
from nora.engine.trace.sizes import RecordedSizes, sizes_of, with_sizes
from nora.engine.trace.trace import Ref, Trace
from nora.engine.unsupported import UnsupportedError, described
from nora.graph.node_index import Graph
from nora.model import Problem
from nora.model.checks import check_same
from nora.model.preserve import another_random_state
from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction
from nora.stacklevel import warn

# How often other graphs are drawn, where numbers that mean different things are the same on all.
DRAWS = 3


@dataclass(frozen=True)
class SavedTraces:
    """The part of the traces that compiles the model again without tracing it on large graphs.

    Attributes:
        rules: Whether convolutions that have a lowering are lowered as one.
        extents: How large every traced graph is, the asked one first.
        sizes: The numbers on the traces of all but the small graphs.
        samples: The small graphs, with the task on each.
    """

    rules: bool
    extents: list[Extent]
    sizes: list[RecordedSizes]
    samples: list[tuple[Graph, Task]]


def describe_model(problem: Problem, notes: Notes) -> None:
    """Compile a model once more and note what is made of it; does not stop at what cannot be lowered."""
    try:
        program = lower_model(problem, notes=notes)
    except UnsupportedError as reason:
        notes.blockers.append(str(reason))
        return
    notes.passes.append(("lowered", len(program.ops)))
    if not notes.blockers:
        optimise(program, lambda name, count: notes.passes.append((name, count)))
        alive = {op.output for op in program.ops}
        notes.all_rows = {value: line for value, line in notes.all_rows.items() if value in alive}


def traced_call(problem: Problem) -> TracedCall | None:
    """How to call the model in the first pass, so that compiling it needs no other pass over `G`.

    None on small graphs, where a second pass shows that the model is deterministic, and where the scores of
    pairs are traced, too.
    """
    if not problem.is_large or decodes(problem):
        return None
    return TracedCall(problem, watched_modules(problem.model, rules=True))


def compile_model(
    problem: Problem, array_store: ArrayStore | None = None, first: Trace | None = None
) -> Program:
    """The program of the problem's model on its graph; call it in eval mode, without gradients.

    Args:
        problem: The question.
        array_store: Collects arrays and traces, to save them.
        first: The trace of a pass over `G` that was made before; see `traced_call`.

    Raises:
        UnsupportedError: When the model cannot be compiled; the message names where.
    """
    output = problem.output()
    if decodes(problem) and not problem.direct:
        assert isinstance(problem.task, LinkPrediction)
        output = problem.task.scores_of(output)
    for rules in (True, False):
        program = lower_model(problem, rules, array_store, first=first)
        try:
            optimise(program)
        except Exception as error:  # an operation that does not run must not end the user's run
            reason = f"an operation of the program does not run ({described(error)})"
            if rules:
                warn(f"{reason}: layers are lowered operation by operation", RuntimeWarning)
                continue
            raise UnsupportedError(reason) from error
        if same(program.output.base_rows(), output):
            return program
        if rules:
            _warn_of_rules(problem.model)
    raise UnsupportedError("the program's output differs from the model's")


def _warn_of_rules(model: nn.Module) -> None:
    """Warn where a user's own rule gives something else than the model."""
    own = {
        type(module).__name__
        for module in model.modules()
        if (found := lowering_of(module)) is not None and not is_ours(found.function)
    }
    if own:
        warn(
            f"what the rule for {', '.join(sorted(own))} makes of this graph is not what the model gives: "
            "the model is followed without rules, operation by operation",
            RuntimeWarning,
        )


def lower_model(
    problem: Problem,
    rules: bool = True,
    array_store: ArrayStore | None = None,
    notes: Notes | None = None,
    first: Trace | None = None,
) -> Program:
    """The program of a model before any pass.

    Args:
        problem: The question.
        rules: Lower convolutions that have a lowering as one.
        array_store: Collects arrays and traces, to save them.
        notes: Takes note of what becomes of the operations, and of all that cannot be lowered.
        first: The trace of a pass over `G`, if there is one.
    """
    watched = watched_modules(problem.model, rules and not problem.by_id)
    given: list[TraceInput] = [(problem.data, problem.task, None)]
    if first is None:
        with another_random_state():
            first, output = trace_on(problem, given[0], watched, part=False)
        check_same(problem, output)
    traces = [replace(first, calls=[call for call in first.calls if call.name in watched])]

    def trace_more(graphs: list[TraceInput]) -> None:
        with another_random_state():
            traces.extend(trace_on(problem, graph, watched, part=True)[0] for graph in graphs)

    if not problem.is_large:
        given += without_one(problem)
        trace_more(given[1:])
    if len(given) > 1 and not _aligns(traces):
        # Without the hub the model takes another branch; others may leave it on this one.
        del traces[1:]
        given[1:] = without_one(problem, hub=False)
        trace_more(given[1:])
    known = problem.checked_removals
    known |= {node: replace(one, output=moved(one.output)) for node, one in known.items()}
    for draw in range(DRAWS):
        del traces[len(given) :]
        graphs = [*given, *sample_graphs(problem, draw)]
        trace_more(graphs[len(given) :])
        extents = [Extent.of(problem, data, task) for data, task, _ in graphs]
        try:
            with nullcontext() if array_store is None else array_store.walking():
                program = _lowered(problem, extents, traces, notes or Notes())
            if array_store is not None:
                sizes = [sizes_of(trace) for trace in traces[: len(given)]]
                small = [(data, task) for data, task, _ in graphs[len(given) :]]
                array_store.traces = SavedTraces(rules, extents, sizes, small)
            return program
        except CoincidenceError:
            if draw == DRAWS - 1:
                raise
    raise AssertionError


def _aligns(traces: list[Trace]) -> bool:
    """Whether the traces hold the same program."""
    try:
        align(traces)
    except CoincidenceError:
        return True
    except UnsupportedError:
        return False
    return True


def lower_again(problem: Problem, traces: SavedTraces, array_store: ArrayStore) -> Program:
    """Lower the model again from saved traces: it runs on the small graphs only, and arrays are restored.

    Raises:
        OtherTraceError: When the model does something else than was traced.
    """
    watched = watched_modules(problem.model, traces.rules and not problem.by_id)
    problem.run(problem.asked(*traces.samples[0]))  # the first pass is made on copies
    small = [
        trace_on(problem, (data, task, None), watched, part=True)[0]
        for data, task in traces.samples
    ]
    large = [with_sizes(small[0], sizes) for sizes in traces.sizes]
    with array_store.walking():
        return _lowered(problem, traces.extents, [*large, *small], Notes())


def _lowered(problem: Problem, extents: list[Extent], traces: list[Trace], notes: Notes) -> Program:
    """The program of what the traces have in common."""
    inputs, traced = GraphInputs(problem, extents), align(traces)
    known = {name: inputs.known[name] for name in traced.inputs}
    nodes, total = list(inputs.nodes.values()), inputs.all_nodes.size
    notes.begin(traced)
    builder = Builder(traced, known, inputs.all_nodes, nodes, inputs.spaces, total, notes)
    index = problem.node_index
    starts = index.starts if index.types else {}
    try:
        lower_program(builder, Calls(builder, starts).lower)
    except CoincidenceError:
        raise
    except UnsupportedError as reason:
        raise UnsupportedError("; ".join([str(reason), *notes.failures])) from reason
    output = _output(builder, inputs)
    for name, one in known.items():
        if isinstance(one, Matrix) and one.space.origin is None:
            builder.unsure(f"adj_t has other edges than edge_index ({name})")
            break
    guards = Guards(total, [*builder.nodes, *builder.spaces], builder.guards)
    if guards.mostly_broken:
        raise UnsupportedError(f"for most removals {guards.mostly_broken}")
    return Program(
        total,
        builder.ops,
        output,
        Templates(inputs.edges, starts, inputs.of_edges),
        guards,
        features=inputs.features,
        attributes=inputs.of_nodes,
        structure=builder.structure,
        edge_inputs=list(builder.conv_edges.values.values()),
        unsure_of_edges=builder.unsure_of_edges,
    )


def _output(builder: Builder, inputs: GraphInputs) -> Value:
    """The model's output as rows of all nodes or of the pairs."""
    ref = builder.traced.output
    if not isinstance(ref, Ref):
        raise UnsupportedError("the model does not return one tensor")
    if ref.id in builder.unknown:
        raise UnsupportedError(builder.unknown[ref.id])
    found = builder.known[ref.id]
    if isinstance(found, Uniform | Tensor):
        raise UnsupportedError("the model's output does not depend on the graph")
    wanted = None
    if decodes(inputs.problem):
        wanted = next(space for space in inputs.spaces if space.label == "pairs")
    if isinstance(found, Matrix | Picked | Pointers) or found.layout != Layout(0) or found.ids:
        raise UnsupportedError("the model's output is not one row per node")
    space = found.space
    fits = space is (wanted or inputs.all_nodes) or (
        wanted is None and _is_all_nodes(space, inputs.all_nodes)
    )
    if not fits:
        raise UnsupportedError(f"the model's output has rows of {space.label}")
    return found.value


def _is_all_nodes(space: Space, nodes: Space) -> bool:
    if space.size != nodes.size or space.ends.size(0) < 1:
        return space.size == nodes.size and space.everlasting and nodes.everlasting
    return bool((space.ends == torch.arange(nodes.size)).all())
