"""Sums over neighbours when the messages of all nodes change, so that corrections save nothing.

After an operation that changes all rows (`blend`), a whole chunk of edits is one product of the graph's
sparse matrix with the new messages of all edits side by side.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nora.engine.exec.kernels.vectorised import (
    edges_with_added,
    is_removed_edge,
)
from nora.engine.ir.changed_rows import ChangedRows, removed_keys
from nora.engine.ir.edges import EdgeDelta, Edges
from nora.engine.ir.pointers import owner_of, ptr_of
from nora.graph.edit_batch import EditBatch


def remaining_degree(edges: Edges, edits: EditBatch, delta: EdgeDelta) -> Tensor:
    """The degrees by which the normalisation divides, after each edit `[c, N]`, float64."""
    _, target, edge = edges.by_source
    owner, position, _ = edges.out_of(edits.node)
    edit = owner_of(edits.ptr)[owner]
    lost = torch.zeros(len(edits), edges.num_nodes, dtype=torch.double, device=target.device)
    removed = lost.clone()
    ones = torch.ones_like(position, dtype=torch.double)
    removed.index_put_((edit, target[position]), ones, accumulate=True)
    if edges.normalise == "sym" and edges.weight is not None:
        weight = edges.weight[edge[position]].double()
        lost.index_put_((edit, target[position]), weight, accumulate=True)
    else:
        lost = removed.clone()
    edges_changed = (owner_of(delta.ptr), delta.target)
    lost.index_put_(edges_changed, delta.loss, accumulate=True)
    removed.index_put_(edges_changed, delta.lost.double(), accumulate=True)
    # Differences of sums are not exactly 0 where nothing is left.
    return torch.where(removed == edges.count, torch.zeros_like(lost), edges.degree - lost)


def _resum(edges: Edges, delta: EdgeDelta, messages: Tensor, sums: Tensor) -> None:
    """Compute sums at targets of removed or added edges again, because subtraction may leave a rounding
    error."""
    n = edges.num_nodes
    pairs = (owner_of(delta.ptr) * n + delta.target).unique()
    edit, node = pairs // n, pairs % n
    _, sender, edge = edges.by_target
    owner, position, _ = edges.into(node)
    left = ~is_removed_edge(delta, edit[owner], position)
    owner, position = owner[left], position[left]
    owner, source, come = edges_with_added(delta, edit, node, n, owner, sender[position])
    sent = messages[source, edit[owner]]
    if edges.weight is not None:
        weight = torch.cat([edges.weight[edge[position]].double(), come])
        sent = sent * weight.to(sent.dtype).unsqueeze(-1)
    total = sent.new_zeros(len(node), sent.size(1)).index_add_(0, owner, sent)
    sums[node, edit] = total


def propagate_everywhere(
    edges: Edges,
    edits: EditBatch,
    rows: ChangedRows,
    plus: Tensor,
    more: ChangedRows,
    delta: EdgeDelta,
) -> ChangedRows:
    """New sums of all remaining nodes.

    Args:
        edges: The edges, and their normalisation.
        edits: The edits.
        rows: The new messages of every remaining node.
        plus: What is added on the whole graph `[N, F]`, one row `[1, F]`, or no rows.
        more: The rows of `plus` that have changed.
        delta: Removed and added edges.
    """
    n, count, width = edges.num_nodes, len(edits), rows.rows.size(1)
    dtype = rows.rows.dtype
    degree = remaining_degree(edges, edits, delta) if edges.normalise != "none" else None
    sent = rows.rows
    if degree is not None and edges.normalise == "sym":
        sent = sent * edges.scale(degree)[rows.edit, rows.node].to(dtype).unsqueeze(-1)
    messages = sent.new_zeros(n, count, width)
    messages[rows.node, rows.edit] = sent
    sums = edges.matrix(dtype) @ messages.view(n, count * width)
    if len(delta):
        _resum(edges, delta, messages, sums.view(n, count, width))
    # One row per edit and node, the removed left out.
    keep = torch.ones(count * n, dtype=torch.bool, device=sums.device)
    keep[removed_keys(edits, n)] = False
    place = keep.nonzero().flatten()
    edit, node = place // n, place % n
    out = sums.view(n, count, width)[node, edit]
    if degree is not None:
        out = out * edges.scale(degree)[edit, node].to(dtype).unsqueeze(-1)
    if len(plus):
        out = out + (plus[node] if len(plus) > 1 else plus)
    if len(more):
        at = torch.full((count * n,), -1, device=sums.device)
        at[place] = torch.arange(len(place), device=sums.device)
        out.index_add_(0, at[more.keys(n)], more.rows - plus[more.node])
    ptr = ptr_of(edit, count)
    return ChangedRows(ptr, node, out)
