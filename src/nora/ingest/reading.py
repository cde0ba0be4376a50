"""From files to a graph: read every table, join the ids, find the meaning of each column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import networkx as nx
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch_geometric.data import Data

from nora.datasets import Dataset
from nora.ingest.classes import Classes, labels_of
from nora.ingest.columns import (
    ID,
    LABEL,
    USUAL,
    EdgeColumns,
    called_label,
    check_ignored,
    label_column_of,
    named_label,
    node_column,
    node_header,
)
from nora.ingest.edge_list import EdgeList, edge_list
from nora.ingest.encodings import chosen_encoding, encode
from nora.ingest.features import Features, features_of
from nora.ingest.formats import PACKED, existing, format_of
from nora.ingest.graphfile import GRAPH, graph_tables
from nora.ingest.ids import IdTable, KnownIds, about_lookalikes, with_one_spelling
from nora.ingest.nodes import NodeRows, node_rows
from nora.ingest.table import Table, Wanted, canonical, frame_table
from nora.ingest.text import TITLED
from nora.options import option
from nora.wording import count

# A column that determines so large a share of the labels is not a feature.
REPEATS = 0.9
# A file, or a table or a graph that is in memory already.
Source: TypeAlias = str | Path | pd.DataFrame | nx.Graph


@dataclass(frozen=True, eq=False)
class Reading:
    """The result of reading files.

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


def read_graph(  # noqa: PLR0913
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
            or PyG lay out a dataset. A named index of a DataFrame counts as a column. A NetworkX graph
            is read like a `.graphml` file.
        features: A table with the column `id` and one column per feature; a list `id,feature,value`
            of those that are not 0; or a matrix (`.mtx`), a row per node.
        labels: A table with the columns `id` and `label`; blank or missing means unknown.
        directed: Keep the direction of edges. Default: every edge goes both ways.
        encoding: How to make features if there are none: see `nora.ingest.encodings`. If there are
            features, any encoding other than `auto` is added to them.
        ignore: Names of columns to leave out, of any file.
        label_column: The column that holds the labels: of `labels` if given, else of `features`, else
            a node attribute; by default the one called `label` or `class`.
        source_column: The column of `edges` that holds the source, if it has another name; needs
            `target_column`.
        target_column: The column of `edges` that holds the target.
        weight_column: The column of `edges` that holds the weight; by default the one called `weight`.
        type_column: The column of `edges` that holds the type; by default the one called `type`,
            `edge_type` or `relation`.
        name: The dataset's name; the edge file's by default, `edges` of a DataFrame.
        advance: Called with the number of bytes after each read.

    Returns:
        The dataset, with notes.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "friends.csv"
        ...     _ = path.write_text("source,target\\n007,bob\\nbob,eve\\nbob,007\\n")
        ...     reading = read_graph(path)
        >>> reading.dataset.node_names, reading.dataset.data.num_edges
        (('007', 'bob', 'eve'), 4)
    """
    notes: list[str] = []
    source = edges
    if not isinstance(edges, pd.DataFrame | nx.Graph):
        source = existing(edges)
    given = {"edges": source, "features": features, "labels": labels}
    _check_apart(given)
    columns = EdgeColumns(source_column, target_column, weight_column, type_column)
    wanted = Wanted(
        "edges",
        columns.among,
        columns.among,
        USUAL | {canonical(one) for one in columns.named},
        frozenset(ignore),
        label_column,
        directed,
        notes,
        advance,
    )
    tables = _tables(given, columns, wanted)
    left_out = tables["edges"].table.called(ignore)
    found = edge_list(tables["edges"], columns, directed, notes, left_out)
    for role in ("attributes", "features"):
        if role in tables:
            _add_alone(found.ids, tables[role], role, notes)
    own, classes = _about_nodes(found.ids, tables, ignore, label_column, notes)
    return _graph(name or _stem(source), found, own, classes, encoding, notes)


def _tables(
    given: dict[str, Source | None], columns: EdgeColumns, wanted: Wanted
) -> dict[str, IdTable]:
    """The tables as read, with every id in one spelling."""
    edges = given["edges"]
    assert edges is not None
    read = _read(edges, wanted)
    ends = columns.ends_of(read["edges"], wanted.notes)
    for at, what in zip(ends, ("source id", "target id"), strict=True):
        read["edges"].check_filled(at, what)
    found = {"edges": IdTable(read["edges"], ends)}
    if "attributes" in read:
        found = {"attributes": IdTable(read["attributes"], (0,))} | found
    for role in ("features", "labels"):
        source, known = given[role], KnownIds([found[key] for key in ("edges", *found)])
        if source is not None:
            is_header, recognised = node_header(known)
            about_nodes = replace(
                wanted,
                role=role,
                is_header=is_header,
                recognised=recognised,
                meaning=frozenset({*ID, *LABEL}),
            )
            read |= _read(source, about_nodes)
        if role in read:
            at = node_column(read[role], role, known, wanted.notes)
            found[role] = IdTable(read[role], (at,))
    check_ignored(wanted.ignore, found.values())
    found = with_one_spelling(found, wanted.notes)
    wanted.notes.extend(about_lookalikes(ids for named in found.values() for ids in named.columns))
    return found


def _read(source: Source, wanted: Wanted) -> dict[str, Table]:
    """The tables of a source by role."""
    if isinstance(source, pd.DataFrame):
        return {wanted.role: frame_table(source, wanted.role, wanted.ignore)}
    if isinstance(source, nx.Graph):
        return graph_tables(source, GRAPH, wanted)
    path = existing(source, wanted.role)
    return format_of(path).read(path, wanted)


def _stem(source: Source) -> str:
    """A file's name without its endings.

    >>> _stem(Path("data/edges.csv.gz"))
    'edges'
    """
    if not isinstance(source, Path):
        return "edges"
    return source.name if source.is_dir() else source.name.removesuffix(PACKED).rsplit(".", 1)[0]


def _check_apart(given: dict[str, Source | None]) -> None:
    """Raise when a file is given twice."""
    paths = {key: Path(one).resolve() for key, one in given.items() if isinstance(one, str | Path)}
    for second in ("features", "labels"):
        if "edges" in paths and paths["edges"] == paths.get(second):
            raise ValueError(
                f"{paths['edges'].name} is given as {option('edges')} and as {option(second)}: an edge table "
                "is neither a table of labels nor of features"
            )


def _add_alone(ids: list[str], named: IdTable, role: str, notes: list[str]) -> None:
    """Nodes that have features but no edge: part of the graph, alone."""
    if role == "features":
        node_rows(named, ids)  # some of them have edges
    given = named.columns[0].texts
    known = pc.or_(pc.is_in(given, pa.array(ids, pa.string())), pc.equal(given, ""))
    alone = given.filter(pc.invert(known)).to_pylist()
    ids += alone
    if alone:
        nodes = count(len(alone), "node")
        has = "has" if len(alone) == 1 else "have"
        notes.append(f"{nodes} of {named.table.name} {has} no edge (e.g. {alone[0]!r})")


def _about_nodes(
    ids: list[str],
    tables: dict[str, IdTable],
    ignore: Sequence[str],
    label_column: str | None,
    notes: list[str],
) -> tuple[Features | None, Classes | None]:
    """Features and classes, from the files that give them."""
    named = tables.get("features", tables.get("attributes"))
    classes, labelled = _given_labels(ids, tables, label_column, notes)
    own: Features | None = None
    if named is not None:
        table, rows = named.table, node_rows(named, ids)
        left_out = table.called(ignore)
        classes, labelled = _own_labels(rows, len(ids), labelled, classes, left_out, notes)
        own = features_of(rows, len(ids), left_out)
        if own is not None and own.names and "features" not in tables:
            several = len(own.columns) > 1
            notes.append(
                f"the node attribute{'s' * several} {', '.join(own.columns)} of {table.name} "
                f"{'are the features' if several else 'is the feature'}"
            )
        if own is not None:
            notes += own.notes
            own = own if own.names else None  # all of its columns may be blank
        if own is None and "features" in tables and labelled is None:
            raise ValueError(
                f"{table.name} has no column of features beside the ids{'' if all(table.columns) else TITLED}"
            )
    if classes is not None:
        notes += classes.notes
    return own, classes


def _given_labels(
    ids: list[str], tables: dict[str, IdTable], label_column: str | None, notes: list[str]
) -> tuple[Classes | None, int | None]:
    """Labels that are given elsewhere than with the features; or the column beside these that was named."""
    if "labels" in tables:
        rows = node_rows(tables["labels"], ids)
        at = label_column_of(rows.table, rows.id_at, label_column, notes)
        return labels_of(rows, at, len(ids)), None
    if label_column is None:
        return None, None
    others = [tables[role] for role in ("features", "attributes") if role in tables]
    chosen, at = named_label(others, label_column)
    if chosen is others[0]:
        return None, at
    notes.append(f"{chosen.table.title(at)!r} of {chosen.table.name} holds the labels")
    return labels_of(node_rows(chosen, ids), at, len(ids)), None


def _own_labels(
    rows: NodeRows,
    num_nodes: int,
    named: int | None,
    classes: Classes | None,
    left_out: set[int],
    notes: list[str],
) -> tuple[Classes | None, int | None]:
    """Labels that stand beside features, unless they are given elsewhere; their column, if there is one.

    Args:
        rows: The table of features.
        num_nodes: Number of nodes `N`.
        named: The column that the caller named.
        classes: The labels that are given elsewhere.
        left_out: Columns that are not features; gets that of the labels.
        notes: Gets what was decided.
    """
    table = rows.table
    at = called_label(table, rows.id_at, left_out) if named is None else named
    if at is None:
        return classes, None
    left_out.add(at)
    other = None if named is None else called_label(table, rows.id_at, left_out)
    if other is not None:
        notes.append(
            f"{table.title(other)!r} of {table.name} is used as a feature; if it repeats "
            f"the label, leave it out with {option('ignore', [table.title(other)])}"
        )
    if classes is None:
        notes.append(f"{table.title(at)!r} of {table.name} holds the labels")
        return labels_of(rows, at, num_nodes), at
    if _repeats(rows, at, classes):
        notes.append(
            f"{table.title(at)!r} of {table.name} is not used as a feature: it is called like a label, and "
            "repeats the labels, which are given elsewhere"
        )
    else:
        left_out.discard(at)
        notes.append(
            f"{table.title(at)!r} of {table.name} is used as a feature, though it is called like a label: "
            f"the labels are given elsewhere; if it repeats them, leave it out with "
            f"{option('ignore', [table.title(at)])}"
        )
    return classes, at


def _repeats(rows: NodeRows, at: int, classes: Classes) -> bool:
    """Whether a column determines the labels."""
    labelled = (rows.node >= 0) & (classes.y[rows.node] >= 0)
    cells = rows.table.cells[at].codes[labelled]
    counts = pd.crosstab(cells, classes.y[rows.node[labelled]]).to_numpy()
    return bool(counts.max(axis=1).sum() > REPEATS * counts.sum())


def _graph(
    name: str,
    edges: EdgeList,
    own: Features | None,
    classes: Classes | None,
    encoding: str,
    notes: list[str],
) -> Reading:
    """The graph, with encodings if it has no features."""
    ids, edge_index = edges.ids, torch.from_numpy(edges.index)
    weight = None if edges.weight is None else torch.from_numpy(edges.weight).float()
    parts = [] if own is None else [torch.from_numpy(own.x)]
    made = None
    if own is None or encoding != "auto":
        made = chosen_encoding(encoding, len(ids))
        parts.append(encode(made, edge_index, len(ids), weight))
        what = "features are made from the graph" if own is None else "features were added to yours"
        notes.append(f"{what} (encoding {made}); they do not change when a node is removed")
    data = Data(
        x=torch.cat(parts, dim=1) if len(parts) > 1 else parts[0],
        edge_index=edge_index,
        y=torch.full((len(ids),), -1) if classes is None else torch.from_numpy(classes.y),
    )
    if weight is not None:
        data.edge_weight = weight
    if edges.kind is not None:
        data.edge_type = torch.from_numpy(edges.kind)
    dataset = Dataset(
        name,
        data,
        num_classes=len(classes.names) if classes else 0,
        node_names=tuple(ids),
        class_names=classes.names if classes else None,
        edge_type_names=edges.kinds or None,
        encoding=made,
        given_features=own.x.shape[1] if own else 0,
        feature_names=own.names if own else None,
        own=True,
    )
    names, unmatched = own.names if own else (), classes.unmatched if classes else ""
    return Reading(dataset, tuple(notes), made, names, unmatched)
