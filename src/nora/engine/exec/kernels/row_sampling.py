"""Importance sampling in plain torch: importances of rows, and which are computed; see `sampling.py`."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from nora.engine.ir.changed_rows import Frontier, SamplingBounds
from nora.engine.ir.edges import Edges
from nora.engine.ir.pointers import owner_of

# Chances are whole multiples of 2^-BITS, so that their sums do not depend on what stands before them.
BITS = 32
# Squares have most of their digits from here to its inverse.
SMALLEST = 1e-290
# A row is computed for certain if its share of all importance exceeds this part of the error aimed at.
DECISIVE = 1 / 3


def sample(
    edges: Edges, frontier: Frontier, bounds: SamplingBounds
) -> tuple[Frontier, Tensor, Tensor]:
    """See `Backend.sample`."""
    error, certain = bounds.error, frontier.edges_changed
    device, count, unit = frontier.node.device, len(frontier.node), 1 << BITS
    counts = frontier.edge_ptr[1:] - frontier.edge_ptr[:-1]
    owner = torch.arange(len(counts), device=device).repeat_interleave(counts)
    lands = frontier.slot >= 0
    sent = bounds.size[owner]
    share = edges.weight_by_source if bounds.share is None else bounds.share
    if share is not None:
        first = edges.by_source[0][frontier.source] - frontier.edge_ptr[:-1]
        sent = sent * share[torch.arange(len(owner), device=device) + first[owner]].double().abs()
    sizes = torch.zeros(count, dtype=torch.double, device=device)
    sizes = sizes.index_add(0, frontier.slot[lands], sent[lands])
    # What keeps its factor turns nothing, however large its sum is: 0 times infinity is NaN.
    turned = (frontier.norm_dst - edges.norm_dst[frontier.node]).abs() * bounds.mass[frontier.node]
    turned = torch.where(frontier.norm_dst == edges.norm_dst[frontier.node], 0, turned)
    sizes = frontier.norm_dst.abs() * sizes + turned
    sizes = sizes.index_add(0, frontier.also, bounds.also)
    floor = sizes * bounds.least[frontier.node] if len(bounds.least) else torch.zeros_like(sizes)
    sizes = torch.where(sizes < torch.inf, sizes.clamp(max=bounds.most), sizes)
    sizes = torch.where(certain, 0, sizes * bounds.importance[frontier.node])
    edit = owner_of(frontier.ptr)
    limit = _threshold(sizes, edit, len(frontier.ptr) - 1, error)
    decisive = DECISIVE * error * torch.zeros_like(limit).index_add(0, edit, sizes)
    limit = torch.where((decisive > 0) & (decisive < limit), decisive, limit)
    threshold = limit[edit]
    # What does not matter is not drawn.
    share = torch.where(sizes == 0, 0, (sizes / threshold).maximum(floor))
    parts = (share.clamp(max=1) * unit).ceil()
    few = error * frontier.ptr.diff() <= 1
    certain = certain | (few[edit] & (sizes != 0)) | ~((sizes < threshold) & (parts < unit))
    parts = torch.where(certain, 0, parts.nan_to_num(0)).long()
    left = torch.where(parts > 0, sizes.square() * (unit / parts.double() - 1), 0)
    planned = torch.zeros_like(limit).index_add(0, edit, left)
    passed = parts.cumsum(0)
    before = torch.cat([passed.new_zeros(1), passed])[frontier.ptr[:-1]][edit]
    passed = passed - before + bounds.start.to(device)[edit]
    chance = torch.where(passed // unit > (passed - parts) // unit, parts, 0)
    chance = torch.where(certain, unit, chance)
    kept = chance > 0
    place = torch.where(kept, kept.cumsum(0) - 1, -1)
    slot = torch.where(lands, place[frontier.slot.clamp(min=0)], -1) if count else frontier.slot
    found = replace(
        frontier,
        slot=slot,
        also=place[frontier.also],
        ptr=torch.cat([place.new_zeros(1), kept.cumsum(0)])[frontier.ptr],
        node=frontier.node[kept],
        norm_dst=frontier.norm_dst[kept],
        edges_changed=frontier.edges_changed[kept],
    )
    return found, chance[kept], planned


def _threshold(sizes: Tensor, edit: Tensor, count: int, error: float) -> Tensor:
    """Of every edit, the largest `t` for which drawing by `sizes / t` keeps the relative error."""

    def summed(values: Tensor) -> Tensor:
        return torch.zeros(count, dtype=torch.double, device=sizes.device).index_add(
            0, edit, values
        )

    total = summed(sizes)
    limit, wanted = torch.full_like(total, torch.inf), (error * total) ** 2
    # Every row counts where the total is NaN, or where its square overflows or underflows.
    settled = (total != 0) & ~((wanted > SMALLEST) & (wanted < 1 / SMALLEST))
    limit[settled] = 0
    for _ in range(50):
        below = sizes < limit[edit]
        rest, squares = (
            summed(torch.where(below, sizes, 0)),
            summed(torch.where(below, sizes**2, 0)),
        )
        smaller = (wanted + squares) / rest
        settled |= (rest * limit - squares <= 1.05 * wanted) | ~(smaller < limit)
        limit = torch.where(settled, limit, smaller)
        if bool(settled.all()):
            break
    return limit
