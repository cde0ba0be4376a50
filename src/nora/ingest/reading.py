"""From files to a graph: every table is read, ids are brought together, columns get their meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch_geometric.data import Data

from nora.datasets import Dataset
from nora.ingest.classes import Classes, label_at, labels_of
from nora.ingest.edge_columns import ENDS, EdgeColumns, edge_table, ends_of
from nora.ingest.edges import edges_of
from nora.ingest.encodings import chosen_encoding, encode
from nora.ingest.features import Features, called_label, features_of
from nora.ingest.folders import folder_frames
from nora.ingest.formats import GRAPHS, MATRICES, TABLES, existing
from nora.ingest.graphfile import graph_tables
from nora.ingest.ids import IdColumns, KnownIds, joined
from nora.ingest.matrices import edge_frame, feature_frame, is_matrix
from nora.ingest.nodes import ID, Rows, about, about_guess, id_column, node_table
from nora.ingest.table import Table, title
from nora.ingest.text import TITLED
from nora.options import option
from nora.registry import nearest

# A column from which so many labels can be told is no feature beside them.
TELLS = 0.9
# A file, or a table that is in memory already.
Source = str | Path | pd.DataFrame


@dataclass(frozen=True, eq=False)
class Reading:
    """What was read.

    Attributes:
        dataset: The graph; its node names are the ids.
        notes: What was found and decided, one sentence each.
        encoding: The encoding that made the features, in full; None when they are the user's.
        feature_names: The names of the user's features, the first columns of `x`.
        unmatched: Which labels are of no node, in words; empty when there are none.
    """

    dataset: Dataset
    notes: tuple[str, ...] = ()
    encoding: str | None = None
    feature_names: tuple[str, ...] = ()
    unmatched: str = ""


def read_graph(
    edges: Source,
    features: Source | None = None,
    labels: Source | None = None,
    *,
    directed: bool = False,
    encoding: str = "auto",
    ignore: Sequence[str] = (),
    label_column: str | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    weight_column: str | None = None,
    type_column: str | None = None,
    name: str | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Reading:
    """Read a graph from files, or from pandas DataFrames with the same columns.

    Args:
        edges: A table of edges (`.csv`, `.tsv`, `.txt`, also with `.gz`; `.parquet`) with the columns
            `source` and `target`, optionally `weight` and `type`; a `.graphml` or `.gexf` file, whose
            node attributes are features and labels; an adjacency matrix (`.mtx`); or a folder as OGB
            or PyG lay out a dataset. Of a DataFrame, a named index is a column.
        features: A table with the column `id` and one column per feature; a list `id,feature,value`
            of those that are not 0; or a matrix (`.mtx`), a row per node.
        labels: A table with the columns `id` and `label`; blank or missing means unknown.
        directed: Keep the direction of edges; else every edge goes both ways.
        encoding: How to make features where there are none: see `nora.ingest.encodings`. Beside
            given features, anything but `auto` is added to them.
        ignore: Names of columns, of any of the files, to leave out.
        label_column: The column that holds the labels: of `labels` if given, else of `features`, else
            a node attribute; by default the one called `label` or `class`.
        source_column: The column of `edges` that holds the source, where it is not called so; with
            `target_column`.
        target_column: The column of `edges` that holds the target.
        weight_column: The column of `edges` that holds the weight; by default the one called `weight`.
        type_column: The column of `edges` that holds the type; by default the one called `type`,
            `edge_type` or `relation`.
        name: The dataset's name; the edge file's by default, `edges` of a DataFrame.
        advance: Called with the number of bytes, whenever some were read.

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
    source = edges if isinstance(edges, pd.DataFrame) else existing(edges, folder=True)
    called = name or (_stem(source) if isinstance(source, Path) else "edges")
    notes: list[str] = []
    _check_apart(edges, features, labels)
    if isinstance(source, Path) and source.is_dir():
        tables = folder_frames(source, notes)
        source = tables["edges"]
        features = tables.get("features") if features is None else features
        labels = tables.get("labels") if labels is None else labels
    elif isinstance(source, Path) and is_matrix(source):
        source = edge_frame(source)
    if isinstance(features, str | Path) and is_matrix(existing(features, (*TABLES, *MATRICES))):
        features = feature_frame(Path(features))
    columns = EdgeColumns(source_column, target_column, weight_column, type_column)
    files = _read(
        source, features, labels, directed, tuple(ignore), label_column, columns, notes, advance
    )
    found = edges_of(files.edges, files.ends, directed, files.edges.called(ignore), columns)
    notes += found.notes
    ids = list(found.ids)
    if files.attributes is not None:
        _add_alone(ids, files.attributes, notes)
    if files.features is not None:
        about(files.features, ids)
        _add_alone(ids, files.features, notes)
    own, classes = _about_nodes(ids, files, ignore, label_column, notes)
    edge_index = torch.from_numpy(found.index).contiguous()
    weight = None if found.weight is None else torch.from_numpy(found.weight).float()
    parts = [] if own is None else [torch.from_numpy(own.x)]
    num_features = own.x.shape[1] if own else 0
    made = None
    if own is None or encoding != "auto":
        made = chosen_encoding(encoding, len(ids))
        parts.append(encode(made, edge_index, len(ids), weight))
        notes.append(_about_encoding(made, own))
    y = torch.full((len(ids),), -1) if classes is None else torch.from_numpy(classes.y)
    data = Data(
        x=torch.cat(parts, dim=1) if len(parts) > 1 else parts[0], edge_index=edge_index, y=y
    )
    if weight is not None:
        data.edge_weight = weight
    if found.kind is not None:
        data.edge_type = torch.from_numpy(found.kind)
    dataset = Dataset(
        called,
        data,
        num_classes=len(classes.names) if classes else 0,
        node_names=tuple(ids),
        class_names=classes.names if classes else None,
        edge_type_names=found.kinds or None,
        encoding=made,
        given_features=num_features,
        own=True,
    )
    return Reading(
        dataset,
        tuple(notes),
        made,
        own.names if own else (),
        unmatched=classes.unmatched if classes else "",
    )


@dataclass(frozen=True, eq=False)
class _Files:
    """The tables as read, with every id in one spelling."""

    edges: Table
    ends: tuple[int, int]
    attributes: Table | None
    features: Table | None
    labels: Table | None


def _read(
    source: Path | pd.DataFrame,
    features: Source | None,
    labels: Source | None,
    directed: bool,
    ignore: tuple[str, ...],
    label_column: str | None,
    columns: EdgeColumns,
    notes: list[str],
    advance: Callable[[int], None],
) -> _Files:
    tables: dict[str, IdColumns] = {}
    if isinstance(source, Path) and source.suffix.lower() in GRAPHS:
        edge_rows, attributes, found_notes = graph_tables(source, directed, label_column)
        tables["attributes"] = attributes, (id_column(attributes, []),)
        notes += found_notes
    else:
        edge_rows = edge_table(source, columns, ignore, advance)
    ends = ends_of(edge_rows, notes, columns)
    for at, what in zip(ends, ("source id", "target id"), strict=True):
        edge_rows.check_filled(at, what)
    tables["edges"] = edge_rows, ends
    known = KnownIds(edge_rows.words(at) for at in ends)
    for key, given in (("features", features), ("labels", labels)):
        if given is not None:
            opened = given if isinstance(given, pd.DataFrame) else existing(given, TABLES)
            table = node_table(opened, known, ignore, key, advance)
            _check_no_edges(table, key)
            at = id_column(table, known)
            table.check_filled(at, "id")
            notes += about_guess(table, at, "id")
            tables[key] = table, (at,)
            known.add(table.words(at))
    _check_ignored(ignore, [(table, columns) for table, columns in tables.values()])
    same = joined(tables, notes)
    notes += KnownIds(
        same[key].words(at) for key, (_, ats) in tables.items() for at in ats
    ).about_alike()
    return _Files(
        same["edges"], ends, same.get("attributes"), same.get("features"), same.get("labels")
    )


def _stem(path: Path) -> str:
    """A file's name without its endings.

    >>> _stem(Path("data/edges.csv.gz"))
    'edges'
    """
    return path.name if path.is_dir() else path.name.removesuffix(".gz").rsplit(".", 1)[0]


def _check_apart(edges: Source, features: Source | None, labels: Source | None) -> None:
    """Raise when a file is given twice."""
    given = {"edges": edges, "features": features, "labels": labels}
    paths = {key: Path(one).resolve() for key, one in given.items() if isinstance(one, str | Path)}
    for first, second in (("edges", "features"), ("edges", "labels")):
        if first in paths and paths[first] == paths.get(second):
            raise ValueError(
                f"{paths[first].name} is given as {first}= and as {second}=: an edge table is neither a "
                "table of labels nor of features"
            )


def _check_no_edges(table: Table, key: str) -> None:
    """Raise when a table about nodes is one of edges."""
    for pair in ENDS[:4]:
        if all(table.column(name) is not None for name in pair) and table.column(*ID) is None:
            what = "id,label" if key == "labels" else "id, then one column for each feature"
            raise ValueError(
                f"{table.name} looks like a table of edges ({', '.join(table.columns[:4])}), but is given "
                f"as {key}=, which needs {what}"
            )


def _check_ignored(ignore: tuple[str, ...], tables: list[IdColumns]) -> None:
    """Raise when a column to leave out is not there, or cannot be left out."""
    for name in ignore:
        for table, ids in tables:
            if table.called([name]) & set(ids):
                raise ValueError(f"the column {name!r} of {table.name} holds the ids; it is needed")
        if not any(table.called([name]) for table, _ in tables):
            known = [title(table, at) for table, _ in tables for at in range(len(table.columns))]
            raise ValueError(
                f"no column is called {name!r}, so it cannot be ignored.{nearest(name, known)}"
            )


def _add_alone(ids: list[str], table: Table, notes: list[str]) -> None:
    """Nodes that have features but no edge: part of the graph, alone."""
    given = table.words(id_column(table, ids)).texts
    known = pc.or_(pc.is_in(given, pa.array(ids, pa.string())), pc.equal(given, ""))
    alone = given.filter(pc.invert(known)).to_pylist()
    ids += alone
    if alone:
        notes.append(
            f"{len(alone):,} node{'s of' if len(alone) > 1 else ' of'} {table.name} "
            f"{'have' if len(alone) > 1 else 'has'} no edge (e.g. {alone[0]!r})"
        )


def _about_nodes(
    ids: list[str],
    files: _Files,
    ignore: Sequence[str],
    label_column: str | None,
    notes: list[str],
) -> tuple[Features | None, Classes | None]:
    """Features and classes, from the files that give them."""
    classes: Classes | None = None
    own: Features | None = None
    if files.labels is not None:
        rows = about(files.labels, ids)
        classes = labels_of(rows, label_at(rows, label_column, notes), len(ids))
    chosen, chosen_at = _label_column(files, ids, label_column)
    table = files.attributes if files.features is None else files.features
    if chosen is not None and chosen is not table:
        classes = labels_of(about(chosen, ids), chosen_at, len(ids))
        notes.append(f"{title(chosen, chosen_at)!r} of {chosen.name} holds the labels")
    if table is not None:
        rows = about(table, ids)
        left_out = table.called(ignore)
        labelled = chosen_at if chosen is table else called_label(table, rows.id_at, left_out)
        if labelled is not None:
            left_out.add(labelled)
            other = called_label(table, rows.id_at, left_out) if chosen is table else None
            if other is not None:
                notes.append(
                    f"{title(table, other)!r} of {table.name} is used as a feature; if it tells the "
                    f"label, leave it out with {option('ignore', [title(table, other)])}"
                )
            if classes is None:
                classes = labels_of(rows, labelled, len(ids))
                notes.append(f"{title(table, labelled)!r} of {table.name} holds the labels")
            else:
                _settle_clash(rows, labelled, classes, left_out, notes)
        own = features_of(rows, len(ids), left_out)
        if own is not None and not own.names:  # all of its columns are blank
            notes += own.notes
            own = None
        if own is not None:
            if table is files.attributes:
                several = len(own.columns) > 1
                notes.append(
                    f"the node attribute{'s' * several} {', '.join(own.columns)} of {table.name} "
                    f"{'are the features' if several else 'is the feature'}"
                )
            notes += own.notes
        elif table is files.features and labelled is None:
            raise ValueError(
                f"{table.name} has no column of features beside the ids{'' if all(table.columns) else TITLED}"
            )
    if classes is not None:
        notes += classes.notes
    return own, classes


def _settle_clash(
    rows: Rows, at: int, classes: Classes, left_out: set[int], notes: list[str]
) -> None:
    """A column called like a label, beside labels given elsewhere: a feature, unless it repeats them."""
    table, name = rows.table, title(rows.table, at)
    labelled = (rows.node >= 0) & (classes.y[rows.node] >= 0)
    counts = pd.crosstab(table.cells[at][labelled], classes.y[rows.node[labelled]]).to_numpy()
    if counts.max(axis=1).sum() > TELLS * counts.sum():
        notes.append(
            f"{name!r} of {table.name} is not used as a feature: it is called like a label, and tells the "
            "labels, which are given elsewhere"
        )
        return
    left_out.discard(at)
    notes.append(
        f"{name!r} of {table.name} is used as a feature, though it is called like a label: the labels are "
        f"given elsewhere; if it tells them, leave it out with {option('ignore', [name])}"
    )


def _label_column(files: _Files, ids: list[str], name: str | None) -> tuple[Table | None, int]:
    """The table of features or attributes, and its column, that was named to hold the labels."""
    if name is None or files.labels is not None:
        return None, -1
    tables = [table for table in (files.features, files.attributes) if table is not None]
    for table in tables:
        found = table.called([name]) - {id_column(table, ids)}
        if found:
            return table, min(found)
    known = [title(table, at) for table in tables for at in range(1, len(table.columns))]
    there = f"there are {', '.join(known[:20])}" if known else "there are no features or attributes"
    raise ValueError(f"no column for labels is called {name!r}: {there}.{nearest(name, known)}")


def _about_encoding(made: str, own: Features | None) -> str:
    what = "features are made from the graph" if own is None else "features were added to yours"
    return f"{what} (encoding {made}); they stay as they are when a node is removed"
