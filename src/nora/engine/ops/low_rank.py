"""Low-rank updates: all rows change, but along a few directions.

If weights depend on means over all nodes (`blend`), an edit changes every row along the same few directions:
`row = original + Σ_j shift_j direction_j`, with one `shift` per edit. Sums over neighbours and linear maps
preserve this form, with directions that are computed once for all edits; so does a ReLU where no entry
changes its sign. Rows that do not have this form, near the removed node or where a sign changes, are stored
separately, as the rows `apart`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import ChangedRows, removed_keys
from nora.engine.ir.op import Chunk, Op, Value
from nora.engine.ir.pointers import ptr_of

# More than one row in so many are cheaper as one product of matrices than one by one.
MANY = 8
# Directions are made once, by the first that asks.
_MAKING = threading.RLock()


class LowRankOp(ABC):
    """The directions of an operation's low-rank update, and how to compute it.

    Args:
        op: The op.
        inputs: The low-rank forms of its inputs.
        count: Number of directions of the output.
    """

    def __init__(self, op: Op, inputs: Sequence[LowRankOp | Still], count: int) -> None:
        self.op = op
        self.value = op.output
        self.inputs = inputs
        self.count = count

    @abstractmethod
    def mixed(self, chunk: Chunk, inputs: Sequence[LowRankRows]) -> LowRankRows:
        """The low-rank update of the output for a chunk of edits."""

    @abstractmethod
    def blocks(self) -> Iterator[Tensor]:
        """The directions `[some, N, F]` in blocks, computed again each time."""

    @cached_property
    def _kept(self) -> list[Tensor]:
        blocks = list(self.blocks())
        return [torch.cat(blocks)] if blocks else []

    @property
    def kept(self) -> list[Tensor]:
        """The directions `[some, N, F]` in blocks, computed once."""
        with _MAKING:
            return self._kept

    def can(self, chunk: Chunk) -> bool:
        """Whether it supports the edits of this chunk."""
        return True

    def at(self, update: LowRankRows, edit: Tensor, node: Tensor) -> Tensor:
        """Some rows, without `apart`."""
        every = len(update.shift) * self.value.space.size
        if "rows" in vars(update) or MANY * len(node) > every:
            return update.rows[edit, node]
        rows, start = self.value.at(node).clone(), 0
        for block in self.kept:
            for direction in block:
                shift = update.shift[edit, start].to(rows.dtype).unsqueeze(-1)
                rows.addcmul_(direction[node], shift)
                start += 1
        return rows


class Still:
    """A value without directions: all changed rows are `apart`."""

    count = 0

    def __init__(self, value: Value) -> None:
        self.value = value

    def blocks(self) -> Iterator[Tensor]:
        """No directions."""
        return iter(())

    kept: Sequence[Tensor] = ()

    def at(self, update: LowRankRows, edit: Tensor, node: Tensor) -> Tensor:
        """Original rows."""
        return self.value.at(node)


@dataclass(frozen=True, eq=False)
class LowRankRows:
    """The low-rank update of a value, for a chunk of edits.

    Attributes:
        mixer: Its directions.
        shift: The shift along each direction `[c, J]`, float64.
        apart: Differences of rows from the low-rank form, by pairs (edit, node).
        of: The updates from which it was computed.
    """

    mixer: LowRankOp | Still
    shift: Tensor
    apart: ChangedRows
    of: tuple[LowRankRows, ...] = ()

    @staticmethod
    def of_changed(mixer: LowRankOp | Still, changed: ChangedRows) -> LowRankRows:
        """Changed rows, as rows `apart` from the original value."""
        like = mixer.value.base_rows()
        rows = changed.rows - like[changed.node] if len(changed) else like[:0]
        shift = torch.zeros(len(changed.ptr) - 1, mixer.count, dtype=torch.double)
        return LowRankRows(
            mixer, shift.to(like.device), ChangedRows(changed.ptr, changed.node, rows)
        )

    def at(self, edit: Tensor, node: Tensor) -> Tensor:
        """Some rows, without `apart` `[M, F]`."""
        return self.mixer.at(self, edit, node)

    @cached_property
    def rows(self) -> Tensor:
        """All rows, without `apart` `[c, N, F]`."""
        whole, start = self.mixer.value.base_rows(), 0
        rows = whole.reshape(1, -1).repeat(len(self.shift), 1)
        shift = self.shift.to(whole.dtype)
        for block in self.mixer.kept:
            rows.addmm_(shift[:, start : start + len(block)], block.reshape(len(block), -1))
            start += len(block)
        return rows.view(len(self.shift), *whole.shape)

    def spread(self, chunk: Chunk) -> ChangedRows:
        """All remaining rows, as changed rows."""
        edits = chunk.edits
        count, n = len(edits), chunk.num_nodes
        rows = self.rows.flatten(0, 1).index_add(0, self.apart.keys(n), self.apart.rows)
        keep = torch.ones(count * n, dtype=torch.bool, device=rows.device)
        keep[removed_keys(edits, n)] = False
        node = torch.arange(n, device=rows.device).repeat(count)[keep]
        ptr = torch.zeros(count + 1, dtype=torch.long, device=rows.device)
        ptr[1:] = (n - (edits.ptr[1:] - edits.ptr[:-1])).cumsum(0)
        chunk.tally.bytes += 2 * rows.nbytes
        return ChangedRows(ptr, node, rows[keep])


def summed(chunk: Chunk, parts: Sequence[tuple[Tensor, Tensor]], like: Tensor) -> ChangedRows:
    """Rows of several sets of pairs added up.

    Args:
        chunk: The chunk.
        parts: Pairs as `ChangedRows.keys`, and their rows.
        like: A tensor `[0, F]`.
    """
    count, n = len(chunk.edits), chunk.num_nodes
    there = torch.zeros(count * n, dtype=torch.bool, device=like.device)
    for key, _ in parts:
        there[key] = True
    pairs = there.nonzero().flatten()
    slot = torch.empty(count * n, dtype=torch.long, device=like.device)
    slot[pairs] = torch.arange(len(pairs), device=like.device)
    rows = like.new_zeros(len(pairs), *like.shape[1:])
    for key, part in parts:
        rows.index_add_(0, slot[key], part)
    ptr = ptr_of(pairs // n, count)
    return ChangedRows(ptr, pairs % n, rows)
