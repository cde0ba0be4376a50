"""The same functions as `compiled.py` in plain torch, without compilation.

Pairs (edit, node) are single numbers `edit · N + node`; sorting them finds what is distinct.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nora.engine.exec.kernels.row_sampling import sample as sample
from nora.engine.ir.changed_rows import (
    CANCELLATION_RATIO,
    FEWEST_CORRECTIONS,
    MOST_CORRECTIONS,
    MOST_MOVED,
    Attention,
    ChangedRows,
    Drift,
    Frontier,
    Sums,
    TargetSlopes,
    removed_keys,
)
from nora.engine.ir.edges import EdgeDelta, Edges
from nora.engine.ir.pointers import find, find_unsorted, owner_of, ptr_of
from nora.graph.edit_batch import EditBatch
from nora.model import task
from nora.sparse import expanded

if TYPE_CHECKING:
    from nora.engine.ir.op import Chunk, Then
    from nora.engine.passes.fuse_aggregation import WeightedSum


def rescaled(edges: Edges, edits: EditBatch, delta: EdgeDelta) -> tuple[Tensor, Tensor]:
    """Pairs whose degree changes (sorted keys, removed nodes included) and their new `norm_dst`."""
    _, target, edge = edges.by_source
    owner, position, _ = edges.out_of(edits.node)
    keys = owner_of(edits.ptr)[owner] * edges.num_nodes + target[position]
    if edges.normalise == "sym" and edges.weight is not None:
        weight = edges.weight[edge[position]].double()
    else:
        weight = torch.ones_like(keys, dtype=torch.double)
    fewer = torch.ones_like(keys)
    if len(delta):
        keys = torch.cat([keys, owner_of(delta.ptr) * edges.num_nodes + delta.target])
        weight, fewer = torch.cat([weight, delta.loss]), torch.cat([fewer, delta.lost])
    distinct, inverse = keys.unique(return_inverse=True)
    lost = torch.zeros_like(distinct).index_add(0, inverse, fewer)
    loss = torch.zeros_like(distinct, dtype=torch.double).index_add(0, inverse, weight)
    node = distinct % edges.num_nodes
    rest = torch.where(edges.count[node] == lost, torch.zeros_like(loss), edges.degree[node] - loss)
    return distinct, edges.scale(rest)


def _find_sources(
    edges: Edges, edits: EditBatch, changed: ChangedRows, delta: EdgeDelta
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Whose messages change: `source_ptr`, `source`, `row`, `scale` of `Frontier`."""
    n = edges.num_nodes
    own = changed.keys(n)
    gone = removed_keys(edits, n)
    rows = torch.arange(len(changed), device=own.device)
    scale = edges.norm_src[changed.node]
    keys, row = [own, gone], [rows, torch.full_like(gone, -2)]
    scales = [scale, torch.zeros_like(gone, dtype=torch.double)]
    if edges.normalise == "sym":
        touched, new = rescaled(edges, edits, delta)
        at, there = find(touched, own)
        scales[0] = torch.where(there, new[at] if len(new) else scale, scale)
        fresh = ~(torch.isin(touched, own) | torch.isin(touched, gone))
        keys.append(touched[fresh])
        row.append(torch.full_like(touched[fresh], -1))
        scales.append(new[fresh])
    key, all_rows, all_scales = torch.cat(keys), torch.cat(row), torch.cat(scales)
    order = (key // n).argsort(stable=True)
    key = key[order]
    return ptr_of(key // n, len(edits)), key % n, all_rows[order], all_scales[order]


def find_frontier(
    edges: Edges,
    edits: EditBatch,
    changed: ChangedRows,
    also: tuple[Tensor, Tensor],
    delta: EdgeDelta,
) -> Frontier:
    """See `Backend.find_frontier`."""
    source_ptr, source, row, scale = _find_sources(edges, edits, changed, delta)
    n = edges.num_nodes
    edit = owner_of(source_ptr)
    target = edges.by_source[1]
    owner, position, edge_ptr = edges.out_of(source)
    keys = edit[owner] * n + target[position]
    own = owner_of(also[0]) * n + also[1]
    gone = removed_keys(edits, n)
    distinct = torch.cat([keys, own]).unique()
    distinct = distinct[~torch.isin(distinct, gone)]
    at, there = find(distinct, keys)
    slot = torch.where(there, at, torch.full_like(at, -1))
    node = distinct % n
    norm_dst = edges.norm_dst[node]
    if edges.normalise != "none":
        touched, new = rescaled(edges, edits, delta)
        at, there = find(touched, distinct)
        norm_dst = torch.where(there, new[at] if len(new) else norm_dst, norm_dst)
    ptr = ptr_of(distinct // n, len(edits))
    edges_changed = torch.zeros_like(node, dtype=torch.bool)
    return Frontier(
        source_ptr, source, row, scale, edge_ptr, slot, find(distinct, own)[0], ptr, node, norm_dst,
        edges_changed,
    )  # fmt: skip


def _message_changes(edges: Edges, frontier: Frontier, y: Tensor, rows: ChangedRows) -> Tensor:
    """The change of every source's message `[S, F]`, times its row's weight."""
    source, row, scale = frontier.source, frontier.row, frontier.scale
    base, before = y[source], edges.norm_src[source].to(y.dtype).unsqueeze(-1)
    new = scale.to(y.dtype).unsqueeze(-1)
    change = new * base - before * base
    changed = row >= 0
    own = row[changed]
    change[changed] += new[changed] * (rows.rows[own] - base[changed])
    if rows.weight is not None:
        change[changed] *= rows.weight[own].to(y.dtype).unsqueeze(-1)
    return change


def message_sizes(edges: Edges, frontier: Frontier, y: Tensor, rows: ChangedRows) -> Tensor:
    """See `Backend.message_sizes`."""
    return _message_changes(edges, frontier, y, rows).double().abs().sum(1)


def propagate(
    edges: Edges,
    frontier: Frontier,
    base: Sums,
    rows: ChangedRows,
    plus: ChangedRows,
    delta: EdgeDelta,
    then: Then | None = None,
    drift: Drift | None = None,
) -> tuple[Tensor, ...]:
    """See `Backend.propagate`."""
    out, doubtful = _corrected(edges, frontier, base, rows, plus, drift)
    doubtful |= frontier.edges_changed
    if drift is not None:
        drift.new[doubtful] = 0
    if bool(doubtful.any()):
        _resum(edges, frontier, doubtful, base, rows, plus, delta, out)
    return (out,) if then is None else then(out)


def _corrected(
    edges: Edges,
    frontier: Frontier,
    base: Sums,
    rows: ChangedRows,
    plus: ChangedRows,
    drift: Drift | None,
) -> tuple[Tensor, Tensor]:
    """Corrected sums of the reached rows `[T, F]`, and which of them are doubtful `[T]`."""
    y = base.y
    change = _message_changes(edges, frontier, y, rows)
    counts = frontier.edge_ptr[1:] - frontier.edge_ptr[:-1]
    owner = torch.arange(len(counts), device=y.device).repeat_interleave(counts)
    arrives = frontier.slot >= 0
    change = change[owner[arrives]]
    if edges.weight_by_source is not None:
        first = edges.by_source[0][frontier.source]
        position = (
            torch.arange(len(owner), device=y.device) - frontier.edge_ptr[owner] + first[owner]
        )
        change = change * edges.weight_by_source[position[arrives]].to(y.dtype).unsqueeze(-1)
    if drift is not None:
        return _moved(edges, frontier, base, change, arrives, plus, drift)
    total = base.total[frontier.node].index_add_(0, frontier.slot[arrives], change)
    size = base.size[frontier.node].index_add_(
        0, frontier.slot[arrives], change.abs() @ base.unit.t()
    )
    left = total.abs() @ base.unit.t()
    doubtful = ~(size.isfinite() & (left >= CANCELLATION_RATIO * size)).all(dim=1)
    out = total * frontier.norm_dst.to(y.dtype).unsqueeze(-1)
    if len(base.plus):
        out += base.plus[frontier.node] if len(base.plus) > 1 else base.plus
    if len(plus):
        out.index_add_(0, frontier.also, plus.rows - base.plus[plus.node])
    return out, doubtful


def _moved(
    edges: Edges,
    frontier: Frontier,
    base: Sums,
    change: Tensor,
    arrives: Tensor,
    plus: ChangedRows,
    drift: Drift,
) -> tuple[Tensor, Tensor]:
    """The same where rows are written back: without `base.total`, and with what they have moved."""
    node, slot = frontier.node, frontier.slot[arrives]
    size = base.size[node]
    mass = torch.zeros_like(size).index_add_(0, slot, change.abs() @ base.unit.t())
    share = torch.where(mass == 0, 0, mass / size).amax(dim=1).double()
    often = edges.count[node].clamp(FEWEST_CORRECTIONS, MOST_CORRECTIONS)
    drift.new[:] = drift.moved[node] + MOST_MOVED / often + share
    doubtful = ~((drift.new <= MOST_MOVED) & size.isfinite().all(dim=1))
    doubtful[frontier.also[: len(plus)]] = True
    sums = change.new_zeros(len(node), change.size(1)).index_add_(0, slot, change)
    return base.output[node] + sums * frontier.norm_dst.to(sums.dtype).unsqueeze(-1), doubtful


def _resum(
    edges: Edges,
    frontier: Frontier,
    doubtful: Tensor,
    base: Sums,
    rows: ChangedRows,
    plus: ChangedRows,
    delta: EdgeDelta,
    out: Tensor,
) -> None:
    """Sum the doubtful rows of `out` over what is left of their neighbours, and those that came."""
    n, which = edges.num_nodes, doubtful.nonzero().flatten()
    node, edit = frontier.node[which], owner_of(frontier.ptr)[which]
    _, sender, edge = edges.by_target
    owner, position, _ = edges.into(node)
    key = owner_of(frontier.source_ptr) * n + frontier.source
    at, there = find_unsorted(key, edit[owner] * n + sender[position])
    stays = ~there
    stays[there] = frontier.row[at[there]] != -2
    stays &= ~is_removed_edge(delta, edit[owner], position)
    owner, position = owner[stays], position[stays]
    source = sender[position].long()
    owner, source, come = edges_with_added(delta, edit, node, n, owner, source)
    at, there = find_unsorted(key, edit[owner] * n + source)
    before, row = edges.norm_src[source], torch.full_like(source, -1)
    factor = before.clone()
    factor[there], row[there] = frontier.scale[at[there]], frontier.row[at[there]]
    if edges.weight is not None:
        weight = torch.cat([edges.weight[edge[position]].double(), come])
        before, factor = before * weight, factor * weight
    sent = pick(source, row, base.y, rows.rows) * factor.to(out.dtype).unsqueeze(-1)
    if rows.weight is not None:
        own = row >= 0
        share = rows.weight[row[own]].unsqueeze(-1)
        rest = (1 - share) * before[own].unsqueeze(-1)
        sent[own] = share.to(out.dtype) * sent[own] + rest.to(out.dtype) * base.y[source[own]]
    total = out.new_zeros(len(node), out.size(1)).index_add_(0, owner, sent)
    total *= frontier.norm_dst[which].to(out.dtype).unsqueeze(-1)
    if len(base.plus):
        more = torch.full((len(frontier.node),), -1, device=out.device)
        more[frontier.also[: len(plus)]] = torch.arange(len(plus), device=out.device)
        own = node if len(base.plus) > 1 else torch.zeros_like(node)
        total += pick(own, more[which], base.plus, plus.rows)
    out[which] = total


def is_removed_edge(delta: EdgeDelta, edit: Tensor, place: Tensor) -> Tensor:
    """Which of the edges at `place` in `by_target` go by themselves in their edit."""
    lost = delta.place >= 0
    if not bool(lost.any()):
        return torch.zeros_like(place, dtype=torch.bool)
    most = int(max(delta.place.max(), place.max() if len(place) else 0)) + 1
    gone = owner_of(delta.ptr)[lost] * most + delta.place[lost]
    return torch.isin(edit * most + place, gone)


def edges_with_added(
    delta: EdgeDelta, edit: Tensor, node: Tensor, n: int, owner: Tensor, source: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Neighbours `source` of the rows `owner` with added rows appended, and the weights of these.

    Args:
        delta: Removed and added edges.
        edit: The edit of each row.
        node: Its node.
        n: Number of nodes.
        owner: The row that each neighbour is one of.
        source: The neighbours.
    """
    come = delta.place < 0
    if not bool(come.any()):
        return owner, source, delta.weight[:0]
    wanted = owner_of(delta.ptr)[come] * n + delta.target[come]
    at, there = find_unsorted(edit * n + node, wanted)
    owner = torch.cat([owner, at[there]])
    return owner, torch.cat([source, delta.source[come][there]]), delta.weight[come][there]


def union(a: ChangedRows, b: ChangedRows, num_nodes: int) -> tuple[Tensor, ...]:
    """See `Backend.union`."""
    at, known = find_unsorted(a.keys(num_nodes), b.keys(num_nodes))
    edit = b.edit[~known]
    alone = ptr_of(edit, len(a.ptr) - 1)
    at_a = torch.arange(len(a), device=at.device) + alone[a.edit]
    at_b = torch.empty_like(at)
    at_b[known] = at_a[at[known]]
    at_b[~known] = a.ptr[edit + 1] + torch.arange(len(edit), device=at.device)
    node = torch.empty(len(a) + len(edit), dtype=torch.long, device=at.device)
    node[at_a], node[at_b] = a.node, b.node
    return a.ptr + alone, node, at_a, at_b


def attend(
    edges: Edges,
    edits: EditBatch,
    frontier: Frontier,
    base: Attention,
    changed: Sequence[ChangedRows],
    delta: EdgeDelta,
    target_slopes: TargetSlopes | None = None,
    drift: Drift | None = None,
) -> Tensor:
    """See `Backend.attend`; here every reached neighbourhood is weighed again.

    Rows that count several times leave the neighbourhood as it was; what each of them alone would change is
    then added as often.
    """
    n = edges.num_nodes
    edit = owner_of(frontier.ptr)
    source = edges.by_target[1]
    owner, position, _ = edges.into(frontier.node)
    key = edit[owner] * n + source[position]
    stays = ~torch.isin(key, removed_keys(edits, n))
    stays &= ~is_removed_edge(delta, edit[owner], position)
    owner, sender = owner[stays], source[position[stays]].long()
    owner, sender, _ = edges_with_added(delta, edit, frontier.node, n, owner, sender)
    key = edit[owner] * n + sender
    here = edit * n + frontier.node
    weight, pairs = changed[0].weight, changed[0].keys(n)
    once = slice(None) if weight is None else weight == 1
    certain, order = pairs[once].sort()

    def rows_at(keys: Tensor, whole: Tensor, new: Tensor) -> Tensor:
        at, there = find(certain, keys)
        found = whole[keys % n]
        found[there] = new[once][order[at[there]]]
        return found

    y_rows, alpha_src_rows, alpha_dst_rows = (c.rows for c in changed)
    alpha_dst = rows_at(here, base.alpha_dst, alpha_dst_rows)
    alpha_src, messages = rows_at(key, base.alpha_src, alpha_src_rows), rows_at(key, base.y, y_rows)
    out, peak, share = weigh(alpha_src + alpha_dst[owner], messages, owner, len(here), base.slope)
    if drift is not None:
        drift.peak[:], drift.share[:] = peak, share
    if weight is None:
        return out
    several = (weight != 1).nonzero().flatten()
    drawn, order = pairs[several].sort()
    several, added = several[order], out.clone()
    at, there = find(drawn, key)
    mine, m = owner[there], several[at[there]]

    def part(score: Tensor) -> Tensor:
        return (torch.where(score < 0, score * base.slope, score) - peak[mine]).exp()

    gone, come = part(alpha_src[there] + alpha_dst[mine]), part(alpha_src_rows[m] + alpha_dst[mine])
    then = ((share[mine] - gone).clamp(min=0) + come).unsqueeze(-1)
    total = (out * share.unsqueeze(-1))[mine] - gone.unsqueeze(-1) * messages[there]
    alone = (total + come.unsqueeze(-1) * y_rows[m]) / then - out[mine]
    added.index_add_(0, mine, alone * weight[m].to(out.dtype).view(-1, 1, 1))
    at, there = find(drawn, here)
    m, some = several[at[there]], there.nonzero().flatten()
    place = torch.full_like(here, -1)
    place[some] = torch.arange(len(some), device=here.device)
    reached = place[owner] >= 0
    into = place[owner[reached]]
    turned = weigh(
        alpha_src[reached] + alpha_dst_rows[m][into], messages[reached], into, len(some), base.slope
    )[0]
    added[some] += (turned - out[some]) * weight[m].to(out.dtype).view(-1, 1, 1)
    return added


def weighted_sum(
    op: WeightedSum, chunk: Chunk, y: ChangedRows, weights: ChangedRows | None
) -> ChangedRows:
    """See `Backend.weighted_sum`."""
    return op.one_by_one(chunk, y, weights)


def weigh(
    score: Tensor, messages: Tensor, owner: Tensor, count: int, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax-weighted sums `[count, H, C]`, with each softmax's largest score and denominator."""
    score = torch.where(score < 0, score * slope, score)
    index = owner.unsqueeze(-1).expand_as(score)
    nothing = score.new_full((count, score.size(1)), -torch.inf)
    peak = nothing.scatter_reduce(0, index, score, "amax")
    weight = (score - peak[owner]).exp()
    share = torch.zeros_like(nothing).index_add(0, owner, weight) + 1e-16
    total = messages.new_zeros(count, *messages.shape[1:])
    total.index_add_(0, owner, messages * weight.unsqueeze(-1))
    return total / share.unsqueeze(-1), peak, share


def pair_dots(
    incident: tuple[Tensor, Tensor],
    pairs: Tensor,
    edits: EditBatch,
    changed: ChangedRows,
    z: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """See `Backend.pair_dots`."""
    indptr, edge = incident
    n, count = len(indptr) - 1, pairs.size(1)
    owner, position, _ = expanded(indptr, changed.node)
    keys = (changed.edit[owner] * count + edge[position]).unique()
    edit, pair = keys // max(count, 1), keys % max(count, 1)
    ends = edit * n + pairs[:, pair]
    stays = ~torch.isin(ends, removed_keys(edits, n)).any(dim=0)
    edit, pair, ends = edit[stays], pair[stays], ends[:, stays]
    at, there = find_unsorted(changed.keys(n), ends)
    row = torch.where(there, at, torch.full_like(at, -1))
    first, second = (pick(pairs[i, pair], row[i], z, changed.rows) for i in (0, 1))
    return ptr_of(edit, len(edits)), pair, (first * second).sum(dim=-1)


def pick(node: Tensor, row: Tensor, base: Tensor, rows: Tensor) -> Tensor:
    """The nodes' rows: changed where `row >= 0`, else their original."""
    out = base[node]
    changed = row >= 0
    out[changed] = rows[row[changed]]
    return out


def item_changes(before: Tensor, item: Tensor, after: Tensor) -> Tensor:
    """See `Backend.item_changes`."""
    return task.item_change(before[item], after)
