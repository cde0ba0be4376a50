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
from nora.engine.ir.op import Chunk, Op, Value


@dataclass(eq=False)
class Program:
    """The operations of one model on one graph, and what is known of its inputs.

    Attributes:
        num_nodes: Number of nodes of all types.
        ops: The operations, in order.
        output: What they make.
        templates: What the model makes of the graph's edges.
        guards: What the program assumes of sizes.
        features: `x` of every node type that has one.
        attributes: What the graph says of nodes.
        structure: Values that rows or edges were picked by: where these change, others would be picked.
        edge_inputs: Values that lowerings of convolutions were given as edge weights or edge types.
        unsure_of_edges: Why edges cannot be removed or added by themselves; empty if they can.
        compared: Kinds of edits that were compared with brute force, and what was wrong.
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
        """Put base rows, which are read in no order, into large pages of memory."""
        for op in self.ops:
            for rows in (op.output.base, getattr(op, "total", None)):
                pages.use_large_pages(rows)

    def hops(self) -> tuple[Tensor, Tensor]:
        """Where a change can arrive in one hop, `[M]` each: nodes it comes from, nodes it reaches."""
        found: list[tuple[Tensor, Tensor]] = []
        for pair in (pair for op in self.ops for pair in op.hops()):
            if not any(pair[0] is a and pair[1] is b for a, b in found):  # layers share edges
                found.append(pair)
        if not found:
            none = torch.zeros(0, dtype=torch.long)
            return none, none
        key = torch.cat([a * self.num_nodes + b for a, b in found]).unique()
        return key // self.num_nodes, key % self.num_nodes

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
        """How chunks go through the operations."""
        return Executor.of(self.ops, self.output)
