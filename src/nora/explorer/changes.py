"""Edits as the page sends them: checked one by one, then together as `nora.Edits`.

A state of the page is a list of edits, each an object with a `kind`:

    {"kind": "remove", "node": 17}
    {"kind": "cut", "edge": [3, 17]}                     (in all directions that it has)
    {"kind": "add", "edge": [5, 9], "values": {"edge_weight": 0.5}}
    {"kind": "set", "node": 17, "feature": 3, "value": 0.5}

Nodes are ids. What the order of two edits cannot matter to has one key, by which answers are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from nora.explorer.refusal import Refused
from nora.problem.edge_sets import edge_companions
from nora.problem.edits import Edits
from nora.questions.session import Session

MOST = 500
KINDS = {
    "remove": {"node"},
    "cut": {"edge"},
    "add": {"edge", "values"},
    "set": {"node", "feature", "value"},
}


@dataclass(frozen=True, order=True)
class Change:
    """One edit.

    Attributes:
        kind: `remove`, `cut`, `add` or `set`.
        nodes: The node, or the two ends of the edge.
        feature: Which feature is set; −1 for none.
        value: What it is set to.
        values: What is said of an edge that comes, as pairs of key and number.
    """

    kind: str
    nodes: tuple[int, ...]
    feature: int = -1
    value: float = 0.0
    values: tuple[tuple[str, float], ...] = ()


Key = tuple[Change, ...]


def read_changes(given: Any, session: Session) -> Key:
    """A request's edits, checked: sorted, each once; of two that set the same feature the last."""
    if not isinstance(given, list):
        raise Refused(422, "edits must be a list")
    if len(given) > MOST:
        raise Refused(422, f"at most {MOST} edits at once, got {len(given)}")
    found: dict[Any, Change] = {}
    for one in given:
        change = _change(one, session)
        if change.kind in ("cut", "add"):
            other = ("add" if change.kind == "cut" else "cut", change.nodes, -1)
            if other in found:
                raise Refused(422, "an edge is both cut and added")
        found[change.kind, change.nodes, change.feature] = change
    return tuple(sorted(found.values()))


def _change(one: Any, session: Session) -> Change:
    if not isinstance(one, Mapping):
        raise Refused(422, "an edit must be an object with a kind")
    kind = one.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise Refused(422, "an edit's kind is remove, cut, add or set")
    strange = set(one) - KINDS[kind] - {"kind"}
    if strange:
        raise Refused(422, f"an edit of the kind {kind} has {', '.join(sorted(KINDS[kind]))}")
    if kind == "remove":
        return Change(kind, (node_id(one.get("node"), session),))
    if kind == "set":
        return _feature(one, session)
    ends = one.get("edge")
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise Refused(422, "an edge is a list of two nodes")
    pair = tuple(node_id(end, session) for end in ends)
    if kind == "cut" or session.edges.paired(None):
        pair = tuple(sorted(pair))
    said = one.get("values", {})
    if not isinstance(said, Mapping) or len(said) > 16:
        raise Refused(422, "values of an edge are an object of numbers")
    values = sorted((str(key), _number(value)) for key, value in said.items())
    return Change(kind, pair, values=tuple(values))


def node_id(given: Any, session: Session) -> int:
    """A node's id as a request gives it."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise Refused(422, "a node is given by its id, a whole number")
    if not 0 <= given < session.num_nodes:
        raise Refused(422, f"node {given} is out of range: 0 … {session.num_nodes - 1}")
    return given


def _number(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise Refused(422, "a value must be a number")
    try:
        value = float(given)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise Refused(422, "a value must be finite")
    return value


def _feature(one: Mapping[str, Any], session: Session) -> Change:
    x = features_of(session)
    feature = one.get("feature")
    if isinstance(feature, bool) or not isinstance(feature, int):
        raise Refused(422, "a feature is given by its column, a whole number")
    if not 0 <= feature < x.size(1):
        raise Refused(422, f"feature {feature} is out of range: 0 … {x.size(1) - 1}")
    return Change("set", (node_id(one.get("node"), session),), feature, _number(one.get("value")))


def features_of(session: Session) -> Tensor:
    """The features of all nodes `[N, F]`."""
    x = session.data.get("x")
    if not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point():
        raise Refused(422, "the nodes of this graph have no features that can be set")
    return x


def edge_values(data: Data) -> dict[str, float]:
    """What must be said of a new edge, each with the value that is commonest; numbers only."""
    known = edge_companions(data)
    return {
        key: float(rows.double().mode().values) if rows.numel() else 1.0
        for key, rows in known.items()
        if rows.dim() == 1
    }


def as_edits(changes: Key, session: Session) -> Edits:
    """All of them together, for `Session.what_if`."""
    rows: dict[int, Tensor] = {}
    for one in changes:
        if one.kind == "set":
            x = features_of(session)
            row = rows.setdefault(one.nodes[0], x[one.nodes[0]].clone())
            row[one.feature] = one.value
    whole = edge_companions(session.data)
    come = [
        (*one.nodes, {key: _like(value, whole.get(key)) for key, value in one.values})
        if one.values
        else one.nodes
        for one in changes
        if one.kind == "add"
    ]
    return Edits(
        remove=[one.nodes[0] for one in changes if one.kind == "remove"],
        remove_edges=[
            pair for one in changes if one.kind == "cut" for pair in _directions(one, session)
        ],
        add_edges=come,
        features=rows or None,
    )


def _directions(one: Change, session: Session) -> list[tuple[int, ...]]:
    """The edges between two nodes: of a directed graph one, or both."""
    ways = [one.nodes, one.nodes[::-1]]
    if session.edges.paired(None) or one.nodes[0] == one.nodes[1]:
        return ways[:1]
    there = session.edges.types[None].holds(torch.tensor(ways).t())
    found = [way for way, own in zip(ways, there.tolist(), strict=True) if own]
    return found or ways[:1]  # which is then refused, by name


def _like(value: float, rows: Tensor | None) -> float | int:
    """A number as the graph keeps it: types of edges are whole."""
    whole = rows is not None and not rows.is_floating_point()
    return int(value) if whole and value.is_integer() else value
