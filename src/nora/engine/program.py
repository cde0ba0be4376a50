"""A program: the operations of one model on one graph."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nora.engine.exec.added_edges import AddedRows
from nora.engine.exec.edge_templates import Templates
from nora.engine.exec.executor import Executor
from nora.engine.exec.kernels import pages
from nora.engine.guards import Guards
from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import EVERYWHERE, Chunk, Op, Value


@dataclass(eq=False)
class Program:
    """The operations of one model on one graph.

    Attributes:
        num_nodes: Number of nodes of all types.
        ops: The operations, in order.
        output: The value they compute.
        templates: How the model uses the graph's edges.
        guards: What the program assumes of sizes.
        features: `x` of every node type that has one.
        attributes: The other node attributes.
        structure: Values by which rows or edges were selected; if they change, so does the selection.
        edge_inputs: Values that lowerings of convolutions were given as edge weights or edge types.
        unsure_of_edges: The reason why single edges cannot be removed or added; empty if they can.
        compared: Kinds of edits that were compared with brute force, with the error, if any.
    """

    num_nodes: int
    ops: list[Op]
    output: Value
    templates: Templates
    guards: Guards
    features: dict[Any, Value] = field(default_factory=dict)
    attributes: list[Value] = field(default_factory=list)
    structure: list[Value] = field(default_factory=list)
    edge_inputs: list[Value] = field(default_factory=list)
    unsure_of_edges: str = ""
    compared: dict[str, str] = field(default_factory=dict)

    def into_large_pages(self) -> None:
        """Move base rows, which are read in random order, into large pages of memory."""
        for op in self.ops:
            for rows in (op.output.base, getattr(op, "total", None)):
                pages.use_large_pages(rows)

    def hops(self) -> tuple[Tensor, Tensor]:
        """The pairs of nodes between which a change travels in one hop, `[M]` each: from, to.

        Parallel edges may be there several times.
        """
        found: list[tuple[Tensor, Tensor]] = []
        for pair in (pair for op in self.ops for pair in op.hops()):
            if not any(_same_ends(pair, other) for other in found):  # layers share edges
                found.append(pair)
        if not found:
            none = torch.zeros(0, dtype=torch.long)
            return none, none
        if len(found) == 1:
            return found[0]
        key = torch.cat([a * self.num_nodes + b for a, b in found]).unique()
        return key // self.num_nodes, key % self.num_nodes

    @property
    def is_local(self) -> bool:
        """Whether a removal changes only output rows within some hops of it."""
        return self.output.depth < EVERYWHERE

    def within_reach(self, nodes: Tensor) -> Tensor:
        """Mask `[N]` of these nodes and those whose removal can change their output rows, if it is local."""
        source, target = self.hops()
        reached = torch.zeros(self.num_nodes, dtype=torch.bool, device=source.device)
        reached[nodes] = True
        for _ in range(self.output.depth):
            reached[source[reached[target]]] = True
        return reached

    def run(self, chunk: Chunk) -> ChangedRows:
        """Changed rows of the output for a chunk of edits."""
        batch = chunk.edits
        edited = bool(batch.features)
        rows = {
            self.features[kind]: ChangedRows(one.ptr, one.node, one.rows)
            for kind, one in batch.features.items()
        }
        if batch.added_edges:
            added_rows = chunk.added_rows or AddedRows(
                self.templates, batch.added_edges, len(batch)
            )
            chunk = replace(chunk, added_rows=added_rows)
            rows |= added_rows.seeds(self.ops)
            edited = True
        return self.executor.run(chunk, rows, edited)

    @cached_property
    def executor(self) -> Executor:
        """The executor of the operations."""
        return Executor.of(self.ops, self.output)


def _same_ends(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> bool:
    return all(x is y or torch.equal(x, y) for x, y in zip(a, b, strict=True))
