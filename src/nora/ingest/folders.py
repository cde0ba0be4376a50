"""Folders of datasets: as OGB lays them out (`raw/edge.csv.gz` …), and as PyG keeps what it has processed.

Nodes have no names there: they are called by their number, 0, 1, 2 …
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nora.ingest.limits import check_fits
from nora.ingest.opening import content_of

OGB = {"edges": "edge", "features": "node-feat", "labels": "node-label"}


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
    import torch
    from torch_geometric.data import Data

    check_fits(path.name, path.stat().st_size)
    try:
        with torch.serialization.safe_globals([Data]):
            found: Any = torch.load(path, weights_only=True)
    except Exception as error:  # whatever unpickling raises
        told = str(error).splitlines()[0][:120]
        raise ValueError(
            f"{path.name} holds more than a graph's tensors, or is damaged: {told}"
        ) from None
    graph = found[0] if isinstance(found, tuple | list) and found else found
    graph = graph.to_dict() if isinstance(graph, Data) else graph
    edges = graph.get("edge_index") if isinstance(graph, dict) else None
    if not isinstance(edges, torch.Tensor) or edges.dim() != 2 or edges.size(0) != 2:
        raise ValueError(f"{path.name} holds no graph of one node type (edge_index [2, E])")
    columns = {"source": edges[0].numpy().astype(str), "target": edges[1].numpy().astype(str)}
    used = {"edge_index", "num_nodes", "x"}
    for key, name in (("edge_type", "type"), ("edge_weight", "weight")):
        value = graph.get(key)
        if value is None:
            continue
        if not isinstance(value, torch.Tensor) or value.numel() != edges.size(1):
            shape = list(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise ValueError(
                f"{path.name}: {key} is {shape}, expected one number for each of the "
                f"{edges.size(1)} edges; take it out, or make it one"
            )
        columns[name] = value.reshape(-1).numpy()
        used.add(key)
    tables = {"edges": pd.DataFrame(columns)}
    x, y = graph.get("x"), graph.get("y")
    if isinstance(x, torch.Tensor):
        dense = (x.to_dense() if x.layout != torch.strided else x).numpy()
        tables["features"] = _numbered(
            pd.DataFrame(dense, columns=[f"f{at}" for at in range(dense.shape[1])])
        )
    if isinstance(y, torch.Tensor) and y.squeeze().dim() == 1 and not y.is_floating_point():
        label = [str(one) if one >= 0 else "" for one in y.squeeze().tolist()]
        tables["labels"] = _numbered(pd.DataFrame({"label": label}))
        used.add("y")
    left = [key for key, value in graph.items() if value is not None and key not in used]
    if left:
        why = " (y is not one class for each node)" if "y" in left else ""
        notes.append(f"{path.name} holds more, which is not used: {', '.join(left)}{why}")
    return tables
