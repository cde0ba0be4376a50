"""Pass: fuse the reductions and gathers of an attention softmax into one op.

An attention layer subtracts the largest score of the edges into a node, exponentiates, sums, divides, and
sums the weighted messages. All of this happens among the edges into one node. If one of them changes, the
fused op computes the node again, in one hop instead of three.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import Chunk, Move, Op, Value
from nora.engine.ir.pointers import ptr_of
from nora.engine.ops.gather import rows_at_pairs
from nora.engine.ops.reduce import depth_after

# Edges that are worked on at once, in bytes of the widest rows.
BLOCK_BYTES = 16 * 2**20


class Grouped(Op):
    """Steps between edges and the nodes they lead to, done group by group.

    Args:
        members: The ops in order; the last one's output is this one's.
        inputs: What they read that none of them makes.
    """

    def __init__(self, members: Sequence[Op], inputs: Sequence[Value]) -> None:
        move = members[-1].move()
        assert move is not None and move.reduces
        self.members, self.along = list(members), move
        super().__init__(inputs, members[-1].output)

    def set_depth(self) -> None:
        """See `Op.set_depth`."""
        start = Value(self.output.space, -1)
        of_nodes = [value for value in self.inputs if value.space is not self.along.edges]
        of_edges = [value for value in self.inputs if value.space is self.along.edges]
        deepest = max((value.depth for value in of_edges), default=-1)
        depth = depth_after(Value(self.along.edges, deepest), start, self.output.space)
        self.output.depth = max(depth, *(value.depth for value in of_nodes), 0)

    def hops(self) -> Sequence[tuple[Tensor, Tensor]]:
        """See `Op.hops`."""
        return self.members[-1].hops()

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        return self._run(inputs, self.along.index)

    def _run(self, inputs: Sequence[Tensor], owner: Tensor) -> Tensor:
        """The ops on rows of edges and of nodes; `owner` says to which node each edge leads."""
        rows = {value: given for value, given in zip(self.inputs, inputs, strict=True)}
        for op in self.members:
            rows[op.output] = op.within(owner, *(rows[v] for v in op.inputs))
        return rows[self.output]

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """Everything again for each node that an edge leads to otherwise than before."""
        space, move = self.output.space, self.along
        edit, lost = chunk.lost(move.edges)
        keys = [edit * space.size + move.index[lost]]
        for value, changed in zip(self.inputs, inputs, strict=True):
            of_edges = value.space is move.edges
            node = move.node_of(chunk, changed.node) if of_edges else changed.node
            keys.append(changed.edit * space.size + node)
        if chunk.added_rows is not None and chunk.num_added(move.edges):
            node = chunk.added_rows.index(move.edges, move.index, move.nodes)
            keys.append(chunk.added_rows.edit(move.edges) * space.size + node)
        distinct = torch.cat(keys).unique()
        edit, node = distinct // space.size, distinct % space.size
        left = space.survive(chunk.edits, edit, node)
        if not bool(left.all()):
            edit, node = edit[left], node[left]
        if not len(node):
            return chunk.nothing()
        sizes = self._block_sizes(node)
        blocks = zip(edit.split(sizes), node.split(sizes), strict=True)
        parts = [self._recomputed(chunk, inputs, *block) for block in blocks]
        rows = parts[0] if len(parts) == 1 else torch.cat(parts)
        chunk.tally.bytes += 3 * rows.nbytes + 6 * distinct.nbytes
        return ChangedRows(ptr_of(edit, len(chunk.edits)), node, rows)

    def _block_sizes(self, node: Tensor) -> list[int]:
        """How many nodes are computed at a time, so that their edges stay in cache."""
        indptr, _ = self.along.nodes.sorted_by(self.along.index)
        width = max(value.width for value in self.inputs)
        ends = (indptr[node + 1] - indptr[node]).cumsum(0)
        block = ends // max(1, BLOCK_BYTES // (8 * max(width, 1)))
        return torch.unique_consecutive(block, return_counts=True)[1].tolist()

    def _recomputed(
        self, chunk: Chunk, inputs: Sequence[ChangedRows], edit: Tensor, node: Tensor
    ) -> Tensor:
        owner, row, whose = self.along.edges_of(chunk, edit, node)
        given = [
            rows_at_pairs(value, changed, whose, row)
            if value.space is self.along.edges
            else rows_at_pairs(value, changed, edit, node)
            for value, changed in zip(self.inputs, inputs, strict=True)
        ]
        chunk.tally.bytes += sum(rows.nbytes for rows in given) + 4 * owner.nbytes
        return self._run(given, owner)


class _Group:
    """Ops that work on the same edges, distinguished by the same nodes."""

    def __init__(self, move: Move) -> None:
        self.along = move
        self.ops: dict[Value, Op] = {}

    def takes(self, op: Op) -> bool:
        """Whether an operation stays among the edges into a node."""
        move = op.move()
        along = self.along
        if move is None:
            return op.rowwise and op.output.space in (along.edges, along.nodes)
        if move.edges is not along.edges or move.nodes is not along.nodes:
            return False
        return move.index is along.index or torch.equal(move.index, along.index)

    def closed(self) -> list[Op]:
        """Up to the last reduction of what the edges gathered from an earlier one, or nothing."""
        gathered: set[Value] = set()
        closing: Op | None = None
        for op in self.ops.values():
            from_gathered = any(value in gathered for value in op.inputs)
            move = op.move()
            if from_gathered or (move is not None and not move.reduces):
                gathered.add(op.output)
            if from_gathered and move is not None and move.reduces:
                closing = op
        if closing is None:
            return []
        needed, kept = {closing.output}, []
        for op in reversed(self.ops.values()):
            if op.output in needed:
                kept.append(op)
                needed.update(op.inputs)
        return kept[::-1]


def fuse_softmax(ops: list[Op], output: Value) -> list[Op]:
    """Fuse the pattern into one op, wherever nothing else reads the values in between."""
    found: list[_Group] = []
    behind: dict[Value, set[_Group]] = {}  # of each value: the groups it comes after
    inside: dict[Value, _Group] = {}  # of each value: the group that makes it
    for op in ops:
        before = {key for value in op.inputs for key in behind.get(value, ())}
        group = next((g for g in found if _joins(g, op, inside, behind)), None)
        move = op.move()
        if group is None and move is not None and move.reduces and not move.nodes.global_:
            group = _Group(move)
            found.append(group)
        if group is not None:
            group.ops[op.output] = op
            inside[op.output] = group
        behind[op.output] = before | ({group} if group is not None else set())
    made: dict[Op, Op] = {}
    gone: set[Op] = set()
    for group in found:
        members = group.closed()
        if not members or not _alone(members, ops, output) or _weights_stay(members):
            continue
        own = {op.output for op in members}
        inputs = dict.fromkeys(v for op in members for v in op.inputs if v not in own)
        made[members[-1]] = Grouped(members, list(inputs))
        gone.update(members[:-1])
    return [made.get(op, op) for op in ops if op not in gone]


def _joins(
    group: _Group, op: Op, inside: dict[Value, _Group], behind: dict[Value, set[_Group]]
) -> bool:
    """Whether an operation reads the output of the group, and nothing else that depends on it."""
    mine = [inside.get(value) is group for value in op.inputs]
    if not group.takes(op):
        return False
    if not any(mine):
        return False
    return all(
        own or group not in behind.get(value, ())
        for own, value in zip(mine, op.inputs, strict=True)
    )


def _alone(members: Sequence[Op], ops: Sequence[Op], output: Value) -> bool:
    """Whether only the members read what they make, but for the last one's output."""
    hidden, own = {op.output for op in members[:-1]}, set(members)
    if output in hidden:
        return False
    return not any(value in hidden for op in ops if op not in own for value in op.inputs)


def _weights_stay(members: Sequence[Op]) -> bool:
    """Whether weights that change near an edit scale rows that change far from it.

    Correcting a sum is then cheaper than computing it again.
    """
    product = members[-1].inputs[0].op
    if product is None or product.scales is None:
        return False
    weights = [value for value in product.inputs if value is not product.scales]
    return max(value.depth for value in weights) < product.scales.depth
