"""Edits as the page sends them: checked one by one, then together as `nora.Edits`.

A state of the page is a list of edits, each an object with a `kind`:

    {"kind": "remove", "node": 17}
    {"kind": "remove_edge", "edge": [3, 17]}             (in all directions that it has)
    {"kind": "add_edge", "edge": [5, 9], "values": {"edge_weight": 0.5}, "type": 2}
    {"kind": "set", "node": 17, "feature": 3, "value": 0.5}

Nodes are global ids; `type` is the position of an edge type in `edge_kinds`, optional where only one fits.
Edits in any order have one key, by which answers are cached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nora.explorer.rejection import Rejected
from nora.graph.edge_lookup import EdgeType
from nora.graph.edge_sets import edge_companions
from nora.graph.edits import Edits
from nora.questions.session import Session

MOST = 500
KINDS = {
    "remove": {"node"},
    "remove_edge": {"edge"},
    "add_edge": {"edge", "values", "type"},
    "set": {"node", "feature", "value"},
}

LARGEST = float(torch.finfo(torch.float32).max)


@dataclass(frozen=True, order=True)
class PageEdit:
    """One edit.

    Attributes:
        kind: `remove`, `remove_edge`, `add_edge` or `set`.
        nodes: The node, or the two ends of the edge.
        feature: Which feature is set; −1 for none.
        value: What it is set to.
        values: Attributes of an added edge, as pairs of key and number.
        type: The position of its type in `edge_types`; −1 where there are no types.
    """

    kind: str
    nodes: tuple[int, ...]
    feature: int = -1
    value: float = 0.0
    values: tuple[tuple[str, float], ...] = ()
    type: int = -1


PageEdits = tuple[PageEdit, ...]


def read_edits(given: Any, session: Session) -> PageEdits:
    """A request's edits, checked: sorted, each once; of two that set the same feature the last."""
    if not isinstance(given, list):
        raise Rejected(422, "edits must be a list")
    if len(given) > MOST:
        raise Rejected(422, f"at most {MOST} edits at once, got {len(given)}")
    found: dict[Any, PageEdit] = {}
    for one in given:
        change = _change(one, session)
        if change.kind in ("remove_edge", "add_edge"):
            other = "add_edge" if change.kind == "remove_edge" else "remove_edge"
            if any(key[0] == other and set(key[1]) == set(change.nodes) for key in found):
                raise Rejected(422, "an edge is both removed and added")
        found[change.kind, change.nodes, change.feature, change.type] = change
    return tuple(sorted(found.values()))


def _change(one: Any, session: Session) -> PageEdit:
    if not isinstance(one, Mapping):
        raise Rejected(422, "an edit must be an object with a kind")
    kind = one.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise Rejected(422, f"kind must be one of {', '.join(KINDS)}")
    strange = set(one) - KINDS[kind] - {"kind"}
    if strange:
        raise Rejected(
            422, f"an edit of the kind {kind} must have {', '.join(sorted(KINDS[kind]))}"
        )
    if kind == "remove":
        return PageEdit(kind, (node_id(one.get("node"), session),))
    if kind == "set":
        return _feature(one, session)
    ends = one.get("edge")
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise Rejected(422, "edge must be a list of two node ids")
    pair = tuple(node_id(end, session) for end in ends)
    edge_type = -1
    if kind == "add_edge" and session.node_index.types:
        pair, edge_type = _typed(pair, one.get("type"), session)
    elif one.get("type") is not None:
        raise Rejected(422, "only an added edge has a type, in a graph with edge types")
    elif kind == "remove_edge" or session.edges.paired(None):
        pair = tuple(sorted(pair))
    given = one.get("values", {})
    if not isinstance(given, Mapping) or len(given) > 16:
        raise Rejected(422, "values must be an object of numbers")
    values = sorted((str(key), _number(value)) for key, value in given.items())
    return PageEdit(kind, pair, values=tuple(values), type=edge_type)


def node_id(given: Any, session: Session) -> int:
    """A node's id from a request."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise Rejected(422, "a node must be a whole number, its id")
    if not 0 <= given < session.num_nodes:
        raise Rejected(422, f"node {given} is out of range: 0 … {session.num_nodes - 1}")
    return given


def _number(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise Rejected(422, "a value must be a number")
    try:
        value = float(given)
    except OverflowError:
        value = math.inf
    # Models count in single precision, where what is larger would be infinite.
    if not abs(value) <= LARGEST:
        raise Rejected(422, f"a value must be finite, and at most {LARGEST:.3g}")
    return value


def _typed(pair: tuple[int, ...], given: Any, session: Session) -> tuple[tuple[int, ...], int]:
    """The ends of a new edge in the order of its type, and the type's place."""
    known = edge_types(session)
    if given is not None and (
        isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(known)
    ):
        raise Rejected(422, "type must be a position in the list of edge types")
    index = session.node_index
    first, last = (kind for kind, _ in index.located(torch.tensor(pair)))
    fits = [
        (at, ends)
        for at, edge_type in enumerate(known)
        for way, ends in (((first, last), pair), ((last, first), pair[::-1]))
        if edge_type is not None and (edge_type[0], edge_type[2]) == way and given in (None, at)
    ]
    if not fits:
        raise Rejected(422, f"no type of edge joins {first} and {last}")
    if len({at for at, _ in fits}) > 1:
        names = ", ".join(kind[1] for at, _ in fits if (kind := known[at]) is not None)
        raise Rejected(
            422, f"several types of edge join {first} and {last}: give the type, one of {names}"
        )
    at, ends = fits[0]
    return (tuple(sorted(ends)) if session.edges.paired(known[at]) else ends), at


def _feature(one: Mapping[str, Any], session: Session) -> PageEdit:
    node = node_id(one.get("node"), session)
    row = features_of_node(node, session)
    feature = one.get("feature")
    if isinstance(feature, bool) or not isinstance(feature, int):
        raise Rejected(422, "feature must be a whole number, its column")
    if not 0 <= feature < len(row):
        raise Rejected(422, f"feature {feature} is out of range: 0 … {len(row) - 1}")
    return PageEdit("set", (node,), feature, _number(one.get("value")))


def features_of_node(node: int, session: Session) -> Tensor:
    """A node's features `[F]`."""
    index, store, at = session.node_index, session.data, node
    if index.types:
        kind, at = index.located(torch.tensor([node]))[0]
        store = session.data[kind]
    x = store.get("x")
    if not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point():
        raise Rejected(422, "this node has no features that can be set")
    return x[at]


def edge_types(session: Session) -> list[EdgeType]:
    """The types of edges that people name: not the reverse that PyG has made of another."""
    mirrors = session.edges.directions.mirrors
    return [
        one
        for one in session.edges.types
        if one is None or one not in mirrors or one[1] != f"rev_{mirrors[one][1]}"  # type: ignore[index]
    ]


def edge_kinds(session: Session) -> list[dict[str, Any]]:
    """Of each type: its name, the node types it joins, and the attributes of an added edge by default."""
    return [
        {
            "name": "" if one is None else one[1],
            "ends": None
            if one is None
            else [session.node_index.types.index(one[0]), session.node_index.types.index(one[2])],
            "values": _commonest(session.data if one is None else session.data[one]),
        }
        for one in edge_types(session)
    ]


def _commonest(store: Any) -> dict[str, float]:
    return {
        key: float(rows.double().mode().values) if rows.numel() else 1.0
        for key, rows in edge_companions(store).items()
        if rows.dim() == 1
    }


def as_edits(edits: PageEdits, session: Session) -> Edits:
    """All of them together, for `Session.what_if`."""
    index = session.node_index
    rows: dict[Any, Tensor] = {}
    for one in edits:
        if one.kind == "set":
            node = one.nodes[0]
            named = index.located(torch.tensor([node]))[0] if index.types else node
            rows.setdefault(named, features_of_node(node, session).clone())[one.feature] = one.value
    removed = [one.nodes[0] for one in edits if one.kind == "remove"]
    removed_edges: dict[EdgeType, list[tuple[int, ...]]] = {}
    added: dict[EdgeType, list[tuple[Any, ...]]] = {}
    for one in edits:
        if one.kind == "remove_edge":
            for edge_type, pair in _edges_between(one.nodes, session):
                removed_edges.setdefault(edge_type, []).append(pair)
        elif one.kind == "add_edge":
            edge_type = edge_types(session)[one.type] if index.types else None
            whole = edge_companions(session.data if edge_type is None else session.data[edge_type])
            ends = _within(one.nodes, session)
            attributes = {key: _like(value, whole.get(key)) for key, value in one.values}
            added.setdefault(edge_type, []).append((*ends, attributes) if attributes else ends)
    return Edits(
        remove=index.located(torch.tensor(removed)) if index.types and removed else removed,
        remove_edges=removed_edges if index.types else removed_edges.get(None, []),
        add_edges=added if index.types else added.get(None, []),
        features=rows or None,
    )


def _within(nodes: tuple[int, ...], session: Session) -> tuple[int, ...]:
    """Ids within the nodes' types."""
    index = session.node_index
    return tuple(at for _, at in index.located(torch.tensor(nodes))) if index.types else nodes


def _edges_between(
    nodes: tuple[int, ...], session: Session
) -> list[tuple[EdgeType, tuple[int, ...]]]:
    """The edges between two nodes, of every type, in the directions that they have."""
    index, found = session.node_index, []
    for ends in (nodes, nodes[::-1])[: 1 if nodes[0] == nodes[1] else 2]:
        local = _within(ends, session)
        kinds = [kind for kind, _ in index.located(torch.tensor(ends))] if index.types else None
        for edge_type in edge_types(session):
            if (
                kinds is not None
                and edge_type is not None
                and kinds != [edge_type[0], edge_type[2]]
            ):
                continue
            if session.edges.paired(edge_type) and (edge_type, local[::-1]) in found:
                continue
            if bool(session.edges.types[edge_type].holds(torch.tensor([local]).t()).all()):
                found.append((edge_type, local))
    if not found:
        raise Rejected(422, f"edge {nodes[0]}–{nodes[1]} is not in the graph")
    return found


def _like(value: float, rows: Tensor | None) -> float | int:
    """A number as the graph keeps it: types of edges are whole."""
    whole = rows is not None and not rows.is_floating_point()
    return int(value) if whole and value.is_integer() else value
