"""Narrow text tables, read as codes: each different text once, and for every cell which one it is.

A list of edges or words has millions of cells and few different texts. Arrow makes the codes while it
parses, piece by piece; no cell becomes an object of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.csv as pacsv

from nora.ingest.cells import Cells, Words

# A line longer than a block is none that Arrow reads: it is then told with its number.
PIECE, BLOCK = 1 << 26, 1 << 20
CODES = pa.dictionary(pa.int32(), pa.string())


def narrow_cells(
    raw: pa.Buffer,
    delimiter: str,
    width: int,
    skipped: int,
    advance: Callable[[int], None] = lambda _: None,
) -> Cells | None:
    """The cells of a table without quotation marks; None when Arrow cannot read it.

    Args:
        raw: The file, UTF-8.
        delimiter: What parts the columns.
        width: How many columns there are.
        skipped: How many lines stand above the first row.
        advance: Called with the number of bytes read.
    """
    names = [str(at) for at in range(width)]
    parts: list[pa.Table] = []
    for piece in _pieces(raw):
        try:
            table = pacsv.read_csv(
                pa.BufferReader(piece),
                pacsv.ReadOptions(
                    column_names=names, skip_rows=0 if parts else skipped, block_size=BLOCK
                ),
                pacsv.ParseOptions(delimiter=delimiter),
                pacsv.ConvertOptions(
                    column_types=dict.fromkeys(names, CODES), strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid:
            return None
        parts.append(table)
        advance(len(piece))
    return Cells([Words.read(column) for column in pa.concat_tables(parts).columns], {})


def _pieces(raw: pa.Buffer) -> Iterator[pa.Buffer]:
    """The file in pieces of whole lines."""
    view, start = memoryview(raw), 0
    while start < len(raw):
        end = start + PIECE
        if end < len(raw):
            # The end of the line that the piece ends in; of a line without one, that of the file.
            while end < len(raw):
                found = view[end : end + PIECE].tobytes().find(b"\n")
                end += found + 1 if found >= 0 else PIECE
                if found >= 0:
                    break
        end = min(end, len(raw))
        yield raw.slice(start, end - start)
        start = end
