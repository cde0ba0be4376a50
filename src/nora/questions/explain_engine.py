"""`nora.explain_engine`: how the exact engine compiles a model."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import nn

from nora.engine.compile import describe_model
from nora.engine.engine import Engine
from nora.engine.exec.kernels.choice import pick_backend
from nora.engine.ir.op import EVERYWHERE
from nora.engine.lower.bindings import Notes
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.graph.node_index import Graph
from nora.model import Transform
from nora.model.calling import Forward
from nora.model.task import Task
from nora.questions.session import Session
from nora.wording import duration

# Removals that are timed by the engine, and by full passes.
REMOVALS, PASSES = 64, 2


@dataclass(frozen=True)
class EngineReport:
    """How the exact engine compiles a model on a graph.

    Attributes:
        followed: `engine`, or `brute` if every removal takes a full pass.
        reasons: The unsupported operations, with their source lines.
        layers: Layers that are lowered as a whole, by their names in the model.
        failures: Lowerings of layers that raised an exception; these layers are lowered operation by
            operation.
        traced: Number of operations in one forward pass of the model.
        passes: Number of operations after each compiler pass, by the name of the pass.
        operations: Number of operations of the program, by kind.
        all_rows: Operations that are computed on all rows for every removal, with their source lines.
        reaches: Which nodes a removal can change: `nearby` or `all`.
        guards: Comparisons of sizes that are checked for every removal. If one fails, the removal takes a
            full pass.
        removal_seconds, pass_seconds: Seconds of one removal with the engine, and of a full pass.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> nora.explain_engine(run.model, run.data).reaches
        'nearby'
    """

    followed: Literal["engine", "brute"]
    reasons: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    traced: int = 0
    passes: tuple[tuple[str, int], ...] = ()
    operations: tuple[tuple[str, int], ...] = ()
    all_rows: tuple[str, ...] = ()
    reaches: Literal["nearby", "all", ""] = ""
    guards: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    removal_seconds: float | None = None
    pass_seconds: float | None = None

    @property
    def speedup(self) -> float | None:
        """How many times faster a removal is than a full pass; None if the model is not supported."""
        if self.removal_seconds is None or self.pass_seconds is None:
            return None
        return self.pass_seconds / max(self.removal_seconds, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as a JSON-compatible dictionary."""
        return {**asdict(self), "speedup": self.speedup}

    def __str__(self) -> str:
        took = "" if self.pass_seconds is None else f" ({duration(self.pass_seconds)} each)"
        if self.followed == "brute":
            lines = [f"exact takes one full pass per removal{took}. What blocks the engine:"]
            lines += [f"  - {reason}" for reason in self.reasons]
            lines += ["Change these lines, and only the rows that a removal changes are computed."]
            return "\n".join(lines)
        assert self.removal_seconds is not None
        lines = [
            f"exact supports the model: a removal takes {duration(self.removal_seconds)}, a full pass "
            f"{duration(self.pass_seconds or 0.0)} ({self.speedup:,.0f} times as long)."
        ]
        for title, found in (
            ("Layers lowered as one", self.layers),
            ("Computed on all rows for every removal", self.all_rows),
            ("Checked for every removal", self.guards),
            ("Lowerings that fail", self.failures),
        ):
            if found:
                lines += [f"{title}:", *(f"  - {one}" for one in found)]
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.operations)
        steps = " -> ".join(f"{count} ({name})" for name, count in self.passes)
        lines.append(f"Operations: {self.traced} in the model; {steps}: {kinds}.")
        if self.all_rows:
            lines.append(
                "Without operations on all rows, a removal would cost only what it changes nearby."
            )
        return "\n".join(lines)


def explain_engine(
    model: nn.Module,
    data: Graph,
    task: Task | None = None,
    *,
    forward: Forward | None = None,
    transform: Transform | None = None,
) -> EngineReport:
    """Report how the exact engine compiles a model, and which lines it does not support.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        task: What is predicted; node classification from logits by default.
        forward: `(model, data) -> output` for models not called as `model(x, edge_index)`.
        transform: `data -> data`, applied to the graph, and again to the graph without each node.

    Returns:
        A report; `print` shows it.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> nora.explain_engine(run.model, run.data).followed
        'engine'
    """
    session = Session(model, data, task, forward=forward, transform=transform, once=True)
    return report_of(session)


def report_of(session: Session) -> EngineReport:
    """The report of a session's model and graph."""
    problem, notes = session.problem(), Notes(collect=True)
    with problem.evaluating(), torch.no_grad():
        try:
            engine = Engine.prepare(problem, pick_backend("auto", problem, REMOVALS))
        except UnsupportedError as reason:
            describe_model(problem, notes)
            found = dict.fromkeys([str(reason), *notes.blockers])
            return EngineReport(
                "brute", tuple(found), traced=notes.traced, pass_seconds=_pass_seconds(problem)
            )
        describe_model(problem, notes)
        nodes = problem.nodes[:: max(1, len(problem.nodes) // REMOVALS)][:REMOVALS]
        engine.influences(EditBatch.remove_nodes(nodes[:1]))  # loops are compiled on first use
        start = time.perf_counter()
        engine.influences(EditBatch.remove_nodes(nodes))
        seconds = (time.perf_counter() - start) / len(nodes)
    program = engine.program
    kinds: dict[str, int] = {}
    for op in program.ops:
        kinds[type(op).__name__] = kinds.get(type(op).__name__, 0) + 1
    return EngineReport(
        "engine",
        layers=tuple(notes.layers),
        failures=tuple(notes.failures),
        traced=notes.traced,
        passes=tuple(notes.passes),
        operations=tuple(sorted(kinds.items())),
        all_rows=tuple(dict.fromkeys(notes.all_rows.values())),
        reaches="all" if program.output.depth >= EVERYWHERE else "nearby",
        guards=tuple(
            dict.fromkeys(f"a comparison at {one.line}" for one in program.guards.comparisons)
        ),
        removal_seconds=seconds,
        pass_seconds=_pass_seconds(problem),
    )


def _pass_seconds(problem: Any) -> float:
    """The seconds of a full pass."""
    with problem.evaluating(), torch.no_grad():
        start = time.perf_counter()
        for node in problem.nodes[:PASSES].split(1):
            problem.predict_without(node)
        return (time.perf_counter() - start) / max(1, len(problem.nodes[:PASSES]))
