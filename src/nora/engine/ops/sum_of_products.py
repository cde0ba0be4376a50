"""Products of rows summed over all rows: `KᵀV`, the part of linear attention where keys meet values.

A sum over nodes is corrected for changed and removed rows, so a removal costs as much as these rows. Sums use
float64: in float32, a sum over all nodes loses digits that matter in single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import EVERYWHERE, Chunk, Op, Value
from nora.engine.ir.space import Space


class SumOfProducts(Op):
    """`out = Σ_i left_i ⊗ right_i` over all rows.

    Args:
        function: From some rows of both, in double precision, to the sum of their products.
        left, right: Values of one space.
        graph: The space of the whole graph.
    """

    def __init__(
        self,
        function: Callable[[Tensor, Tensor], Tensor],
        left: Value,
        right: Value,
        graph: Space,
    ) -> None:
        super().__init__([left, right], Value(graph, EVERYWHERE))
        self.function = function

    def set_depth(self) -> None:
        """It changes if any row changes."""

    def compute(self, *inputs: Tensor) -> Tensor:
        """See `Op.compute`."""
        return self.function(*(rows.double() for rows in inputs)).unsqueeze(0)

    def changed(self, chunk: Chunk, inputs: Sequence[ChangedRows]) -> ChangedRows:
        """The old sum, minus the products of changed and removed rows, plus the new ones."""
        space, count = self.inputs[0].space, len(chunk.edits)
        edit, lost = chunk.lost(space)
        aligned = chunk.align(self.inputs, inputs)
        ptr = aligned[0].ptr.tolist()
        begins = torch.searchsorted(edit, torch.arange(count + 1, device=edit.device)).tolist()
        base, found, which = self.output.base_rows()[0], [], []
        for at in range(count):
            span = slice(ptr[at], ptr[at + 1])
            removed = lost[begins[at] : begins[at + 1]]
            if span.start == span.stop and not len(removed):
                continue
            node = aligned[0].node[span]
            before = torch.cat([node[node < space.size], removed])
            old = (value.at(before).double() for value in self.inputs)
            new = (changed.rows[span].double() for changed in aligned)
            found.append(base + self.function(*new) - self.function(*old))
            which.append(at)
        if not found:
            return chunk.nothing()
        rows = torch.stack(found)
        passed = torch.zeros(count + 1, dtype=torch.long, device=rows.device)
        passed[torch.tensor(which) + 1] = 1
        chunk.tally.bytes += rows.nbytes
        return ChangedRows(
            passed.cumsum(0), torch.zeros(len(found), dtype=torch.long, device=rows.device), rows
        )

    def needs(self) -> Sequence[Value]:
        """Rows that are subtracted, and the sum that is corrected."""
        return [*self.inputs, self.output]
