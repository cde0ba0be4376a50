"""Results on disk: a plain table, and everything else that is needed to load the result again.

Parquet files carry how they were made inside, CSV files in `<name>.meta.json` beside. Tensors that are not
in the table stand in `<name>.predictions.safetensors` beside either. Checksums show whether
they are as they were written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from torch import Tensor

from nora.arguments import path_of
from nora.artefact import sha256_of
from nora.files import check_regular, write_tensors, written_atomically
from nora.outputs import meta_beside, predictions_beside
from nora.results.spreadsheet import unescaped, write_csv

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Their scores alone would take 8 GB.
MOST_NODES = 10**9
# What json, pandas and pyarrow raise on what is damaged.
UNREADABLE = (ValueError, OSError, LookupError, TypeError, NotImplementedError, RecursionError)
Result = TypeVar("Result", bound="DataclassInstance")

# Under which a Parquet file carries its provenance, and the checksum of that.
_KEY, _SUM = b"nora", b"nora.sha256"
# Python's own float reads every digit back; pandas' parser may miss the last bit.
_COLUMNS: dict[Any, Any] = {
    "type": unescaped,
    "source_type": unescaped,
    "relation": unescaped,
    "target_type": unescaped,
    "node": int,
    "name": unescaped,
    "influence": float,
    "spread": lambda cell: float(cell or "nan"),
    "total": float,
}
_DTYPES = dict.fromkeys(("influence", "spread", "total"), "float64") | {"node": "int64"}


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


def facts_of(result: DataclassInstance, *elsewhere: str) -> dict[str, Any]:
    """The fields of a result as its provenance keeps them, without those that stand elsewhere."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return {
        "kind": type(result).__name__.lower(),
        **{
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in values.items()
            if name not in elsewhere
        },
    }


def rebuilt(kind: type[Result], provenance: dict[str, Any], **elsewhere: Any) -> Result:
    """The result that `facts_of` was asked about; JSON made lists of its tuples."""
    known = {
        field.name: _tuples(provenance[field.name])
        for field in fields(kind)
        if field.name in provenance and field.name not in elsewhere
    }
    return kind(**known, **elsewhere)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


# Columns of ids, and what the column of their names is called.
NODES = {
    "removed": "removed_name",
    "node": "name",
    "source": "source_name",
    "target": "target_name",
}
CLASSES = {key: f"{key}_name" for key in ("from_class", "to_class", "label")}


def with_names(
    frame: pd.DataFrame, names: Sequence[str] | None, class_names: Sequence[str] | None = None
) -> pd.DataFrame:
    """A table with names beside the ids of nodes, and beside the numbers of classes, where they have any.

    >>> with_names(pd.DataFrame({"node": [1, 0], "to_class": [0, 0]}), ["ann", "bob"], ["left"])
       node name  to_class to_class_name
    0     1  bob         0          left
    1     0  ann         0          left
    """
    for known, columns in ((names, NODES), (class_names, CLASSES)):
        for key, column in columns.items():
            if known is not None and key in frame and column not in frame:
                at = list(frame.columns).index(key) + 1
                called = [known[one] if one < len(known) else str(one) for one in frame[key]]
                frame.insert(at, column, called)
    return frame


def restored(load: Callable[[str | Path], Result]) -> Callable[[str | Path], Result]:
    """For the `load` of results: what does not fit together is one refusal, whatever it breaks."""

    @wraps(load)
    def loaded(path: str | Path) -> Result:
        path_of(path)  # an argument of another type is another mistake
        try:
            return load(path)
        except (LookupError, TypeError, AttributeError, RuntimeError) as error:
            raise ValueError(
                f"{path} was changed after it was saved (edited or damaged: {error})"
            ) from error

    return loaded


def nodes_in(frame: pd.DataFrame) -> tuple[Any, ...]:
    """The nodes of a table as results name them: `17`, or `("author", 17)` with node types."""
    nodes = frame["node"].tolist()
    return tuple(zip(frame["type"], nodes, strict=True)) if "type" in frame else tuple(nodes)


def write_table(
    frame: pd.DataFrame,
    provenance: dict[str, Any],
    path: Path,
    tensors: Mapping[str, Tensor] | None = None,
    replace: bool = True,
) -> Path:
    """Write a frame to a `.parquet` or `.csv` file, with how it was made, and tensors beside it.

    Args:
        frame: The table.
        provenance: How it was made.
        path: Where to.
        tensors: What stands beside it.
        replace: Take the place of a table that is there; else that is an error.
    """
    suffix, kept = _suffix(path), dict(provenance)
    # None takes its place before all are written.
    with ExitStack() as files:
        temporary = files.enter_context(written_atomically(path, replace))  # the last to be there
        if tensors:
            beside = files.enter_context(written_atomically(predictions_beside(path)))
            write_tensors(tensors, beside)
            kept["predictions_sha256"] = sha256_of(beside)
        if suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            table = pa.Table.from_pandas(frame, preserve_index=False)
            kept["table_sha256"] = _content_sum(table.to_pandas(ignore_metadata=True))
            text = json.dumps(kept, indent=2).encode()
            facts = {_KEY: text, _SUM: hashlib.sha256(text).hexdigest()}
            table = table.replace_schema_metadata({**(table.schema.metadata or {}), **facts})
            pq.write_table(table, temporary, write_page_checksum=True)
        else:
            write_csv(frame, temporary)
            kept["sha256"] = sha256_of(temporary)
            kept["provenance_sha256"] = _provenance_sum(kept)
            meta = files.enter_context(written_atomically(meta_beside(path)))
            meta.write_text(json.dumps(kept, indent=2), encoding="utf-8")
        if not replace and path.exists():  # else what stands beside it would be replaced
            raise FileExistsError(f"{path} exists already, and is left as it is")
    return path


def read_table_tensors(path: Path, provenance: Mapping[str, Any]) -> dict[str, Tensor]:
    """Read the tensors that `write_table` wrote beside `path`, whose provenance is given."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    beside = predictions_beside(path)
    if not beside.exists():
        raise FileNotFoundError(
            f"{path} contains only the table. load also needs all predictions, which save writes to "
            f"{beside.name} beside it"
        )
    if provenance.get("predictions_sha256", sha256_of(beside)) != sha256_of(beside):
        raise ValueError(
            f"{beside} is not what was saved with {path.name}: it was edited or damaged, or is of "
            "another result"
        )
    try:
        return load_file(beside)
    except SafetensorError as error:
        raise ValueError(f"{beside} is not readable: {error}") from error


def _further(provenance: Any) -> list[str]:
    """The names of further columns of numbers that a result has."""
    named = provenance.get("columns") if isinstance(provenance, dict) else None
    return [str(name) for name in named] if isinstance(named, list) else []


def read_table(path: Path, kind: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read what `write_table` wrote, and how it was made; `kind` is what it must hold."""
    suffix = _suffix(path)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    source = path if suffix == ".parquet" else meta_beside(path)
    if not source.exists():
        raise FileNotFoundError(f"{path} needs its provenance file {source.name} beside it")
    try:
        check_regular(path)
        check_regular(source)
        if suffix == ".parquet":
            from nora.parquet_limits import decoded, read_parquet

            table = decoded(read_parquet(path, check_pages=True))
            facts = table.schema.metadata or {}
            text = facts.get(_KEY)
            known = facts.get(_SUM)  # older files have none
            if text and known and known.decode() != hashlib.sha256(text).hexdigest():
                raise ValueError("its provenance was changed")
            frame = table.to_pandas(ignore_metadata=True)
            provenance = json.loads(text) if text else None
            # Pages have checksums, but not the column and the type of a page.
            if _kept_sum(provenance, "table_sha256") not in (None, _content_sum(frame)):
                raise ValueError("its table was changed")
        else:
            provenance = json.loads(source.read_bytes())
            if _kept_sum(provenance, "provenance_sha256") not in (
                None,
                _provenance_sum(provenance),
            ):
                raise ValueError("it was changed after it was saved")
            if _kept_sum(provenance, "sha256") not in (None, sha256_of(path)):
                raise ValueError(
                    f"it describes another {path.name} than is there now: that was edited or damaged. "
                    'To take it as it is, delete "sha256" in here'
                )
            more = dict.fromkeys(_further(provenance), float)
            frame = pd.read_csv(path, converters={**more, **_COLUMNS}, keep_default_na=False)
            frame = frame.astype({key: dtype for key, dtype in _DTYPES.items() if key in frame})
    except UNREADABLE as error:
        raise ValueError(f"{source} is not readable: {error}") from error
    if not isinstance(provenance, dict):
        raise ValueError(f"{path} was not written by nora: it carries no provenance")
    if provenance.get("kind") != kind:
        raise ValueError(f"{path} holds {provenance.get('kind')!r}, expected {kind!r}")
    return frame, provenance


def _kept_sum(provenance: Any, name: str) -> str | None:
    """A checksum that a provenance holds; None in older ones."""
    return provenance.get(name) if isinstance(provenance, dict) else None


def _provenance_sum(provenance: Any) -> str:
    """The checksum of a provenance but for checksums, which may be deleted to take an edited table."""
    rest = {key: value for key, value in dict(provenance).items() if not key.endswith("sha256")}
    text = json.dumps(json.loads(json.dumps(rest)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _content_sum(frame: pd.DataFrame) -> str:
    """The checksum of all that a table holds, whichever way it was packed."""
    found = hashlib.sha256()
    for name, column in frame.items():
        found.update(f"{name}\0{column.dtype}\0".encode())
        if column.dtype.kind in "biuf":
            found.update(column.to_numpy().tobytes())
        else:
            found.update("\0".join(map(str, column)).encode())
    return found.hexdigest()


def check_count(num_nodes: Any) -> None:
    """Raise unless it can be a number of nodes, before memory is allocated for them."""
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, int) or num_nodes < 0:
        raise ValueError(f"num_nodes is {num_nodes!r}, expected a number of nodes")
    if num_nodes > MOST_NODES:
        raise ValueError(f"num_nodes is {num_nodes:,}, more than any graph here has")
