"""A person's own files as a `Dataset`: an edge list, and features and labels if there are any.

    reading = read_graph("edges.csv", labels="labels.csv")
    reading.dataset, reading.notes

One file per matter: `table` (CSV, TSV, Parquet) and `graphfile` (GraphML, GEXF) read; `edges`,
`features` and `labels` say what the columns mean; `encodings` makes features where there are none. What
cannot be understood is refused with the file's name and the line; what was decided on the way is noted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch_geometric.data import Data

from nora.datasets import Dataset
from nora.ingest.edges import edge_table, edges_of
from nora.ingest.encodings import ENCODINGS, chosen_encoding, encode
from nora.ingest.features import Features, features_of, label_column
from nora.ingest.graphfile import GRAPHS, graph_tables, refuse_pickle
from nora.ingest.labels import Classes, label_at, labels_of
from nora.ingest.nodes import about, id_column, node_table
from nora.ingest.table import TABLES, Table

__all__ = ["ENCODINGS", "Reading", "encode", "encoded_again", "read_graph"]

Place = str | Path


@dataclass(frozen=True, eq=False)
class Reading:
    """What was read.

    Attributes:
        dataset: The graph; its node names are the ids.
        notes: What was found and decided, one sentence each.
        encoding: The encoding that made the features, in full; None when they are the user's.
        feature_names: The names of the user's features, the first columns of `x`.
    """

    dataset: Dataset
    notes: tuple[str, ...] = ()
    encoding: str | None = None
    feature_names: tuple[str, ...] = ()


def read_graph(
    edges: Place,
    features: Place | None = None,
    labels: Place | None = None,
    *,
    directed: bool = False,
    encoding: str = "auto",
    name: str | None = None,
) -> Reading:
    """Read a graph from files.

    Args:
        edges: A table of edges (`.csv`, `.tsv`, `.txt`, `.parquet`) with the columns `source` and
            `target`, optionally `weight` and `type`; or a `.graphml` or `.gexf` file, whose node
            attributes are features and labels.
        features: A table with the column `id` and one column per feature.
        labels: A table with the columns `id` and `label`; blank or missing means unknown.
        directed: Keep the direction of edges; else every edge goes both ways.
        encoding: How to make features where there are none: see `nora.ingest.encodings`. Beside
            given features, anything but `auto` is added to them.
        name: The dataset's name; the edge file's by default.

    Returns:
        The dataset and what there is to say about it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "friends.csv"
        ...     _ = path.write_text("source,target\\n007,bob\\nbob,eve\\nbob,007\\n")
        ...     reading = read_graph(path)
        >>> reading.dataset.node_names, reading.dataset.data.num_edges
        (('007', 'bob', 'eve'), 4)
    """
    path = _existing(edges)
    notes: list[str] = []
    node_attributes: Table | None = None
    if path.suffix.lower() in GRAPHS:
        edge_rows, node_attributes, found_notes = graph_tables(path, directed)
        notes += found_notes
    else:
        edge_rows = edge_table(path)
    found = edges_of(edge_rows, directed)
    notes += found.notes
    ids = list(found.ids)
    if node_attributes is not None:
        _add_alone(ids, node_attributes, notes)
    feature_rows = node_attributes
    if features is not None:
        feature_rows = node_table(_existing(features), ids)
        about(feature_rows, ids)
        _add_alone(ids, feature_rows, notes)
    own, classes = _about_nodes(ids, feature_rows, node_attributes, labels, notes)
    edge_index = torch.from_numpy(found.index).contiguous()
    weight = None if found.weight is None else torch.from_numpy(found.weight).float()
    parts = [] if own is None else [torch.from_numpy(own.x)]
    made = None
    if own is None or encoding != "auto":
        made = chosen_encoding(encoding, len(ids))
        parts.append(encode(made, edge_index, len(ids), weight))
        notes.append(_about_encoding(made, own))
    y = torch.full((len(ids),), -1) if classes is None else torch.from_numpy(classes.y)
    data = Data(x=torch.cat(parts, dim=1), edge_index=edge_index, y=y)
    if weight is not None:
        data.edge_weight = weight
    if found.kind is not None:
        data.edge_type = torch.from_numpy(found.kind)
    dataset = Dataset(
        name or path.stem,
        data,
        num_classes=len(classes.names) if classes else 0,
        node_names=tuple(ids),
        class_names=classes.names if classes else None,
        edge_type_names=found.kinds or None,
        own=True,
    )
    return Reading(dataset, tuple(notes), made, own.names if own else ())


def encoded_again(reading: Reading, data: Data) -> Reading:
    """The reading with its encoding made from the edges of `data` instead of all.

    For link prediction: features made from an edge would give away that it is there.
    """
    if reading.encoding is None:
        return reading
    whole = reading.dataset.data.clone()
    x = encode(reading.encoding, data.edge_index, whole.num_nodes, data.get("edge_weight"))
    whole.x = torch.cat([whole.x[:, : len(reading.feature_names)], x], dim=1)
    return replace(reading, dataset=replace(reading.dataset, data=whole))


def _existing(place: Place) -> Path:
    path = Path(place)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    refuse_pickle(path)
    if path.suffix.lower() not in (*TABLES, *GRAPHS):
        raise ValueError(
            f"cannot tell what {path.name!r} is: use a {', '.join((*TABLES, *GRAPHS))} file"
        )
    return path


def _add_alone(ids: list[str], table: Table, notes: list[str]) -> None:
    """Nodes that have features but no edge: part of the graph, alone."""
    cells = table.cells[id_column(table, ids)]
    known = set(ids)
    alone = [one for one in dict.fromkeys(cells.tolist()) if one and one not in known]
    ids += alone
    if alone:
        notes.append(
            f"{len(alone):,} node{'s of' if len(alone) > 1 else ' of'} {table.name} "
            f"{'have' if len(alone) > 1 else 'has'} no edge (e.g. {alone[0]!r})"
        )


def _about_nodes(
    ids: list[str],
    feature_rows: Table | None,
    node_attributes: Table | None,
    labels: Place | None,
    notes: list[str],
) -> tuple[Features | None, Classes | None]:
    """Features and classes, from the files that give them."""
    own: Features | None = None
    classes: Classes | None = None
    if labels is not None:
        rows = about(node_table(_existing(labels), ids), ids)
        classes = labels_of(rows, label_at(rows.table, rows.id_at), len(ids))
    if feature_rows is not None:
        rows = about(feature_rows, ids)
        labelled = label_column(feature_rows, rows.id_at)
        if labelled is not None:
            title = feature_rows.columns[labelled]
            if classes is None:
                classes = labels_of(rows, labelled, len(ids))
                notes.append(f"{title!r} of {feature_rows.name} holds the labels")
            else:
                notes.append(
                    f"{title!r} of {feature_rows.name} is not used as a feature: the labels are "
                    "given in their own file"
                )
        own = features_of(rows, len(ids), set() if labelled is None else {labelled})
        if own is not None:
            notes += own.notes
        elif feature_rows is not node_attributes and labelled is None:
            raise ValueError(f"{feature_rows.name} has no column of features beside the ids")
    if classes is not None:
        notes += classes.notes
    return own, classes


def _about_encoding(made: str, own: Features | None) -> str:
    what = "features are made from the graph" if own is None else "features were added to yours"
    return f"{what} (encoding {made}); they stay as they are when a node is removed"
