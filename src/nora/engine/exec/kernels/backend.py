"""The protocol of a backend: the functions that the modules `compiled` and `vectorised` both define."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from nora.engine.ir.changed_rows import (
    Attention,
    ChangedRows,
    Drift,
    Frontier,
    SamplingBounds,
    Sums,
    TargetSlopes,
)
from nora.engine.ir.edges import EdgeDelta, Edges
from nora.graph.edit_batch import EditBatch

if TYPE_CHECKING:
    from nora.engine.ir.op import Chunk, Then
    from nora.engine.passes.fuse_aggregation import WeightedSum


class Backend(Protocol):
    """The index work and the sums of a chunk of edits."""

    __name__: str

    def find_frontier(
        self,
        edges: Edges,
        edits: EditBatch,
        changed: ChangedRows,
        also: tuple[Tensor, Tensor],
        delta: EdgeDelta,
    ) -> Frontier:
        """Changed messages and their targets, among which the pairs `also` (`ptr`, `node`) always are.

        Called by `Chunk.frontier`, which adds the targets of `delta` to `also` and sets `edges_changed`.
        """

    def message_sizes(
        self, edges: Edges, frontier: Frontier, y: Tensor, rows: ChangedRows
    ) -> Tensor:
        """L1 change of each source's message, times its row's weight `[S]`, float64."""

    def union(self, a: ChangedRows, b: ChangedRows, num_nodes: int) -> tuple[Tensor, ...]:
        """Pairs in `a` or `b`: `ptr`, `node`, and the positions of the rows of `a` and of `b` in it.

        Of every edit first those of `a`, then those of `b` alone.
        """

    def sample(
        self, edges: Edges, frontier: Frontier, bounds: SamplingBounds
    ) -> tuple[Frontier, Tensor, Tensor]:
        """A sample of the frontier, its rows' inclusion probabilities times `2^BITS` `[T]`, and the variance.

        A row is sampled with a probability in proportion to the bound of its change times its importance.
        The draws of every edit follow from `bounds.start`. The variance `[c]`, float64, is that of each
        edit's sum of these products: it is known before any row is.
        """

    def propagate(
        self,
        edges: Edges,
        frontier: Frontier,
        base: Sums,
        rows: ChangedRows,
        plus: ChangedRows,
        delta: EdgeDelta,
        then: Then | None = None,
        drift: Drift | None = None,
    ) -> tuple[Tensor, ...]:
        """New outputs of the frontier `[T, F]`, or the values of `then` for them.

        Sums are corrected by the messages that change, and by those along removed and added edges. Where that
        eats up their digits, they are summed over what is left of the neighbours; `vectorised` does so
        wherever edges are removed or added. With a `drift` also where sums have moved too
        far; it gets how far they have moved.
        """

    def attend(
        self,
        edges: Edges,
        edits: EditBatch,
        frontier: Frontier,
        base: Attention,
        changed: Sequence[ChangedRows],
        delta: EdgeDelta,
        target_slopes: TargetSlopes | None = None,
        drift: Drift | None = None,
    ) -> Tensor:
        """Softmax-weighted sums of the reached rows `[T, H, C]`.

        `changed` are the changed messages and both parts of their scores, of the same rows. `target_slopes`
        is given where these may count several times, `drift` where rows may be written back.
        """

    def weighted_sum(
        self, op: WeightedSum, chunk: Chunk, y: ChangedRows, weights: ChangedRows | None
    ) -> ChangedRows:
        """New sums where messages or weights have changed, and what they start from has not."""

    def pair_dots(
        self,
        incident: tuple[Tensor, Tensor],
        pairs: Tensor,
        edits: EditBatch,
        changed: ChangedRows,
        z: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Surviving pairs with a changed end: `ptr [c+1]`, `pair [Q]`, and dot products of their rows `[Q]`.

        `incident` are the pairs at every node in CSR form, `z` the original rows.
        """

    def item_changes(self, before: Tensor, item: Tensor, after: Tensor) -> Tensor:
        """L1 change of some items' predictions `[Q]`; see `nora.model.task.item_change`."""
