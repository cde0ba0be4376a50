"""Rows that changed, for a chunk of edits at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nora.engine.ir.pointers import owner_of, ptr_of
from nora.graph.edit_batch import EditBatch

# A sum of which less than this share is left after a correction is summed again.
CANCELLATION_RATIO = 1e-2
# Where rows are written back, a sum is made again when corrections have moved this share of it, or when it
# was corrected as often as it has messages (at least and at most as often as these numbers): making it loses
# as many digits, and takes no more time than the corrections.
MOST_MOVED, FEWEST_CORRECTIONS, MOST_CORRECTIONS = 0.5, 16, 256


def units(sent: Tensor) -> Tensor:
    """One over a usual small size of each column of messages `[N, F]`, so that columns can be compared.

    Small: a column of a few huge numbers is not a column of huge numbers.
    """
    size = sent[:: 1 + len(sent) // 100].abs().t().contiguous()
    size[~((size > 0) & size.isfinite())] = torch.inf
    if not size.numel():
        return sent.new_ones(sent.shape[1:])
    tenth = (size.isfinite().sum(dim=1, keepdim=True) - 1).clamp(min=0) // 10
    unit = 1 / size.sort(dim=1).values.gather(1, tenth).squeeze(1)
    # Of a column of zeros nothing is known: it counts like others.
    known = unit[unit > 0]
    unit[unit <= 0] = known.median() if len(known) else 1
    return unit.clamp(max=min(1e30, torch.finfo(unit.dtype).max))


def scales(sent: Tensor) -> Tensor:
    """Two scales for rows of messages `[N, F]`, `[2, F]`: the units of the columns, and ones.

    Whether the digits of a column matter depends on the operations that read it. In units of the columns,
    small columns count too; with ones, the digits of a sum that has lost a huge term do.
    """
    unit = units(sent)
    return torch.stack([unit, torch.ones_like(unit)])


@dataclass(frozen=True, eq=False)
class ChangedRows:
    """The changed rows of one value: pairs (edit, node) with their new rows.

    Attributes:
        ptr: `[c+1]`; the rows of edit `i` are `ptr[i]:ptr[i+1]`.
        node: The node of each row `[M]`, distinct within an edit, never a removed one.
        rows: New rows `[M, …]`.
        weight: Horvitz–Thompson weight of each row's change `[M]`, float64; None if all rows were computed.
    """

    ptr: Tensor
    node: Tensor
    rows: Tensor
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.node)

    @cached_property
    def edit(self) -> Tensor:
        """The edit of each row `[M]`."""
        return owner_of(self.ptr)

    def keys(self, num_nodes: int) -> Tensor:
        """One number for every pair (edit, node) `[M]`."""
        return self.edit * num_nodes + self.node


def removed_keys(edits: EditBatch, num_nodes: int) -> Tensor:
    """The same for the removed nodes of every edit."""
    return owner_of(edits.ptr) * num_nodes + edits.node


def merged(count: int, parts: Sequence[tuple[Tensor, ChangedRows]]) -> ChangedRows:
    """The changed rows of `count` edits from those of some of them each.

    Args:
        count: How many edits there are.
        parts: Which edits each part is of, and their changed rows.
    """
    edit = torch.cat([which[changed.edit] for which, changed in parts])
    order = edit.argsort(stable=True)
    ptr = ptr_of(edit, count)
    # A part may have no rows, and then not their shape.
    rows = [changed.rows for _, changed in parts if len(changed)]
    node = torch.cat([changed.node for _, changed in parts])[order]
    weight = None
    if any(changed.weight is not None for _, changed in parts):
        weight = torch.cat(
            [
                torch.ones(len(changed), dtype=torch.double, device=edit.device)
                if changed.weight is None
                else changed.weight
                for _, changed in parts
            ]
        )[order]
    return ChangedRows(ptr, node, torch.cat(rows)[order] if rows else parts[0][1].rows, weight)


@dataclass(frozen=True, eq=False)
class Frontier:
    """The rows that a change of other rows can reach in one hop.

    Attributes:
        source_ptr: `[c+1]`; the sources of edit `i` are `source[source_ptr[i]:source_ptr[i+1]]`.
        source: Nodes whose messages change `[S]`: changed rows first, per edit; removed ones too.
        row: For each source, its changed row, −1 if only its normalisation changed, −2 if removed.
        scale: The `norm_src` factor of each source after the edit `[S]`, float64.
        edge_ptr: `[S+1]`; the out-edges of source `s` land in `slot[edge_ptr[s]:edge_ptr[s+1]]`.
        slot: For each out-edge, the position of its target row, −1 for removed targets.
        also: The row of every pair that is included in any case.
        ptr, node: The reached rows, as in `ChangedRows`.
        norm_dst: The `norm_dst` factor of each reached row after the edit `[T]`, float64.
        edges_changed: Mask of the reached rows that removed or added edges lead to `[T]`.
    """

    source_ptr: Tensor
    source: Tensor
    row: Tensor
    scale: Tensor
    edge_ptr: Tensor
    slot: Tensor
    also: Tensor
    ptr: Tensor
    node: Tensor
    norm_dst: Tensor
    edges_changed: Tensor


@dataclass(frozen=True, eq=False)
class SamplingBounds:
    """Bounds on the change of each row, and its importance, by which rows are sampled.

    Rows of `Frontier.edges_changed` are always computed.

    Attributes:
        share: The share of a message that each edge passes on, in the order of `Edges.by_source`; None: all.
        size: Size of the change of each source's message `[S]`, float64.
        also: Size of other changes at the rows `Frontier.also`.
        mass: Size of each node's sum `[N]`, float64; a new `norm_dst` changes it in proportion.
        importance: Importance of each node's row `[N]`, float64.
        most: Importance saturates at this size, as predictions do.
        least: Smallest inclusion probability of a row per size of its change `[N]`; empty: none.
        error: The relative error of the sum of all importances that is aimed at.
        start: Where the draws of each edit begin `[c]`, a number of `BITS` bits.
    """

    share: Tensor | None
    size: Tensor
    also: Tensor
    mass: Tensor
    importance: Tensor
    most: float
    least: Tensor
    error: float
    start: Tensor


@dataclass(frozen=True, eq=False)
class TargetSlopes:
    """Attention: the derivative of a target's output by its own part of the scores, `alpha_dst`.

    A change of `alpha_dst` changes the weights of all neighbours. For more than `many` neighbours, a small
    change is computed to first order, with derivatives that are the same for all edits.

    Attributes:
        many: Targets with at most this many neighbours are always computed exactly.
        place: Row of each node in `slope`, −1 for nodes without `[N]`.
        slope: Derivatives of outputs by the target's part of the scores `[hubs, H, C]`.
    """

    many: int
    place: Tensor
    slope: Tensor


@dataclass(frozen=True, eq=False)
class Sums:
    """An op of sums on the whole graph.

    Attributes:
        y: Messages `[N, F]`.
        total: The sums without `norm_dst` `[N, F]`.
        unit: Scales of the columns `[2, F]`; see `scales`.
        size: `Σ|total|` of each node in both scales `[N, 2]`.
        plus: What is added: `[N, F]`, one row `[1, F]` for all, or none `[0, F]`.
        output: The operation's output `[N, F]`.
    """

    y: Tensor
    total: Tensor
    unit: Tensor
    size: Tensor
    plus: Tensor
    output: Tensor


@dataclass(frozen=True, eq=False)
class Drift:
    """How far sums that are written back have been corrected since they were made: rounding errors add up.

    Attributes:
        moved: The share of every node's sum that corrections have moved `[N]`, float64, and more for each of
            them; see `MOST_MOVED`.
        node: The reached rows `[T]`.
        sent: The nodes whose messages have changed `[M]`.
        new: How far the reached rows have moved after the edit `[T]`, 0 where they were summed again.
        peak, share: Of attention, the reached rows' fields of `Attention` after the edit `[T, H]`.
    """

    moved: Tensor
    node: Tensor
    sent: Tensor
    new: Tensor
    peak: Tensor
    share: Tensor

    @staticmethod
    def of(moved: Tensor, node: Tensor, sent: Tensor, like: Tensor) -> Drift:
        """An empty drift of the reached rows; `like` `[…, H]` are the denominators of an attention."""
        peak, share = (like.new_empty(len(node), like.size(-1)) for _ in range(2))
        return Drift(moved, node, sent, moved.new_zeros(len(node)), peak, share)


@dataclass(frozen=True, eq=False)
class Attention:
    """An attention op on the whole graph.

    Attributes:
        y: Messages `[N, H, C]`.
        alpha_src, alpha_dst: The source's and the target's part of the scores `[N, H]`.
        slope: LeakyReLU's negative slope.
        output: The operation's output `[N, H, C]`.
        peak, share: Each node's largest score and softmax denominator `[N, H]`.
    """

    y: Tensor
    alpha_src: Tensor
    alpha_dst: Tensor
    slope: float
    output: Tensor
    peak: Tensor
    share: Tensor

    def weights(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Attention weights of edges `[M, H]`, and LeakyReLU's derivative at their scores."""
        score = self.alpha_src[source] + self.alpha_dst[target]
        steep = torch.where(score < 0, self.slope, 1.0).to(score.dtype)
        score = torch.where(score < 0, score * self.slope, score)
        return (score - self.peak[target]).exp() / self.share[target], steep

    @cached_property
    def unit(self) -> Tensor:
        """One over the usual size of each column of `y`, `[H, C]`; see `units`."""
        return units(self.y.flatten(1)).view(self.y.shape[1:])

    @cached_property
    def size(self) -> Tensor:
        """`Σ|y|` of every node and head, in these units, `[N, H]`."""
        return (self.y.abs() * self.unit).sum(dim=-1)
