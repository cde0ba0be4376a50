"""Parts of a graph: without some nodes (`G−r`), with some nodes isolated, or copies of induced subgraphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.arguments import shown
from nora.graph.edge_sets import Kind, Rewriting, by_kind, node_counts, rewrite


def node_ids(
    nodes: int | Iterable[int] | Tensor, num_nodes: int, what: str = "node", owner: str = "graph"
) -> Tensor:
    """Sorted distinct ids from an id, a list of ids, a tensor of ids or a boolean mask.

    >>> node_ids([3, 1, 3], 5)
    tensor([1, 3])
    """
    if isinstance(nodes, int | Integral) and not isinstance(nodes, bool):
        nodes = [int(nodes)]
    given = [nodes] if isinstance(nodes, str) else nodes
    if not isinstance(given, Tensor):
        if not isinstance(given, Iterable):
            raise TypeError(
                f"{what} ids are whole numbers, one or several, e.g. 17 or [3, 17]; got {shown(given)}"
            )
        given = list(given)
        named = next((one for one in given if isinstance(one, str)), None)
        if named is not None:
            raise TypeError(
                f"{what} ids are numbers, got {named!r}; a run of nora.load_run knows its nodes' "
                f"names: run.what_if({named!r})"
            )
    try:
        ids = torch.as_tensor(given)
    except (
        RuntimeError,
        ValueError,
        TypeError,
    ):  # None among them, lists of several lengths, 2**70
        raise TypeError(
            f"{what} ids are whole numbers from 0 to {num_nodes - 1}, got {shown(given)}"
        ) from None
    if ids.dtype == torch.bool:
        if ids.numel() != num_nodes:
            raise ValueError(f"the {what} mask has {ids.numel()} entries, expected {num_nodes}")
        return ids.nonzero().flatten().cpu()
    if ids.numel() == 0:
        return torch.empty(0, dtype=torch.long)
    if ids.dtype == torch.uint8 and ids.numel() == num_nodes:
        raise TypeError(f"is this {what} mask of dtype uint8 or a list of ids? Use mask.bool()")
    if ids.dtype.is_floating_point or ids.dtype.is_complex:
        raise TypeError(f"{what} ids must be integers, got {ids.dtype}")
    ids = ids.flatten().long().cpu().unique()
    for wrong in (int(ids[0]), int(ids[-1])):
        if not 0 <= wrong < num_nodes:
            raise ValueError(
                f"{what} {wrong} is out of range: the {owner} has {num_nodes} "
                f"{what.split()[-1]}s "
                f"(0 … {num_nodes - 1})"
            )
    return ids


def check_in_range(ids: Tensor, count: int, what: str, owner: str = "the graph") -> None:
    """Raise unless ids lie in `0 … count - 1`; `what` is what names them, for the message."""
    if ids.numel():
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= count:
            raise ValueError(
                f"{what} node {low if low < 0 else high}: {owner} has {count} nodes (0 … {count - 1})"
            )


def kept(nodes: Tensor, num_nodes: int) -> Tensor:
    """Mask `[N]` of the nodes that remain without `nodes`."""
    keep = torch.ones(num_nodes, dtype=torch.bool, device=nodes.device)
    keep[nodes] = False
    return keep


def remove_nodes(data: Data | HeteroData, nodes: int | Iterable[int] | Tensor) -> Data | HeteroData:
    """`data` without `nodes` and their edges; node- and edge-level tensors are carried along.

    All edge sets are without the edges at `nodes` (see `nora.graph.edge_sets`). The remaining nodes keep
    their order and are renumbered from 0, within their type where there are several. Self-loops and
    duplicate edges of remaining nodes stay as they are.

    Args:
        data: The graph; left untouched.
        nodes: An id, ids, or a mask `[N]`; with node types, global ids (see
            `nora.graph.node_index`).

    Example:
        >>> path = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> remove_nodes(path, 0).edge_index
        tensor([[0, 1],
                [1, 0]])
    """
    keep, rows = _apart(data, nodes)
    ids = {
        kind: torch.where(part, part.long().cumsum(0) - 1, -1)
        for kind, part in by_kind(data, keep).items()
    }
    return rewrite(data, Rewriting(rows, [ids]))


def isolate_nodes(
    data: Data | HeteroData, nodes: int | Iterable[int] | Tensor
) -> Data | HeteroData:
    """`data` with the same nodes under the same ids, without any edge that touches `nodes`.

    Args:
        data: The graph; left untouched.
        nodes: As in `remove_nodes`.

    Example:
        >>> path = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> isolate_nodes(path, 0).edge_index
        tensor([[1, 2],
                [2, 1]])
    """
    keep, _ = _apart(data, nodes)
    parts = by_kind(data, keep)
    every = {kind: torch.arange(len(part)) for kind, part in parts.items()}
    ids = {kind: torch.where(part, every[kind], -1) for kind, part in parts.items()}
    return rewrite(data, Rewriting(every, [ids]))


def _apart(
    data: Data | HeteroData, nodes: int | Iterable[int] | Tensor
) -> tuple[Tensor, dict[Kind, Tensor]]:
    """Mask of the remaining nodes `[N]`, and their ids within each type."""
    num_nodes = int(data.num_nodes or 0)
    keep = kept(node_ids(nodes, num_nodes), num_nodes)
    parts = by_kind(data, keep)
    return keep, {kind: part.nonzero().flatten() for kind, part in parts.items()}


def disjoint_pieces(data: Data | HeteroData, pieces: Sequence[Tensor]) -> Data | HeteroData:
    """The disjoint union of the subgraphs that the pieces induce.

    Node and edge tensors and all edge sets are carried along; what belongs to the graph as a whole
    stays as it is. The nodes of each type are ordered by piece, and in a piece as given.

    Args:
        data: The graph; left untouched.
        pieces: Nodes `[n_k]`, with node types as global ids (see `nora.graph.node_index`). A
            node may be in several pieces, and is copied; in one piece only once.

    Example:
        >>> path = Data(x=torch.arange(3.0), edge_index=torch.tensor([[0, 1], [1, 2]]))
        >>> both = disjoint_pieces(path, [torch.tensor([0, 1]), torch.tensor([2, 1])])
        >>> both.x, both.edge_index
        (tensor([0., 1., 2., 1.]), tensor([[0, 3],
                [1, 2]]))
    """
    if not pieces:
        raise ValueError("pieces is empty: give at least one piece")
    total = int(data.num_nodes or 0)
    pieces = [piece.flatten().long().cpu() for piece in pieces]
    wanted = torch.zeros(total, dtype=torch.bool)
    wanted[torch.cat(pieces)] = True
    # First what is in any of them, so that the cost depends on the pieces, not on the graph.
    small = remove_nodes(data, ~wanted)
    new_id = wanted.long().cumsum(0) - 1
    total = int(wanted.sum())
    rows: dict[Kind, list[Tensor]] = {kind: [] for kind in node_counts(small)}
    passed = dict.fromkeys(rows, 0)
    maps: list[dict[Kind, Tensor]] = []
    for piece in pieces:
        rank = torch.full((total,), -1)
        rank[new_id[piece]] = torch.arange(len(piece))
        ids: dict[Kind, Tensor] = {}
        for kind, part in by_kind(small, rank).items():
            here = (part >= 0).nonzero().flatten()
            here = here[part[here].argsort()]
            ids[kind] = torch.full_like(part, -1)
            ids[kind][here] = torch.arange(len(here)) + passed[kind]
            rows[kind].append(here)
            passed[kind] += len(here)
        maps.append(ids)
    found = rewrite(
        small, Rewriting({kind: torch.cat(parts) for kind, parts in rows.items()}, maps)
    )
    if isinstance(found, Data):
        found.num_nodes = passed[None]
    return found
