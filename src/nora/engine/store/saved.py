"""A saved engine: everything that is computed once, written to disk and read when the engine is opened.

The process that opens it passes the model, which is traced again on small graphs. Rows, sums and sorted edges
are memory-mapped from the folder, shared by all processes of a machine. The new program must equal the saved
one, op by op, or the engine is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nora.artefact import DamagedError
from nora.engine.compile import SavedTraces, lower_again
from nora.engine.engine import Engine
from nora.engine.exec.kernels.backend import Backend
from nora.engine.ir.edges import Edges
from nora.engine.ir.op import Op, Value
from nora.engine.ir.space import Space
from nora.engine.lower.graph_inputs import Extent
from nora.engine.passes.optimise import optimise
from nora.engine.program import Program
from nora.engine.store.array_folder import Reader, Writer
from nora.engine.store.array_store import ArrayStore
from nora.engine.trace.samples import with_pairs
from nora.engine.trace.sizes import OtherTraceError
from nora.engine.unsupported import UnsupportedError
from nora.graph.graph_arrays import graph_document, graph_of
from nora.model import Problem
from nora.model.tasks.link_prediction import LinkPrediction

# What is the same for all questions about a model and graph, and takes a while.
OF_ENGINE = ("cost",)


def kept_engine(engine: Engine, array_store: ArrayStore, writer: Writer) -> dict[str, Any]:
    """Write an engine's arrays, and return its entry for the manifest.

    Args:
        engine: The engine, after a few removals: what is computed at the first one is kept as well.
        array_store: The store that was open while its program was made.
        writer: Where to.
    """
    traces = array_store.traces
    assert traces is not None
    read = _read_values(engine.program)
    attributes = {
        name: _attributes(one, read) for name, one in _named(engine.program, array_store).items()
    }
    attributes |= {name: {"made": tensors} for name, tensors in array_store.made.items()}
    attributes["engine"] = {name: getattr(engine, name) for name in OF_ENGINE}
    return {
        "objects": {
            name: {key: _written(value, writer) for key, value in own.items()}
            for name, own in attributes.items()
            if own
        },
        "notes": array_store.notes,
        "plan": _outline(engine.program, array_store),
        "stored": _stored(array_store),
        "recording": {
            "rules": traces.rules,
            "extents": [asdict(extent) for extent in traces.extents],
            "sizes": traces.sizes,
            "samples": [_sample(data, task, writer) for data, task in traces.samples],
        },
    }


def opened_engine(
    problem: Problem, backend: Backend, kept: Mapping[str, Any], reader: Reader
) -> Engine:
    """The engine of which this was kept, for the same model and graph.

    Raises:
        DamagedError: When following the model gives another program.
    """
    given = {
        name: {key: _read(value, reader.get) for key, value in own.items()}
        for name, own in kept["objects"].items()
    }
    array_store = ArrayStore(given, kept["notes"])
    recorded = kept["recording"]
    samples = [_sampled(problem, sample, reader) for sample in recorded["samples"]]
    extents = [_extent(extent) for extent in recorded["extents"]]
    traces = SavedTraces(recorded["rules"], extents, recorded["sizes"], samples)
    with torch.no_grad():
        try:
            program = lower_again(problem, traces, array_store)
        except (OtherTraceError, UnsupportedError) as error:
            raise DamagedError(
                f"{reader.folder}: the model's operations differ from the saved ones ({error})"
            ) from error
        for value, stored in zip(_values(array_store), kept["stored"], strict=True):
            value.stored = stored
        optimise(program)
        if _outline(program, array_store) != kept["plan"]:
            raise DamagedError(
                f"{reader.folder}: the program compiled from this model differs from the saved one: prepare "
                "the engine again"
            )
        for at, op in enumerate(program.ops):
            array_store.fill(f"final-{at}", op)
        engine = Engine(problem, program, problem.predict(), backend)
    vars(engine).update(given["engine"])
    return engine


def _values(array_store: ArrayStore) -> list[Value]:
    return [one for one in array_store.entered.values() if isinstance(one, Value)]


def _stored(array_store: ArrayStore) -> list[bool]:
    return [value.stored for value in _values(array_store)]


def _named(program: Program, array_store: ArrayStore) -> dict[str, Any]:
    """Everything that may hold arrays, by name."""
    return {**array_store.entered, **{f"final-{at}": op for at, op in enumerate(program.ops)}}


def _read_values(program: Program) -> set[int]:
    """The ids of the values whose rows may be read; the rows of others need not be kept."""
    found = {id(value) for value in (*program.structure, *program.edge_inputs, program.output)}
    ops = list(program.ops)
    while ops:
        op = ops.pop()
        found |= {id(value) for value in (*op.inputs, op.output, *op.needs())}
        for part in vars(op).values():
            ops += [part] if isinstance(part, Op) else []
            ops += [one for one in part if isinstance(one, Op)] if type(part) is list else []
    return found


def _attributes(one: Any, read: set[int]) -> dict[str, Any]:
    """The saved attributes of an object."""
    if isinstance(one, Value):
        found: dict[str, Any] = {} if one.like is None else {"like": one.like}
        if id(one) in read and one.op is not None and one.base is not None and one.stored:
            found["kept"] = one.base
        return found
    found = {
        name: value
        for name, value in vars(one).items()
        if isinstance(getattr(type(one), name, None), cached_property) and _can_be_kept(value)
    }
    if isinstance(one, Space | Edges):
        own = (each.name for each in fields(one))
        found |= {name: vars(one)[name] for name in own if isinstance(vars(one)[name], Tensor)}
    if isinstance(one, Space) and one._sorted:
        found["_kept_sorted"] = sum(((*csr, index) for index, csr in one._sorted.items()), ())
    return found


def _can_be_kept(value: Any) -> bool:
    if type(value) is tuple:
        return all(isinstance(part, Tensor) and part.layout == torch.strided for part in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, bool | int | Tensor)


def _written(value: Any, writer: Writer) -> Any:
    if isinstance(value, Tensor):
        return {"tensor": writer.add(value)}
    if isinstance(value, tuple):
        return {"tuple": [writer.add(part) for part in value]}
    return {"number": value}


def _read(value: dict[str, Any], give: Callable[[int], Tensor]) -> Any:
    if "tensor" in value:
        return give(value["tensor"])
    if "tuple" in value:
        return tuple(give(number) for number in value["tuple"])
    return value["number"]


def _outline(program: Program, array_store: ArrayStore) -> list[list[Any]]:
    """An outline of a program: the class, inputs, output and shape of every op."""
    names = {id(one): name for name, one in array_store.entered.items()}

    def described(value: Value) -> list[Any]:
        space = value.space
        return [names.get(id(value), "?"), value.depth, space.label, list(space.sizes)]

    return [
        [type(op).__name__, [described(value) for value in op.inputs], described(op.output)]
        for op in program.ops
    ]


def _extent(stored: dict[str, Any]) -> Extent:
    shapes = {name: tuple(shape) for name, shape in stored["shapes"].items()}
    return Extent(tuple(stored["counts"]), shapes, stored["entries"], stored["pairs"])


def _sample(data: Any, task: Any, writer: Writer) -> dict[str, Any]:
    """A small graph with the task on it."""
    kept: dict[str, Any] = {"graph": graph_document(data, writer.add)}
    if isinstance(task, LinkPrediction):
        kept["pairs"] = writer.add(task.pairs)
        kept["relation"] = None if task.relation is None else writer.add(task.relation)
    return kept


def _sampled(problem: Problem, kept: dict[str, Any], reader: Reader) -> tuple[Any, Any]:
    def give(number: int) -> Tensor:
        return reader.get(number).clone()

    data, task = graph_of(kept["graph"], give), problem.task
    if isinstance(task, LinkPrediction):
        relation = None if kept["relation"] is None else give(kept["relation"])
        task = with_pairs(task, give(kept["pairs"]), relation)
    return data, task
