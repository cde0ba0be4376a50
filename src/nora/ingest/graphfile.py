"""GraphML and GEXF files, read by NetworkX, as an edge table and a node table."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np

from nora.ingest.table import Table, canonical
from nora.options import option

# How a node is drawn, and what an earlier run wrote into the graph: no features of the node.
NO_FEATURES = {
    *("x", "y", "z", "size", "r", "g", "b", "a", "color", "colour", "viz", "pid"),
    *("start", "end", "influence", "rank", "degree", "predicted", "probability"),
}


def graph_tables(
    path: Path, directed: bool, label_column: str | None = None
) -> tuple[Table, Table, tuple[str, ...]]:
    """The edges and the nodes of a graph file, and what was found.

    Node attributes are columns of the second table, beside `id`; `label_column` is one in any case.
    """
    name = path.name
    graph = _read(path)
    notes: list[str] = []
    if not graph.number_of_edges():
        raise ValueError(f"{name} is empty: it has no edges")
    if graph.is_directed() and not directed:
        notes.append(
            f"the edges of {name} are directed; they are read as going both ways "
            f"(see {option('directed', True)})"
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
    attributes = [found for _, found in graph.nodes(data=True)]
    wanted = {canonical(key) for found in attributes for key in found} - NO_FEATURES
    if path.suffix.lower() == ".gexf" or _are_names(attributes, ids):
        wanted -= {"label"}  # what the node is called
    if label_column is not None:
        wanted.add(canonical(label_column))
    left = {
        key for found in attributes for key in found if canonical(key) not in {*wanted, "label"}
    }
    if left:
        notes.append(f"node attributes of {name} that are not used: {', '.join(sorted(left))}")
    nodes = _table(
        name, {"id": ids}, attributes, wanted - {"id"}, lambda row: f"{name}, node {ids[row]}"
    )
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
        values = [found.get(key, "") for found in attributes]
        if all(isinstance(value, str | int | float) for value in values):
            columns[key] = [
                str(value).lower() if isinstance(value, bool) else str(value).strip()
                for value in values
            ]
    cells = tuple(np.array(column, dtype=object) for column in columns.values())
    return Table(name, tuple(columns), cells, place)
