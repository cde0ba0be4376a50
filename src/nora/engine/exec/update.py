"""An edit made for good: the rows that it changes are written back, and edges exchanged in place.

What was prepared stays prepared: every value gets its new rows as soon as no operation needs the original
ones (`Chunk.writes`), and the edges of convolutions lose and gain entries without being sorted again. A sum
is corrected by what changes, and made again before rounding errors can add up (see `Drift`). Nodes keep their
ids; one that goes loses its edges and stays as a row that is never read.

This is done where rules follow all that is done with edges, and nothing is about the graph as a whole.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from nora.engine.edit_support import by_rules_alone, convolution_edges
from nora.engine.engine import Engine
from nora.engine.exec.added_edges import AddedRows
from nora.engine.exec.edge_arrays import LiveEdges, exchanged
from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.edges import Edges
from nora.engine.ir.op import EVERYWHERE, Chunk, Op, RowOp, Value
from nora.engine.ops.aggregate import Aggregate, Attend
from nora.engine.ops.gather import Concat, Gather
from nora.engine.program import Program
from nora.graph.edit_batch import EditBatch


def cannot_write(program: Program) -> str:
    """Why rows cannot be written back; empty if they can."""
    if program.guards.comparisons:
        return f"the model's Python compares sizes at {program.guards.comparisons[0].line}"
    if not by_rules_alone(program):
        return "a convolution is followed without a rule"
    own = program.templates.lookup.types[None].edges.cpu()
    for space in program.guards.spaces:  # of which too few rows may be left (see `Guards`)
        whole = program.num_nodes if space.origin is None else own.size(1)
        if space.size < whole:
            return f"the model treats some of the rows apart: {space.label}"
    for edges in convolution_edges(program):
        rule = edges.for_added
        if edges.edge_id is None or rule is None:
            return "a rule does not say what becomes of edges"
        for value in (rule.weight, None if rule.kind is None else rule.kind[0]):
            if value is not None and value not in program.templates.given:
                return "edges are weighed by what the model makes of them"
        if not torch.equal(rule.ends.cpu(), own):
            return "the model turns edges round, or puts them in another order"
    known = set(program.features.values())
    read = {value for op in program.ops for value in op.inputs}
    if any(value in read - known for value in program.attributes):
        return "the model reads more of nodes than their features"
    kinds = (RowOp, Aggregate, Attend, Gather, Concat)
    if any(not isinstance(op, kinds) or op.output.depth >= EVERYWHERE for op in program.ops):
        return "something is about the graph as a whole"
    return ""


class Written:
    """An engine whose rows are kept current.

    Args:
        engine: Of the graph to begin with; it is this one's own from now on.

    Attributes:
        engine: The same engine; what it has prepared is that of the graph as it is now.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.program = engine, engine.program
        self.arrays: dict[Edges, LiveEdges] = {}  # by the edges that are kept there
        self.moved: dict[Op, Tensor] = {}  # `Drift.moved`, by op
        for value in {v for op in self.program.ops for v in (*op.inputs, op.output)}:
            if value.base is not None:  # from outside, or shared by several
                value.base = value.base.clone(memory_format=torch.contiguous_format)
        for op in self.program.ops:
            if isinstance(op, Aggregate):  # its sums follow from its outputs
                op.total, op.size = op.total[:0], op.size.clone()
            elif isinstance(op, Attend):
                self._set_attention(op, op.base.peak.clone(), op.base.share.clone())
            if isinstance(op, Aggregate | Attend):
                self.moved[op] = torch.zeros(op.edges.num_nodes, dtype=torch.double)

    def chunk(self, batch: EditBatch, writes: bool) -> Chunk:
        """One edit, which adds and removes no nodes.

        Args:
            batch: The edit.
            writes: Whether it is made for good.

        Raises:
            AddedEdgeError: When rows do not tell what becomes of it.
        """
        features = {kind: x for kind, x in batch.features.items() if kind in self.program.features}
        batch = replace(batch, features=features)
        added_rows = None
        if batch.added_edges:
            added_rows = AddedRows(self.program.templates, batch.added_edges, len(batch))
            added_rows.check(self.program)
        return Chunk(
            batch,
            self.program.num_nodes,
            self.engine.backend,
            added_rows=added_rows,
            moved=self.moved,
            writes=writes,
        )

    def after(self, chunk: Chunk) -> tuple[Tensor, Tensor]:
        """The predictions that an edit changes: nodes `[q]`, ascending, and new predictions `[q, …]`."""
        changed = self.program.run(chunk)
        if len(changed):
            node, order = changed.node.sort()
            changed = ChangedRows(changed.ptr, node, changed.rows.index_select(0, order))
        _, item, after = self.engine.changed_items(chunk.edits, changed)
        return item, after

    def now(self, node: Tensor) -> Tensor:
        """The predictions of some nodes as they are."""
        return self.engine.problem.task.predict(self.program.output.at(node))

    def neighbours(self, node: int) -> Tensor:
        """The edges at a node, both ways `[2, m]`, distinct."""
        found = []
        for edges in convolution_edges(self.program):
            reverse = edges.for_added is not None and edges.for_added.reverse
            ways = ((edges.by_source, edges.out_end, True), (edges.by_target, edges.in_end, False))
            for (start, other, _), end, out in ways:
                there = other[int(start[node]) : int(end[node])].long()
                here = torch.full_like(there, node)
                pair = torch.stack([here, there] if out != reverse else [there, here])
                found.append(pair)
        return torch.cat(found, dim=1).unique(dim=1) if found else torch.empty(2, 0).long()

    def finish(self, chunk: Chunk, first: int) -> None:
        """Finish an edit whose rows are written: exchange edges, and note how far sums have moved.

        Args:
            chunk: The edit.
            first: The edge id of the first edge that it adds.
        """
        made = self._exchanged(chunk, first)
        for op in self.moved:
            assert isinstance(op, Aggregate | Attend)
            op.edges = made[op.edges]
        for op, drift in chunk.drift.items():
            self.moved[op][drift.node] = drift.new
            if isinstance(op, Aggregate):
                self._measure(op, drift.node[drift.new == 0])
            elif isinstance(op, Attend):
                op.base.peak[drift.node], op.base.share[drift.node] = drift.peak, drift.share
                if "size" in vars(op.base):
                    rows = op.base.y[drift.sent]
                    op.base.size[drift.sent] = (rows.abs() * op.base.unit).sum(dim=-1)

    def _exchanged(self, chunk: Chunk, first: int) -> dict[Edges, Edges]:
        """The edges of all convolutions after an edit, by those before."""
        made = {}
        for edges in dict.fromkeys(convolution_edges(self.program)):
            made[edges] = edges
            delta = chunk.delta(edges)
            if len(delta):
                arrays = self.arrays.pop(edges, None) or LiveEdges(edges)
                new = exchanged(edges, delta, arrays, chunk.added_rows, first)
                made[edges], self.arrays[new] = new, arrays
        return made

    @staticmethod
    def _measure(op: Aggregate, node: Tensor) -> None:
        """How large the sums are that were made again: `Aggregate.size`."""
        if not len(node):
            return
        rest = op.output.base_rows()[node]
        if isinstance(op.added, Value):
            rest -= op.added.base_rows()[node]
        elif len(op.added):
            rest -= op.added
        total = rest / op.edges.norm_dst[node].to(rest.dtype).unsqueeze(-1)
        op.size[node] = total.abs() @ op.unit.t()

    @staticmethod
    def _set_attention(op: Attend, peak: Tensor, share: Tensor) -> None:
        y, alpha_src, alpha_dst = (value.base_rows() for value in op.inputs)
        op.base = replace(
            op.base,
            y=y,
            alpha_src=alpha_src,
            alpha_dst=alpha_dst,
            output=op.output.base_rows(),
            peak=peak,
            share=share,
        )
