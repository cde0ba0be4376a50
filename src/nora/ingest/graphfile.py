"""NetworkX graphs, and GraphML and GEXF files that NetworkX reads, as an edge table and a node table."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np

from nora.ingest.table import Table, canonical

# What a graph in memory is called in messages.
GRAPH = "the graph"
# How a node is drawn, and what an earlier run wrote into the graph: no features of the node.
NO_FEATURES = {
    *("x", "y", "z", "size", "r", "g", "b", "a", "color", "colour", "viz", "pid"),
    *("start", "end", "influence", "rank", "degree", "predicted", "probability"),
}


def graph_tables(
    source: Path | nx.Graph, directed: bool, label_column: str | None = None
) -> tuple[Table, Table, tuple[str, ...]]:
    """The edges and the nodes of a graph or a graph file, and what was found.

    Node attributes are columns of the second table, beside `id`; `label_column` is one in any case.
    """
    name = source.name if isinstance(source, Path) else GRAPH
    graph = _read(source) if isinstance(source, Path) else source
    notes: list[str] = []
    if not graph.number_of_edges():
        raise ValueError(f"{name} is empty: it has no edges")
    if graph.is_directed() and not directed:
        notes.append(
            f"the edges of {name} are directed; they are read as going both ways (see directed=True)"
        )
    ends = [(str(source), str(target)) for source, target in graph.edges()]
    edges = _table(
        name,
        {
            "source": [source for source, _ in ends],
            "target": [target for _, target in ends],
        },
        [attributes for *_, attributes in graph.edges(data=True)],
        {"weight", "type", "edge_type", "relation"},
        lambda row: f"{name}, edge {ends[row][0]} – {ends[row][1]}",
    )
    ids = [str(node) for node in graph]
    if len(set(ids)) < len(ids):
        ((same, _),) = Counter(ids).most_common(1)
        raise ValueError(f"{name} has several nodes that are written {same!r}: rename one of them")
    attributes = [found for _, found in graph.nodes(data=True)]
    wanted = {canonical(key) for found in attributes for key in found} - NO_FEATURES
    is_gexf = isinstance(source, Path) and source.suffix.lower() == ".gexf"
    if is_gexf or _are_names(attributes, ids):
        wanted -= {"label"}  # what the node is called
    if label_column is not None:
        wanted.add(canonical(label_column))
    nodes = _table(
        name, {"id": ids}, attributes, wanted - {"id"}, lambda row: f"{name}, node {ids[row]}"
    )
    given = {str(key) for found in attributes for key in found}
    left = {key for key in given if key not in nodes.columns and canonical(key) != "label"}
    if left:
        notes.append(f"node attributes of {name} that are not used: {', '.join(sorted(left))}")
    return edges, nodes, tuple(notes)


def _read(path: Path) -> nx.Graph:
    raw = path.read_bytes()
    if b"<!ENTITY" in raw:
        raise ValueError(f"{path.name} defines XML entities, which can expand without end; refused")
    read = nx.read_gexf if path.suffix.lower() == ".gexf" else nx.read_graphml
    try:
        return read(io.BytesIO(raw))
    except ParseError as error:
        line = f", line {error.position[0]}" if error.position else ""
        raise ValueError(f"{path.name}{line}: this is not well-formed XML ({error})") from error
    except (nx.NetworkXException, KeyError, ValueError, TypeError, AttributeError) as error:
        kind = path.suffix.lower().removeprefix(".")
        raise ValueError(f"{path.name} is not readable as {kind}: {error}") from error


def _are_names(attributes: list[dict[str, Any]], ids: list[str]) -> bool:
    """Whether `label` says what nodes are called, as Gephi writes it, not which class they are."""
    labels = [str(found["label"]) for found in attributes if "label" in found]
    return len(set(labels)) > max(2, len(labels) // 2) or labels == ids


def _plain(value: Any) -> Any:
    """A value of NumPy's as Python's; None as missing.

    >>> _plain(np.int64(3)), _plain(None), _plain("a")
    (3, '', 'a')
    """
    if value is None:
        return ""
    return value.item() if isinstance(value, np.generic) else value


def _table(
    name: str,
    columns: dict[str, list[str]],
    attributes: Iterable[Mapping[str, Any]],
    wanted: set[str],
    place: Callable[[int], str],
) -> Table:
    """Columns given, and one more for every wanted attribute that is a plain value."""
    attributes = list(attributes)
    keys = dict.fromkeys(key for found in attributes for key in found if canonical(key) in wanted)
    for key in keys:
        values = [_plain(found.get(key, "")) for found in attributes]
        if all(isinstance(value, str | int | float) for value in values):
            columns[str(key)] = [
                str(value).lower() if isinstance(value, bool) else str(value).strip()
                for value in values
            ]
    cells = tuple(np.array(column, dtype=object) for column in columns.values())
    return Table(name, tuple(columns), cells, place)
