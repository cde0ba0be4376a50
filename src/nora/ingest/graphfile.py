"""NetworkX graphs, and GraphML and GEXF files that NetworkX reads, as an edge table and a node table."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np
import pyarrow as pa

from nora.ingest.table import Column, Table, Wanted, canonical
from nora.options import option

# What a graph in memory is called in messages.
GRAPH = "the graph"
# How a node is drawn, and what an earlier run wrote into the graph: no features of the node.
NO_FEATURES = {
    *("x", "y", "z", "size", "r", "g", "b", "a", "color", "colour", "viz", "pid"),
    *("start", "end", "influence", "rank", "degree", "predicted", "probability"),
}


def read(path: Path, wanted: Wanted) -> dict[str, Table]:
    """The edges of a graph file, and the `attributes` of its nodes: columns beside `id`."""
    return graph_tables(_graph(path), path.name, wanted)


def graph_tables(graph: nx.Graph, name: str, wanted: Wanted) -> dict[str, Table]:
    """The edges of a graph, and the `attributes` of its nodes: columns beside `id`.

    The column that is named to hold the labels is one in any case.
    """
    notes = wanted.notes
    if not graph.number_of_edges():
        raise ValueError(f"{name} is empty: it has no edges")
    if graph.is_directed() and not wanted.directed:
        notes.append(
            f"the edges of {name} are directed; they are read as going both ways "
            f"(see {option('directed', True)})"
        )
    ends = [(str(source), str(target)) for source, target in graph.edges()]
    edges = _table(
        name,
        {"source": [source for source, _ in ends], "target": [target for _, target in ends]},
        [attributes for *_, attributes in graph.edges(data=True)],
        {"weight", "type", "edge_type", "relation"},
        lambda row: f"{name}, edge {ends[row][0]} – {ends[row][1]}",
    )
    ids = [str(node) for node in graph]
    if len(set(ids)) < len(ids):
        ((same, _),) = Counter(ids).most_common(1)
        raise ValueError(f"{name} has several nodes that are written {same!r}: rename one of them")
    attributes = [found for _, found in graph.nodes(data=True)]
    keys = {key: canonical(key) for found in attributes for key in found}
    used = set(keys.values()) - NO_FEATURES
    if name.lower().endswith(".gexf") or _are_names(attributes, ids):
        used -= {"label"}  # what the node is called
    if wanted.label_column is not None:
        used.add(canonical(wanted.label_column))
    nodes = _table(
        name, {"id": ids}, attributes, used - {"id"}, lambda row: f"{name}, node {ids[row]}"
    )
    left = {str(key) for key, known in keys.items() if known != "label"} - set(nodes.columns)
    if left:
        notes.append(f"node attributes of {name} that are not used: {', '.join(sorted(left))}")
    return {"edges": edges, "attributes": nodes}


def _graph(path: Path) -> nx.Graph:
    raw = path.read_bytes()
    if b"<!ENTITY" in raw:
        raise ValueError(
            f"{path.name} defines XML entities, which can expand without limit. "
            "Save the file without a DOCTYPE"
        )
    kind = path.suffix.lower().removeprefix(".")
    try:
        return (nx.read_gexf if kind == "gexf" else nx.read_graphml)(io.BytesIO(raw))
    except ParseError as error:
        line = f", line {error.position[0]}" if error.position else ""
        raise ValueError(f"{path.name}{line}: this is not well-formed XML ({error})") from error
    except (nx.NetworkXException, KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name} is not readable as {kind}: {error}") from error


def _are_names(attributes: list[dict[str, Any]], ids: list[str]) -> bool:
    """Whether `label` holds the nodes' names, as Gephi writes it, rather than classes."""
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
    attributes: Sequence[Mapping[str, Any]],
    wanted: set[str],
    place: Callable[[int], str],
) -> Table:
    """Columns given, and one more for every wanted attribute that is a plain value."""
    keys = dict.fromkeys(key for found in attributes for key in found if canonical(key) in wanted)
    for key in keys:
        values = [_plain(found.get(key, "")) for found in attributes]
        if all(isinstance(value, str | int | float) for value in values):
            columns[str(key)] = [
                str(value).lower() if isinstance(value, bool) else str(value) for value in values
            ]
    cells = [Column(pa.array(column, pa.string())) for column in columns.values()]
    return Table(name, tuple(columns), cells, place)
