"""An edit made for good: the rows that it changes are written back, and edges exchanged in place.

What was prepared stays prepared: every value gets its new rows, every sum that an edit has reached is
summed again, and the edges of convolutions lose and gain entries without being sorted again. Nodes keep
their ids; one that goes loses its edges and stays as a row that is never read.

This is done where rules follow all that is done with edges, and nothing is about the graph as a whole.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from nora.engine.edits import by_rules_alone, edges_of
from nora.engine.engine import Engine
from nora.engine.exec.added_edges import AddedRows
from nora.engine.exec.edge_arrays import LiveEdges, exchanged
from nora.engine.exec.edge_templates import CannotComeError
from nora.engine.exec.kernels.vectorised import weigh
from nora.engine.ir.changed_rows import CANCELLATION_RATIO, ChangedRows
from nora.engine.ir.edges import Edges
from nora.engine.ir.op import EVERYWHERE, Chunk, Op, RowOp, Value
from nora.engine.ops.aggregate import Aggregate, Attend
from nora.engine.ops.gather import Concat, Gather
from nora.engine.program import Program
from nora.graph.edit_batch import ChangedFeatures, EditBatch

# A sum is recomputed after so many corrections, or if it is of so few messages.
CORRECTIONS, FEW = 16, 8


def cannot_write(program: Program) -> str:
    """Why rows cannot be written back; empty if they can."""
    if program.guards.comparisons:
        return f"the model's Python compares sizes at {program.guards.comparisons[0].line}"
    if not by_rules_alone(program):
        return "a convolution is followed without a rule"
    own = program.templates.lookup.types[None].edges.cpu()
    for edges in edges_of(program):
        rule = edges.for_added
        if edges.edge_id is None or rule is None:
            return "a rule does not say what becomes of edges"
        for value in (rule.weight, None if rule.kind is None else rule.kind[0]):
            if value is not None and value not in program.templates.given:
                return "edges are weighed by what the model makes of them"
        if not torch.equal(rule.ends.cpu(), own):
            return "the model turns edges round, or puts them in another order"
    known = {value for value in program.features.values()}
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
        # Edge ids: those of the graph to begin with, then those of added edges, in order.
        self.own = self.program.templates.lookup.types[None]
        self.count = self.own.edges.size(1)
        self.added: dict[tuple[int, int], list[int]] = {}
        self.removed: set[int] = set()
        self.corrected: dict[Op, Tensor] = {}  # how often every sum was, by op
        values = {v: v for op in self.program.ops for v in (*op.inputs, op.output)}
        for value in values.values():
            if value.base is not None:  # from outside, or shared by several
                value.base = value.base.clone(memory_format=torch.contiguous_format)
        for op in self.program.ops:
            if isinstance(op, Aggregate):
                op.total, op.size = op.total.clone(), op.size.clone()
            elif isinstance(op, Attend):
                self._set_attention(op, op.base.peak.clone(), op.base.share.clone())

    def cannot(self, batch: EditBatch) -> str:
        """Why rows do not tell what becomes of an edit; empty if they do."""
        try:
            if batch.added_edges:
                AddedRows(self.program.templates, batch.added_edges, len(batch)).check(self.program)
        except CannotComeError as reason:
            return str(reason)
        return ""

    def edge_ids(self, pairs: Tensor) -> Tensor:
        """The ids of all edges between pairs of nodes `[2, m]` as the graph is now."""
        found = self.own.columns(pairs)[1].tolist()
        for source, target in pairs.t().tolist():
            found += self.added.get((source, target), ())
        return torch.tensor([one for one in found if one not in self.removed], dtype=torch.long)

    def after(self, batch: EditBatch, write: bool = False) -> tuple[Tensor, Tensor]:
        """The predictions that an edit changes: nodes `[q]` and their new predictions `[q, …]`.

        Args:
            batch: The edit, alone; it adds and removes no nodes, and names edges as `edge_ids` does.
            write: Whether it is made for good.
        """
        added_rows = None
        if batch.added_edges:
            added_rows = AddedRows(self.program.templates, batch.added_edges, len(batch))
        chunk = Chunk(batch, self.program.num_nodes, self.engine.backend, added_rows=added_rows)
        seen: dict[Value, ChangedRows] = {}
        with torch.no_grad():
            changed = self.program.run(chunk, seen)
            _, item, after = self.engine.changed_items(batch, changed)
            if write:
                self._write(chunk, seen)
        return item, after

    def now(self, node: Tensor) -> Tensor:
        """The predictions of some nodes as they are."""
        return self.engine.problem.task.predict(self.program.output.at(node))

    def neighbours(self, node: int) -> Tensor:
        """The edges at a node, both ways `[2, m]`, distinct."""
        found = []
        for edges in edges_of(self.program):
            reverse = edges.for_added is not None and edges.for_added.reverse
            ways = ((edges.by_source, edges.out_end, True), (edges.by_target, edges.in_end, False))
            for (start, other, _), end, out in ways:
                there = other[int(start[node]) : int(end[node])].long()
                here = torch.full_like(there, node)
                pair = torch.stack([here, there] if out != reverse else [there, here])
                found.append(pair)
        return torch.cat(found, dim=1).unique(dim=1) if found else torch.empty(2, 0).long()

    def _write(self, chunk: Chunk, seen: dict[Value, ChangedRows]) -> None:
        for kind, changed in chunk.edits.features.items():
            _put(self.program.features[kind], changed)
        for op in self.program.ops:
            new = seen.get(op.output)
            if new is not None and len(new):
                _put(op.output, new)
        made = self._exchanged(chunk)
        for op in self.program.ops:
            if not isinstance(op, Aggregate | Attend):
                continue
            op.edges = made[op.edges]
            new = seen.get(op.output)
            if new is None or not len(new):
                continue
            if isinstance(op, Aggregate):
                self._sum(op, new)
            else:
                y = seen.get(op.inputs[0])
                self._reweigh(op, new.node, None if y is None else y.node)

    def _exchanged(self, chunk: Chunk) -> dict[Edges, Edges]:
        """The edges of all convolutions after an edit, by the id of those before."""
        made = {}
        for edges in {one: one for one in edges_of(self.program)}.values():
            made[edges] = edges
            delta = chunk.delta(edges)
            if len(delta):
                arrays = self.arrays.pop(edges, None) or LiveEdges(edges)
                new = exchanged(edges, delta, arrays, chunk.added_rows, self.count)
                made[edges], self.arrays[new] = new, arrays
        self.removed.update(chunk.edits.edge.tolist())
        for added in chunk.edits.added_edges.values():
            for pair in zip(added.source.tolist(), added.target.tolist(), strict=True):
                self.added.setdefault(pair, []).append(self.count)
                self.count += 1
        return made

    def _sum(self, op: Aggregate, new: ChangedRows) -> None:
        """The sums that have changed: read off what they have become, from scratch every so often.

        A sum that was corrected many times, or is small beside what it was or what is added to it, has lost
        digits; a short one costs nothing.
        """
        node, edges, unit = new.node, op.edges, op.unit.t()
        plus = op.inputs[1].base_rows()[node] if isinstance(op.added, Value) else op.added
        norm_dst = edges.norm_dst[node]
        rest = new.rows - plus if len(plus) else new.rows
        total = rest / norm_dst.to(rest.dtype).unsqueeze(-1)
        size = total.abs() @ unit
        times = self.corrected.setdefault(op, torch.zeros(edges.num_nodes, dtype=torch.uint8))
        times[node] += 1
        few = edges.count[node] <= FEW
        sure = (times[node] < CORRECTIONS) & ~few & size.isfinite().all(dim=1)
        sure &= (size >= CANCELLATION_RATIO * op.size[node]).all(dim=1)
        if len(plus):
            sure &= (rest.abs() @ unit >= CANCELLATION_RATIO * (plus.abs() @ unit)).all(dim=1)
        size = torch.maximum(size, op.size[node])
        again = (~sure).nonzero().flatten()
        total[again] = _resum(op, node[again])
        size[again] = total[again].abs() @ unit
        times[node[again]] = 0
        op.total[node], op.size[node] = total, size

    def _reweigh(self, op: Attend, node: Tensor, sent: Tensor | None) -> None:
        """The largest score and the denominator of the nodes that hear something else."""
        base = op.base
        sender = op.edges.by_target[1]
        owner, position, _ = op.edges.into(node)
        score = base.alpha_src[sender[position].long()] + base.alpha_dst[node][owner]
        nothing = score.new_zeros(len(score), score.size(1), 0)
        _, peak, share = weigh(score, nothing, owner, len(node), base.slope)
        base.peak[node], base.share[node] = peak, share
        if sent is not None and "size" in vars(base):
            base.size[sent] = (base.y[sent].abs() * base.unit).sum(dim=-1)

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


def _put(value: Value, changed: ChangedRows | ChangedFeatures) -> None:
    if value.base is not None:
        value.base[changed.node] = changed.rows


def _resum(op: Aggregate, node: Tensor) -> Tensor:
    """Some sums from scratch `[q, F]`."""
    edges, y = op.edges, op.inputs[0].base_rows()
    _, sender, edge = edges.by_target
    owner, position, _ = edges.into(node)
    source = sender[position].long()
    factor = edges.norm_src[source]
    if edges.weight is not None:
        factor = factor * edges.weight[edge[position].long()].double()
    sent = y[source] * factor.to(y.dtype).unsqueeze(-1)
    return y.new_zeros(len(node), y.size(1)).index_add_(0, owner, sent)
