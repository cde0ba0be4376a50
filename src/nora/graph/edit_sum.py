"""Two edits of the same graph as one: the second after the first, in the ids of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.graph.edge_lookup import one_by_one
from nora.graph.edits import Edits


def combined(first: Edits, second: Edits) -> Edits:
    """Both together; an edge that one adds and the other removes is left out."""
    if first.undirected is not second.undirected and None not in (
        first.undirected,
        second.undirected,
    ):
        raise ValueError("one of the edits is undirected and the other is not")
    said = first.undirected if first.undirected is not None else second.undirected
    gone = _gone(second.remove)
    come, go = _listed(first.add_edges), _listed(first.remove_edges)
    # What the first does to a node that the second removes is gone with it.
    come = [edge for edge in come if not gone & _ends(edge)]
    rows = {node: row for node, row in (first.features or {}).items() if not gone & _gone(node)}
    for edge_type, ends, _ in _listed(second.remove_edges):
        added = _place(come, edge_type, ends, said)
        if added is None and said is None:
            _check_direction(come, ends)
        if added is not None:
            del come[added]
        elif _place(go, edge_type, ends, said) is None:
            go.append((edge_type, ends, None))
        else:
            raise ValueError(f"edge {ends[0]}–{ends[1]} is removed by both edits")
    for edge_type, ends, values in _listed(second.add_edges):
        if _place(come, edge_type, ends, said) is not None:
            raise ValueError(f"edge {ends[0]}–{ends[1]} is added by both edits")
        come.append((edge_type, ends, values))
    return Edits(
        remove=_both(first.remove, second.remove),
        remove_edges=_by_type(go),
        add_edges=_by_type(come),
        add_nodes=_stacked(first.add_nodes, second.add_nodes),
        features={**rows, **(second.features or {})} or None,
        undirected=said,
    )


_Edge = tuple[Any, tuple[int, int], Any]


def _listed(edges: Any) -> list[_Edge]:
    """Every edge by itself, with its type (None without types) and what is said of it."""
    if isinstance(edges, Mapping):
        return [(key, ends, said) for key, part in edges.items() for _, ends, said in _listed(part)]
    return [(None, (int(one[0]), int(one[1])), (*one, None)[2]) for one in one_by_one(edges)]


def _place(edges: list[_Edge], edge_type: Any, ends: tuple[int, int], said: Any) -> int | None:
    """Where an edge stands; in the other direction, too, where the edits say that they are undirected."""
    same = edge_type is None or edge_type[0] == edge_type[2]
    for at, (kind, there, _) in enumerate(edges):
        if kind == edge_type and (there == ends or (said and same and there == ends[::-1])):
            return at
    return None


def _check_direction(come: list[_Edge], ends: tuple[int, int]) -> None:
    """Raise where it depends on the graph whether an edge that goes is one that came."""
    if ends[0] != ends[1] and any(kind is None and there == ends[::-1] for kind, there, _ in come):
        raise ValueError(
            f"one edit adds the edge {ends[1]}–{ends[0]} and the other removes {ends[0]}–{ends[1]}, which is "
            "the same or another one, as the graph is: name it in the same direction, or give one of the "
            "edits undirected=True or undirected=False"
        )


def _gone(nodes: Any) -> set[tuple[Any, int]]:
    """Nodes by type and id, as far as they are named by ids."""
    found = set()
    for one in _nodes(nodes) if _named(nodes) else ():
        kind, ids = one if isinstance(one, tuple) and len(one) == 2 else (None, one)
        found |= {(kind, int(node)) for node in _nodes(ids) if not isinstance(node, str | tuple)}
    return found


def _ends(edge: _Edge) -> set[tuple[Any, int]]:
    """The nodes of an edge; nobody knows their types where only the relation is named."""
    edge_type, ends, _ = edge
    if edge_type is None:
        return {(None, node) for node in ends}
    if not isinstance(edge_type, tuple):
        return set()
    return {(edge_type[0], ends[0]), (edge_type[2], ends[1])}


def _by_type(edges: list[_Edge]) -> Any:
    plain = [(*ends, said) if said else ends for kind, ends, said in edges if kind is None]
    if plain or not edges:
        return plain
    found: dict[Any, list[Any]] = {}
    for kind, ends, said in edges:
        found.setdefault(kind, []).append((*ends, said) if said else ends)
    return found


def _both(first: Any, second: Any) -> Any:
    """Nodes of both, by type where they are given so."""
    if not _named(first):
        return second
    if not _named(second):
        return first
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        kinds = dict.fromkeys([*first, *second])
        return {kind: _nodes(first.get(kind, ())) + _nodes(second.get(kind, ())) for kind in kinds}
    if isinstance(first, Mapping) or isinstance(second, Mapping):
        raise TypeError("give the nodes of both edits in the same form")
    return _nodes(first) + _nodes(second)


def _named(nodes: Any) -> bool:
    return not (hasattr(nodes, "__len__") and len(nodes) == 0)


def _nodes(nodes: Any) -> list[Any]:
    if isinstance(nodes, Mapping):
        return list(nodes.items())
    if isinstance(nodes, Tensor | np.ndarray):
        mask = torch.as_tensor(nodes)
        ids = mask.nonzero().flatten() if mask.dtype == torch.bool else mask
        return ids.reshape(-1).tolist()
    single = isinstance(nodes, int | str | np.integer) or (
        isinstance(nodes, tuple) and len(nodes) == 2 and isinstance(nodes[0], str)
    )
    return [nodes] if single else list(nodes)


def _stacked(first: Any, second: Any) -> Any:
    """New nodes of both, one after the other."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        kinds = dict.fromkeys([*first, *second])
        return {kind: _stacked(first.get(kind), second.get(kind)) for kind in kinds}
    if isinstance(first, Mapping) or isinstance(second, Mapping):
        raise TypeError("give the new nodes of both edits in the same form")
    rows = [torch.as_tensor(part) for part in (first, second)]
    if all(part.dim() == 1 for part in rows) and len(rows[0]) != len(rows[1]):
        return torch.cat(rows)  # no rows of features, then, but a number for every node
    return torch.cat([part.unsqueeze(0) if part.dim() == 1 else part for part in rows])
