"""Other graphs made of pieces of the given one: what a model does on them tells what it does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.graph.edge_sets import Kind, Rewriting, by_kind, node_counts, rewrite
from nora.graph.removal import remove_nodes


def disjoint_pieces(data: Data | HeteroData, pieces: Sequence[Tensor]) -> Data | HeteroData:
    """The disjoint union of the subgraphs that the pieces induce.

    Node and edge tensors and all edge sets are carried along; what belongs to the graph as a whole
    stays as it is. The nodes of each type come piece after piece, each in the order given.

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
    # First what is in any of them: then the pieces cost what they are large.
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
