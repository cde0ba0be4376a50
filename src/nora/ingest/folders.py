"""Folders of datasets: as OGB lays them out (`raw/edge.csv.gz` …), and as PyG keeps what it has processed.

Nodes have no names there: they are called by their number, 0, 1, 2 …
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
import pandas as pd

from nora.ingest.opening import content_of
from nora.limits import check_fits
from nora.wording import short

OGB = {"edges": "edge", "features": "node-feat", "labels": "node-label"}
# What an id takes as text: that of NumPy, and that of Python.
TEXT_BYTES = 150


def folder_frames(folder: Path, notes: list[str]) -> dict[str, pd.DataFrame]:
    """The tables `edges`, and `features` and `labels` where there are any, of a dataset's folder.

    What is there and not used is told in `notes`.
    """
    raw = folder / "raw" if (folder / "raw").is_dir() else folder
    if _file(raw, OGB["edges"]) is not None:
        return _ogb(raw, notes)
    processed = folder / "processed" if (folder / "processed").is_dir() else folder
    found = sorted(processed.glob("*.pt"))
    found = [path for path in found if not path.name.startswith(("pre_", "pre-"))]
    if len(found) == 1:
        return _pyg(found[0], notes)
    raise ValueError(
        f"{folder} is a folder, and neither OGB's (raw/edge.csv.gz) nor one that PyG processed "
        f"(one processed/*.pt, there {'are' if len(found) != 1 else 'is'} {len(found)}); name a file"
    )


def _file(raw: Path, name: str) -> Path | None:
    for ending in (".csv.gz", ".csv"):
        if (raw / f"{name}{ending}").is_file():
            return raw / f"{name}{ending}"
    return None


def _ogb(raw: Path, notes: list[str]) -> dict[str, pd.DataFrame]:
    tables = {}
    for role, name in OGB.items():
        path = _file(raw, name)
        if path is None:
            continue
        try:
            table = _numbers(path)
        except (ValueError, OSError) as error:
            raise ValueError(f"{path.name} is not readable as OGB writes it: {error}") from None
        if role == "edges":
            if table.shape[1] != 2:
                raise ValueError(f"{path.name} has {table.shape[1]} columns; OGB's edges have two")
            tables[role] = pd.DataFrame(
                {"source": table.iloc[:, 0].astype(str), "target": table.iloc[:, 1].astype(str)}
            )
        elif role == "features":
            table.columns = [f"f{at}" for at in range(table.shape[1])]
            tables[role] = _numbered(table)
        elif table.shape[1] != 1:
            notes.append(
                f"{path.name} has {table.shape[1]} columns, one class each node is predicted: not used; "
                "give one of them as labels"
            )
        else:
            text = table.iloc[:, 0].map(_class_name)
            tables[role] = _numbered(pd.DataFrame({"label": text}))
    return tables


def _class_name(value: float) -> str:
    """A class's number as text; nothing where it is not known.

    >>> _class_name(12345678.0), _class_name(float("nan"))
    ('12345678', '')
    """
    if pd.isna(value):
        return ""
    return str(int(value)) if value == int(value) else str(value)


def _numbers(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    table = pacsv.read_csv(
        pa.BufferReader(content_of(path)), pacsv.ReadOptions(autogenerate_column_names=True)
    )
    return table.to_pandas()


def _numbered(table: pd.DataFrame) -> pd.DataFrame:
    table.insert(0, "id", np.arange(len(table)).astype(str))
    return table


def _pyg(path: Path, notes: list[str]) -> dict[str, pd.DataFrame]:
    """What PyG has processed: tensors only are read, nothing in the file is run."""
    from torch import Tensor

    graph = _stored_graph(path)
    edges = _array(path, graph, "edge_index", TEXT_BYTES)
    if edges is None or edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"{path.name} holds no graph of one node type (edge_index [2, E])")
    if edges.dtype.kind not in "iu" or (edges.size and edges.min() < 0):
        raise ValueError(
            f"{path.name}: edge_index holds {edges.dtype} from {edges.min()}, expected whole numbers from 0"
        )
    columns = {"source": edges[0].astype(str), "target": edges[1].astype(str)}
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
        columns[name] = value.reshape(-1)
        used.add(key)
    tables = {"edges": pd.DataFrame(columns)}
    x = _array(path, graph, "x")
    y = _array(path, graph, "y", TEXT_BYTES) if isinstance(graph.get("y"), Tensor) else None
    if x is not None:
        if x.ndim != 2:
            raise ValueError(
                f"{path.name}: x is {list(x.shape)}, expected a row for each node [N, F]; "
                "use x.unsqueeze(1) for a single feature"
            )
        names = [f"f{at}" for at in range(x.shape[1])]
        tables["features"] = _numbered(pd.DataFrame(x, columns=names))
    if y is not None and y.squeeze().ndim == 1 and y.dtype.kind in "iu":
        label = [str(one) if one >= 0 else "" for one in y.squeeze().tolist()]
        tables["labels"] = _numbered(pd.DataFrame({"label": label}))
        used.add("y")
    left = [str(key) for key, value in graph.items() if value is not None and key not in used]
    if left:
        why = " (y is not one class for each node)" if "y" in left else ""
        notes.append(f"{path.name} holds more, which is not used: {', '.join(left)}{why}")
    return tables


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
        told = short(str(error).partition("\n")[0] or repr(error), 120)
        raise ValueError(
            f"{path.name} holds more than a graph's tensors, or is damaged: {told}"
        ) from None
    return graph if isinstance(graph, dict) else {}


def _array(path: Path, graph: dict[Any, Any], key: str, cell: int = 8) -> np.ndarray | None:
    """An attribute as an array; None where there is none. A tensor may claim any size, so that comes first.

    Args:
        path: The file, for messages.
        graph: The attributes.
        key: Which.
        cell: The bytes that are made of each number.
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
