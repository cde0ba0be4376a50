"""Parquet files from anybody, read without becoming larger than memory.

A dictionary of five long texts and a million references to them take a few megabytes on the disk, and a
terabyte as text. So texts are read as references, and what they would take as text is added up batch by
batch: the file is refused before it grows beyond what `nora.limits` allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nora.limits import check_fits

# Rows of a batch; few where texts are read as texts.
ROWS, FEW_ROWS = 65_536, 64


def read_parquet(
    path: Path, columns: Sequence[str] | None = None, *, check_pages: bool = False
) -> pa.Table:
    """The table of a Parquet file; texts are dictionary-encoded.

    Args:
        path: The file.
        columns: The columns that are read; all by default.
        check_pages: Compare every page with its checksum.

    Raises:
        ValueError: When the table does not fit into memory; Arrow's own errors for other files.
    """
    about = pq.read_metadata(path)
    texts = _texts(about, columns)
    rows = sum(about.row_group(group).num_rows for group in range(about.num_row_groups))
    fixed = (
        one.type for one in about.schema.to_arrow_schema() if columns is None or one.name in columns
    )
    check_fits(path.name, rows * sum(map(_width, fixed)), rows)
    try:
        return _table(path, columns, check_pages, texts, ROWS)
    except (OSError, NotImplementedError) as error:
        if "Not yet implemented" not in str(error):
            raise
        # Texts that each repeat a part of the one before cannot be read as references.
        return _table(path, columns, check_pages, None, FEW_ROWS)


def _table(
    path: Path,
    columns: Sequence[str] | None,
    check_pages: bool,
    texts: Sequence[str] | None,
    rows: int,
) -> pa.Table:
    with pq.ParquetFile(
        path, read_dictionary=texts, page_checksum_verification=check_pages
    ) as file:
        parts = list(_fitting(path.name, file, columns, rows))
        return pa.Table.from_batches(parts) if parts else file.read(columns)


def decoded(table: pa.Table) -> pa.Table:
    """The same table with texts as texts."""
    for at, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(at, table.field(at).name, column.cast(column.type.value_type))
    return table


def _texts(about: pq.FileMetaData, columns: Sequence[str] | None) -> list[str]:
    """The names of the columns of text that are read."""
    found = []
    for at in range(len(about.schema)):
        column = about.schema.column(at)
        if columns is not None and column.path.partition(".")[0] not in columns:
            continue
        if column.max_repetition_level or column.path != column.name:
            raise ValueError(
                f"the column {column.path} holds lists or records, expected text or numbers"
            )
        if column.physical_type == "BYTE_ARRAY":
            found.append(column.name)
    return found


def _width(kind: pa.DataType) -> int:
    """The bytes of each cell of a column; 0 where they differ, or are less than one.

    >>> _width(pa.binary(1000)), _width(pa.int16()), _width(pa.string())
    (1000, 2, 0)
    """
    try:
        return int(kind.bit_width) // 8
    except ValueError:
        return 0


def _fitting(
    name: str, file: pq.ParquetFile, columns: Sequence[str] | None, rows: int
) -> Iterator[pa.RecordBatch]:
    """The batches of a file, as long as everything read so far fits into memory."""
    size = 0
    known: dict[int, pa.Array] = {}
    for batch in file.iter_batches(rows, columns=columns):
        made = batch.columns
        for at, column in enumerate(made):
            size += _expanded(column)
            if pa.types.is_dictionary(column.type):
                # Arrow gives every batch a copy of its own.
                if at in known and known[at].equals(column.dictionary):
                    made[at] = pa.DictionaryArray.from_arrays(column.indices, known[at])
                known[at] = made[at].dictionary
        check_fits(name, size, file.metadata.num_rows)
        yield pa.RecordBatch.from_arrays(made, schema=batch.schema)


def _expanded(column: pa.Array) -> int:
    """The bytes of a column, texts as often as they occur.

    >>> _expanded(pa.DictionaryArray.from_arrays(pa.array([0, 0, 0], pa.int32()), pa.array(["abcd"])))
    24
    """
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary.cast(pa.string()))
    return int(column.indices.nbytes + (pc.sum(lengths.take(column.indices)).as_py() or 0))
