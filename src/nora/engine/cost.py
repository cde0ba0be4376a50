"""Predict what preparing an engine takes, from the model's traces on two small graphs.

Operations are the same on every graph, and their results have a row per node, per edge, or neither. So the
trace of a small graph predicts the size of each result on the large one. A pass of the model itself cannot be
split: if it makes a row per edge, all of these rows are in memory at once, whatever the memory limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.engine.ir.op import EVERYWHERE
from nora.engine.program import Program
from nora.engine.trace.aliasing import schema_facts
from nora.engine.trace.model import record_on, tensors_of
from nora.engine.trace.samples import sample_graphs
from nora.graph.node_index import Graph, global_edges, node_index_of
from nora.memory import in_words
from nora.model import Problem

# Numbers of 8 bytes per edge and per node that edges and spaces hold: in memory at most, and on disk.
PER_EDGE, PER_NODE = 16, 12
KEPT_PER_EDGE, KEPT_PER_NODE = 12, 10
# Whole values that are held while one is made, and that are kept of every one that a layer makes.
AT_ONCE, KEPT = 4, 2.5
# What Python and torch take; what a pass takes of what its largest operation reads and makes, since torch
# sorts ids on the way; and whole values that are held meanwhile.
PROCESS, IN_PASS, HELD = 400 * 10**6, 1.25, 2
# Operations whose results are the layers' own.
LAYERS = ("mm", "addmm", "bmm", "index_add", "scatter_add", "scatter_reduce", "spmm", "_sparse_mm")


@dataclass(frozen=True)
class PreparationCost:
    """Approximate cost of preparing an engine.

    Attributes:
        memory: Peak memory in bytes.
        disk: Size of the folder in bytes.
        of_model: The part of the memory that a pass of the model itself takes.
    """

    memory: int
    disk: int
    of_model: int

    def __str__(self) -> str:
        return (
            f"about {in_words(self.disk)} on disk and {in_words(self.memory)} of memory, of which "
            f"{in_words(self.of_model)} are for a pass of the model itself"
        )


def preparation_cost(problem: Problem) -> PreparationCost:
    """Estimate the cost of preparing an engine for a question; the model runs on two small graphs."""
    made = sample_graphs(problem)
    problem.run(problem.asked(*made[0][:2]))  # the first pass is made on copies
    traces = [record_on(problem, data, task) for data, task, _ in made]
    sizes = _Sizes([problem.data, *(data for data, _, _ in made)])
    largest, layers, widest = 0, 0, 0
    bytes_of: dict[int, int] = {}
    for first, second in zip(traces[0].ops, traces[1].ops, strict=False):
        total = 0
        for number, dtype, one, other in zip(
            first.outs, first.dtypes, first.shapes, second.shapes, strict=False
        ):
            if number is None or dtype is None:
                continue
            size, of_nodes = sizes.bytes(dtype, one, other)
            bytes_of[number] = size
            if schema_facts(first.func).is_view:  # a window on what is there already
                source = next((bytes_of.get(ref.id, size) for ref in first.refs()), size)
                bytes_of[number] = min(size, source)
                continue
            total += size
            if of_nodes and dtype.is_floating_point:
                widest = max(widest, size)
                layers += size if first.name in LAYERS else 0
        read = {ref.id: bytes_of.get(ref.id, 0) for ref in first.refs()}
        largest = max(largest, total + sum(read.values()))
    given = sum(tensor.nbytes for tensor in _strided(problem.data))
    structure = 8 * (PER_EDGE * sizes.edges[0] + PER_NODE * sizes.nodes[0])
    kept = 8 * (KEPT_PER_EDGE * sizes.edges[0] + KEPT_PER_NODE * sizes.nodes[0])
    # A pass to compare with is one of the graph without a node: a second graph, beside a few outputs.
    compared = IN_PASS * largest + given + HELD * widest
    memory = PROCESS + given + max(compared, structure + AT_ONCE * widest)
    return PreparationCost(int(memory), int(given + kept + KEPT * layers), int(largest))


def _strided(data: Graph) -> list[Tensor]:
    return [one for one in tensors_of(data).values() if one.layout == torch.strided]


class _Sizes:
    """Numbers of nodes and edges of several graphs, the given one first, by which sizes are recognised."""

    def __init__(self, graphs: list[Any]) -> None:
        self.nodes = [node_index_of(data).total for data in graphs]
        self.edges = [global_edges(data, node_index_of(data)).size(1) for data in graphs]

    def bytes(
        self, dtype: torch.dtype, one: tuple[int, ...], other: tuple[int, ...]
    ) -> tuple[int, bool]:
        """Bytes of a result on the given graph, and whether it has a row per node."""
        total, of_nodes = float(dtype.itemsize), False
        for a, b in zip(one, other, strict=False):
            if a == b:
                total *= a
                continue
            of_nodes = of_nodes or (a, b) == (self.nodes[1], self.nodes[2])
            total *= self._scaled(a, b)
        return int(total), of_nodes

    def _scaled(self, a: int, b: int) -> float:
        """A size that is `a` and `b` on the small graphs, as multiples of their nodes and edges."""
        (n, n1, n2), (e, e1, e2) = self.nodes, self.edges
        across = n1 * e2 - n2 * e1
        if across:
            per_edge = (n1 * b - n2 * a) / across
            per_node = (a - per_edge * e1) / n1
            if min(per_edge, per_node) > -0.1:
                return per_node * n + per_edge * e
        return a * max(n / n1, e / max(e1, 1))


def bytes_of_removals(program: Program, size: int, pairs: int = 0) -> Tensor:
    """Generous estimate of the bytes each node's removal takes on its way through a program `[N]`.

    Args:
        program: The program.
        size: Bytes per number.
        pairs: How many pairs are scored from the program's output.
    """
    n = program.num_nodes
    source, target = program.hops()
    other = source != target
    if not bool(other.all()):
        source, target = source[other], target[other]
    bounded = [op.output.depth for op in program.ops if op.output.depth < EVERYWHERE]
    deepest = max(bounded, default=0) + 1
    ends = source.numpy(), target.numpy()
    walks: Any = np.ones(n)
    ball = [torch.ones(n, dtype=torch.double)]
    for _ in range(deepest + 1):
        walks = np.bincount(ends[0], weights=walks[ends[1]], minlength=n)
        ball.append(ball[-1] + torch.from_numpy(walks))
    bytes_ = torch.zeros(n, dtype=torch.double)
    degree = (len(source) + n) / max(n, 1)
    for op in program.ops:
        depth, space = op.output.depth, op.output.space
        if depth < 0:
            continue
        most = float(max(space.size, n))
        width = size * op.output.width + 32
        if depth >= EVERYWHERE:
            bytes_ += most * width
            continue
        per_node = max(1.0, space.size / max(n, 1))
        bytes_ += (ball[depth] * per_node).clamp(max=most) * width
        bytes_ += ball[depth + 1].clamp(max=degree * n) * 32
    if pairs:
        density = 2 * pairs / max(n, 1)
        reached = torch.full((n,), float(n), dtype=torch.double)
        if program.output.depth < EVERYWHERE:
            reached = ball[-2].clamp(max=n)
        bytes_ += (reached * density).clamp(max=pairs) * 96
    return bytes_
