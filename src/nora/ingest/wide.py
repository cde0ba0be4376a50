"""Wide text tables, most columns of which are numbers: read in pieces, typed, never as text.

The types are those of the first piece; where a later cell does not fit, its column is read again as text,
and so is a column whose text is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import pyarrow as pa
import pyarrow.csv as pacsv

from nora.ingest.cells import Cells, Numbers, Words

# Tables of fewer columns are read as text: simpler, and quick enough.
FROM_COLUMNS = 20
BLOCK = 1 << 23
TRIES = 4
UNKNOWN = ["", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "?"]


def wide_cells(
    raw: pa.Buffer,
    delimiter: str,
    width: int,
    skipped: int,
    text: Collection[int],
    advance: Callable[[int], None] = lambda _: None,
) -> Cells | None:
    """The cells of a table; None when it is not one of numbers, or cannot be read like this.

    Args:
        raw: The file, UTF-8.
        delimiter: What parts the columns.
        width: How many columns there are.
        skipped: How many lines stand above the first row.
        text: Columns that are text, whatever they look like.
        advance: Called with the number of bytes read.
    """
    if (
        b"0x" in memoryview(raw)[: 1 << 20].tobytes()
        or b"0X" in memoryview(raw)[: 1 << 20].tobytes()
    ):
        return None  # Arrow would take them for numbers
    names = [str(at) for at in range(width)]
    quoted = holds_quotes(raw)

    def reader(kinds: dict[str, pa.DataType], chosen: list[str]) -> pacsv.CSVStreamingReader:
        return pacsv.open_csv(
            pa.BufferReader(raw),
            pacsv.ReadOptions(column_names=names, skip_rows=skipped, block_size=BLOCK),
            pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=quoted),
            pacsv.ConvertOptions(
                column_types=kinds,
                include_columns=chosen,
                null_values=UNKNOWN,
                strings_can_be_null=False,
                true_values=[],
                false_values=[],
            ),
        )

    def as_text(chosen: list[int]) -> list[Words]:
        called = [names[at] for at in chosen]
        table = reader(dict.fromkeys(called, pa.string()), called).read_all()
        return [Words.read(column) for column in table.columns]

    texts = set(text)
    for _ in range(TRIES):
        kinds = {names[at]: pa.string() for at in texts}
        try:
            schema = reader(kinds, []).schema
            numeric = {
                at for at in range(width) if at not in texts and _is_number(schema.field(at).type)
            }
            if 2 * len(numeric) < width:
                return None
            kinds |= {names[at]: pa.float64() for at in numeric}
            kinds |= {names[at]: pa.string() for at in range(width) if at not in numeric}
            return _read(reader(kinds, []), numeric, width, len(raw), as_text, advance)
        except pa.ArrowInvalid as error:
            found = re.search(r"In CSV column #(\d+)", str(error))
            if found is None or int(found[1]) in texts:
                return None
            texts.add(int(found[1]))
    return None


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)


def holds_quotes(raw: pa.Buffer) -> bool:
    """Whether a cell may hold line ends."""
    view, step = memoryview(raw), 1 << 18  # pieces that stay in the processor's cache
    return any(b'"' in view[at : at + step].tobytes() for at in range(0, len(view), step))


def _read(
    reader: pacsv.CSVStreamingReader,
    numeric: set[int],
    width: int,
    size: int,
    as_text: Callable[[list[int]], list[Words]],
    advance: Callable[[int], None],
) -> Cells:
    numbers: dict[int, list[Numbers]] = {at: [] for at in sorted(numeric)}
    words: dict[int, list[pa.Array]] = {at: [] for at in range(width) if at not in numeric}
    told = 0
    for batch in reader:
        for at, parts in numbers.items():
            parts.append(Numbers.of(batch.column(at)))
        for at, texts in words.items():
            texts.append(batch.column(at))
        step = min(BLOCK, size - told)
        told += step
        advance(step)
    advance(size - told)

    def again(at: int) -> Callable[[], Words]:
        return lambda: as_text([at])[0]

    columns = [
        again(at) if at in numeric else Words.read(pa.chunked_array(words[at], pa.string()))
        for at in range(width)
    ]
    found: dict[int, Numbers] = {}
    for at in list(numbers):
        found[at] = Numbers.joined(numbers.pop(at))
    return Cells(columns, found)
