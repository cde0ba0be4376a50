"""Tables on disk: Parquet files carry how they were made inside, CSV files in `<name>.meta.json` beside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nora.files import written_atomically

_KEY = b"nora"
# Python's own float reads every digit back; pandas' parser may miss the last bit.
_COLUMNS: dict[Any, Any] = {"type": str, "node": int, "name": str, "influence": float}
_DTYPES = {"node": "int64", "influence": "float64"}


def split_node_ids(frame: pd.DataFrame, node_types: Mapping[str, int] | None) -> pd.DataFrame:
    """Columns of global ids turned into type and number within the type."""
    if node_types is None:
        return frame
    ends = np.cumsum(list(node_types.values()))
    names = np.array(list(node_types), dtype=object)
    for key in ("removed", "node", "source", "target"):
        if key in frame:
            at = np.searchsorted(ends, frame[key].to_numpy(), side="right")
            label = "type" if key == "node" else f"{key}_type"
            frame.insert(list(frame.columns).index(key), label, names[at])
            frame[key] -= np.concatenate([[0], ends])[at]
    return frame


def _suffix(path: Path) -> str:
    if path.suffix not in (".parquet", ".csv"):
        raise ValueError(f"cannot tell the format of {path.name!r}: use a .parquet or .csv name")
    return path.suffix


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".meta.json")


def write_table(frame: pd.DataFrame, provenance: dict[str, Any], path: Path) -> Path:
    """Write a frame to a `.parquet` or `.csv` file, with how it was made."""
    text = json.dumps(provenance, indent=2)
    if _suffix(path) == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(frame, preserve_index=False)
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: text})
        with written_atomically(path) as temporary:
            pq.write_table(table, temporary)
    else:
        # Neither takes its place before both are written.
        with written_atomically(path) as table, written_atomically(_sidecar(path)) as beside:
            beside.write_text(text, encoding="utf-8")
            frame.to_csv(table, index=False)
    return path


def read_table(path: Path, kind: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read what `write_table` wrote, and how it was made; `kind` is what it must hold."""
    suffix = _suffix(path)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    source = path if suffix == ".parquet" else _sidecar(path)
    if not source.exists():
        raise FileNotFoundError(f"{path} needs its provenance file {source.name} beside it")
    try:
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path)
            text = (table.schema.metadata or {}).get(_KEY)
            frame = table.to_pandas()
        else:
            text = source.read_bytes()
            frame = pd.read_csv(path, converters=_COLUMNS, keep_default_na=False)
            frame = frame.astype({key: dtype for key, dtype in _DTYPES.items() if key in frame})
        provenance = None if text is None else json.loads(text)
    except ValueError as error:  # also what pyarrow, pandas and json raise
        raise ValueError(f"{source} is not readable: {error}") from error
    if not isinstance(provenance, dict):
        raise ValueError(f"{path} was not written by nora: it carries no provenance")
    if provenance.get("kind") != kind:
        raise ValueError(f"{path} holds {provenance.get('kind')!r}, expected {kind!r}")
    return frame, provenance
