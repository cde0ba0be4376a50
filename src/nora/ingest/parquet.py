"""Tables in Parquet files: types and sizes are checked before anything is read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nora.ingest.table import Table, Wanted, arrow_table, check_names, check_type
from nora.limits import check_fits
from nora.parquet_limits import read_parquet

# Bytes in memory, all that is made of a cell included; wide tables are those of numbers.
TEXT_CELL, NUMBER_CELL, WIDE = 40, 8, 20


def read(path: Path, wanted: Wanted) -> dict[str, Table]:
    """The table of a Parquet file."""
    try:
        about = pq.read_metadata(path)
        parts = [about.row_group(at) for at in range(about.num_row_groups)]
        size = sum(part.total_byte_size for part in parts)
        # Run lengths can hold much in few bytes; ids and words take more than numbers.
        cell = TEXT_CELL if about.num_columns < WIDE else NUMBER_CELL
        check_fits(path.name, max(size, cell * about.num_rows * about.num_columns), about.num_rows)
        schema = about.schema.to_arrow_schema()
        check_names(path.name, schema.names, wanted.ignore)
        needed = [one.name for one in schema if one.name.strip() not in wanted.ignore]
        for field in schema:
            if field.name in needed:
                check_type(path.name, field)
        table = read_parquet(path, needed)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path.name} is not a readable Parquet file: {reason}") from error
    for at, name in enumerate(schema.names):
        if name not in needed:
            table = table.add_column(at, name, pa.nulls(table.num_rows))
    wanted.advance(path.stat().st_size)
    return {wanted.role: arrow_table(table, path.name, wanted.ignore)}
