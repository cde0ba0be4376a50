"""Dataset folders: in OGB's layout (`raw/edge.csv.gz` …), and as processed by PyG.

Nodes have no names there, so they are named by their ids, 0, 1, 2 …
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nora.ingest.ids import plain_id
from nora.ingest.table import Column, Table, Wanted, arrow_table, checked_table
from nora.ingest.text import read_rows
from nora.limits import check_fits
from nora.wording import short

OGB = {"edges": "edge", "features": "node-feat", "labels": "node-label"}
# What an id takes as text: that of Arrow, and that of Python.
TEXT_BYTES = 150


def read(path: Path, wanted: Wanted) -> dict[str, Table]:
    """The table `edges` of a dataset's folder, and `features` and `labels` if it has them."""
    raw = path / "raw" if (path / "raw").is_dir() else path
    if _file(raw, OGB["edges"]) is not None:
        return _ogb(raw, wanted)
    processed = path / "processed" if (path / "processed").is_dir() else path
    found = [
        one for one in sorted(processed.glob("*.pt")) if not one.name.startswith(("pre_", "pre-"))
    ]
    if len(found) == 1:
        return _pyg(found[0], wanted)
    raise ValueError(
        f"{path} is a folder, and neither OGB's (raw/edge.csv.gz) nor one that PyG processed "
        f"(one processed/*.pt, there are {len(found)}); name a file"
    )


def _file(raw: Path, name: str) -> Path | None:
    paths = (raw / f"{name}{ending}" for ending in (".csv.gz", ".csv"))
    return next((path for path in paths if path.is_file()), None)


def _ogb(raw: Path, wanted: Wanted) -> dict[str, Table]:
    tables = {}
    for role, name in OGB.items():
        path = _file(raw, name)
        if path is None:
            continue
        table = read_rows(path, replace(wanted, role=role, is_header=lambda row: False))
        width = len(table.cells)
        if role == "edges":
            if width != 2:
                raise ValueError(f"{path.name} has {width} columns; OGB's edges have two")
            _check_whole(table)
            tables[role] = replace(table, columns=("source", "target"))
        elif role == "features":
            tables[role] = _numbered(table, tuple(f"f{at}" for at in range(width)))
        elif width != 1:
            wanted.notes.append(
                f"{path.name} has {width} columns, one class each node is predicted: not used; "
                "give one of them as labels"
            )
        else:
            tables[role] = _numbered(table.respelt(0, _class_name), ("label",))
    return {role: checked_table(table, wanted.ignore) for role, table in tables.items()}


def _check_whole(table: Table) -> None:
    """Raise unless the nodes of OGB's edges are integers."""
    for column in table.cells:
        odd = column.texts.filter(pc.invert(pc.match_substring_regex(column.texts, r"^[0-9]+$")))
        if len(odd):
            row = column.first(odd[0].as_py())
            raise ValueError(
                f"{table.place(row)}: {short(odd[0].as_py(), 40)!r} is not the number of a node, which is "
                "what OGB's edges have"
            )


def _class_name(text: str) -> str:
    """A class id as text; empty if unknown.

    >>> _class_name("12345678.0"), _class_name("nan")
    ('12345678', '')
    """
    return "" if text.lower() == "nan" else plain_id(text)


def _numbered(table: Table, columns: tuple[str, ...]) -> Table:
    """A table with names of columns, and the rows' numbers as ids."""
    ids = Column(pa.array(np.arange(len(table))))
    return replace(table, columns=("id", *columns), cells=[ids, *table.cells])


def _pyg(path: Path, wanted: Wanted) -> dict[str, Table]:
    """Read a file processed by PyG: only tensors are read, and no code is executed."""
    from torch import Tensor

    graph = _stored_graph(path)
    edges = _array(path, graph, "edge_index", TEXT_BYTES)
    if edges is None or edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"{path.name} holds no graph of one node type (edge_index [2, E])")
    if edges.dtype.kind not in "iu" or (edges.size and edges.min() < 0):
        raise ValueError(
            f"{path.name}: edge_index holds {edges.dtype} from {edges.min()}, expected whole numbers from 0"
        )
    columns = {"source": _text(edges[0]), "target": _text(edges[1])}
    used = {"edge_index", "num_nodes", "x"}
    for key, name in (("edge_type", "type"), ("edge_weight", "weight")):
        value = _array(path, graph, key)
        if value is None:
            continue
        if value.size != edges.shape[1]:
            raise ValueError(
                f"{path.name}: {key} is {list(value.shape)}, expected one number for each of the "
                f"{edges.shape[1]} edges; take it out, or make it one"
            )
        columns[name] = pa.array(value.reshape(-1))
        used.add(key)
    tables = {"edges": columns}
    x = _array(path, graph, "x")
    y = _array(path, graph, "y", TEXT_BYTES) if isinstance(graph.get("y"), Tensor) else None
    if x is not None:
        if x.ndim != 2:
            raise ValueError(
                f"{path.name}: x is {list(x.shape)}, expected a row for each node [N, F]; "
                "use x.unsqueeze(1) for a single feature"
            )
        tables["features"] = {"id": _text(np.arange(len(x)))} | {
            f"f{at}": pa.array(x[:, at]) for at in range(x.shape[1])
        }
    if y is not None and y.squeeze().ndim == 1 and y.dtype.kind in "iu":
        y = y.squeeze()
        label = pc.if_else(pa.array(y >= 0), _text(y), "")
        tables["labels"] = {"id": _text(np.arange(len(y))), "label": label}
        used.add("y")
    left = [str(key) for key, value in graph.items() if value is not None and key not in used]
    if left:
        why = " (y is not one class for each node)" if "y" in left else ""
        wanted.notes.append(f"{path.name} holds more, which is not used: {', '.join(left)}{why}")
    return {role: arrow_table(pa.table(held), role, wanted.ignore) for role, held in tables.items()}


def _text(values: np.ndarray) -> pa.Array:
    return pa.array(values).cast(pa.string())


def _stored_graph(path: Path) -> dict[Any, Any]:
    """The attributes of the graph in a file of PyG's."""
    import torch
    from torch_geometric.data import Data

    packed = path.stat().st_size
    if is_zipfile(path):  # what torch writes is not compressed, what it reads may be
        with ZipFile(path) as archive:
            packed = sum(part.file_size for part in archive.infolist())
    check_fits(path.name, packed)
    try:
        with torch.serialization.safe_globals([Data]):
            found: Any = torch.load(path, weights_only=True)
        graph = found[0] if isinstance(found, tuple | list) and found else found
        graph = graph.to_dict() if isinstance(graph, Data) else graph
    except Exception as error:  # whatever unpickling raises
        reason = short(str(error).partition("\n")[0] or repr(error), 120)
        raise ValueError(
            f"{path.name} holds more than a graph's tensors, or is damaged: {reason}"
        ) from None
    return graph if isinstance(graph, dict) else {}


def _array(path: Path, graph: dict[Any, Any], key: str, cell: int = 8) -> np.ndarray | None:
    """An attribute as an array; None if it is missing. A tensor may claim any size, so that comes first.

    Args:
        path: The file, for messages.
        graph: The attributes.
        key: Which.
        cell: Bytes that each number takes in memory.
    """
    import torch

    value = graph.get(key)
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        check_fits(f"{key} of {path.name}", cell * value.numel())
    try:
        dense = value.detach().cpu().to_dense()
        found = (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    except (AttributeError, TypeError, RuntimeError):
        found = np.array(None)
    if found.dtype.kind not in "iufb":
        kind = getattr(value, "dtype", type(value).__name__)
        raise ValueError(f"{path.name}: {key} is of type {kind}, expected a tensor of real numbers")
    return found.view(np.uint8) if found.dtype.kind == "b" else found
