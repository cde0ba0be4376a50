"""Delimited text: its delimiter, its rows, and messages about what cannot be a row.

Arrow parses, block by block; narrow tables are read as text, columns of wide ones as numbers where they are.
Python's reader looks at the first rows, and counts lines once a message needs one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from nora.ingest.formats import kind_of
from nora.ingest.numbers import UNKNOWN
from nora.ingest.opening import check_text, content_of
from nora.ingest.table import Column, Table, Wanted, canonical, checked_table, smallest
from nora.limits import check_fits

DELIMITERS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
SNIFFED_LINES = 20
MOST_COLUMNS, LONGEST_LINE = 100_000, 1 << 24
# A line longer than a block is none that Arrow reads.
BLOCK, WIDE_BLOCK = 1 << 20, 1 << 23
# In a table of so many columns those that look like numbers are read as such; others are read as text when
# this has failed for so many of them.
WIDE, TRIES = 20, 4
# Bytes in memory for each byte of a file that is read as text, or rewritten before.
AS_TEXT, REWRITTEN = 3, 6

# Blank lines and comments (`# …`, `% …`) at the top, and Excel's first line `sep=;`.
TOP = re.compile(rb"(?:[ \t]*(?:[#%][ \t][^\n]*|[#%]?)\r?\n)+")
SEPARATOR = re.compile(rb"\s*\"?sep=(.)\"?[ \t]*(?=\r?\n)", re.IGNORECASE)

TITLED = ". If a title stands above the names of the columns, delete it"


@dataclass(frozen=True, eq=False)
class _Text:
    """Rows of text.

    Attributes:
        name: The file's name.
        raw: UTF-8, from the beginning of a line on.
        line: The number of that line.
        delimiter: What separates the columns.
    """

    name: str
    raw: pa.Buffer
    line: int = 1
    delimiter: str = ","

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of every record that is not an empty line."""
        lines = io.TextIOWrapper(pa.BufferReader(self.raw), encoding="utf-8", newline=None)
        reader = csv.reader(lines, delimiter=self.delimiter)
        line = self.line
        try:
            for row in reader:
                if row:
                    yield line, row
                line = self.line + reader.line_num
        except csv.Error:  # a cell larger than the module takes
            return
        except UnicodeDecodeError:
            raise ValueError(_not_utf8(self)) from None

    def below(self, line: int) -> _Text:
        """The text below a line."""
        ends = re.finditer(rb"\r\n?|\n", memoryview(self.raw))
        found = next(islice(ends, line - self.line, None), None)
        start = len(self.raw) if found is None else found.end()
        return replace(self, raw=self.raw.slice(start), line=line + 1)

    def place(self, row: int) -> str:
        """The line of a row."""
        found = next(islice(self.records(), row, None), None)
        return f"{self.name}, line {found[0]}" if found else f"{self.name}, row {row + 1}"

    @cached_property
    def quoted(self) -> bool:
        """Whether a cell may hold line ends."""
        view, step = memoryview(self.raw), 1 << 18  # pieces that stay in the processor's cache
        return any(b'"' in view[at : at + step].tobytes() for at in range(0, len(view), step))

    def rewritten(self, *changes: tuple[bytes, bytes]) -> _Text:
        """The text with patterns replaced, one after the other."""
        check_fits(self.name, REWRITTEN * len(self.raw))
        found = memoryview(self.raw).tobytes()
        for pattern, by in changes:
            found = re.sub(pattern, by, found)
        return replace(self, raw=pa.py_buffer(found))


def read(path: Path, wanted: Wanted) -> dict[str, Table]:
    """The table of a delimited text file."""
    return {wanted.role: checked_table(read_rows(path, wanted), wanted.ignore)}


def read_rows(path: Path, wanted: Wanted) -> Table:
    """The same with rows of blank cells."""
    text, size = _opened(path, wanted)
    line, first = next(text.records(), (0, []))
    if not first:
        longest = max(map(len, memoryview(text.raw).tobytes().split(b"\n", 1)[0].split(b",")))
        raise ValueError(
            f"{text.name}, line {text.line}: a cell of {longest:,} characters; is a quotation mark left "
            "open, or is this not a table?"
        )
    columns = tuple(cell.strip() for cell in first)
    if wanted.is_header(list(columns)):
        whole, text = text, text.below(line + sum(cell.count("\n") for cell in first))
        if re.match(rb"[\r\n ]*\Z", memoryview(text.raw)):
            _check_closed(whole)
            raise ValueError(f"{text.name} is empty: it has no rows below its header")
    else:
        columns = ("",) * len(first)
    meant = {0, 1, *(at for at, one in enumerate(columns) if canonical(one) in wanted.meaning)}
    reached = _progress(wanted.advance)
    text, cells = _parsed(text, len(columns), meant, reached)
    _check_closed(text)
    reached(size)
    return Table(text.name, columns, cells, text.place, text.delimiter == ";")


def _progress(advance: Callable[[int], None]) -> Callable[[int], None]:
    """A function of the number of bytes read so far, some of them again; `advance` gets the new ones."""
    most = 0

    def reached(count: int) -> None:
        nonlocal most
        if count > most:
            advance(count - most)
            most = count

    return reached


def _opened(path: Path, wanted: Wanted) -> tuple[_Text, int]:
    """The text from its first record on, and how many bytes the file has."""
    raw, name = content_of(path), path.name
    view = memoryview(raw)
    head = view[: 1 << 16].tobytes()
    check_text(head, name)
    _check_first_line(raw, name)
    size = len(raw)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        check_fits(name, REWRITTEN * size)
        raw = pa.py_buffer(view.tobytes().decode("utf-16", errors="replace").encode())
    elif head.startswith(b"\xef\xbb\xbf"):
        raw = raw.slice(3)
    text = _Text(name, raw)
    given = None
    if top := TOP.match(memoryview(raw)):
        text = replace(text, raw=raw.slice(top.end()), line=1 + top[0].count(b"\n"))
    if separator := SEPARATOR.match(memoryview(text.raw)):
        given = separator[1].decode("latin-1")
        text = text.below(text.line + separator[0].count(b"\n"))
    if re.match(rb"\s*\Z", memoryview(text.raw)):
        raise ValueError(f"{name} is empty")
    mark = given or ("\t" if kind_of(path) == ".tsv" else _delimiter(text, wanted))
    if mark != " ":
        return replace(text, delimiter=mark), size
    changes = (rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b""), (rb"[ \t]+", b"\t")
    return replace(text.rewritten(*changes), delimiter="\t"), size


def _check_first_line(raw: pa.Buffer, name: str) -> None:
    """Raise for a line that is none: without an end for megabytes, or of columns without end."""
    first = memoryview(raw)[: LONGEST_LINE + 1].tobytes()
    ends = [at for at in (first.find(b"\n"), first.find(b"\r")) if at >= 0]
    if not ends and len(first) > LONGEST_LINE:
        raise ValueError(
            f"{name}: the first line goes on for more than {LONGEST_LINE >> 20} MB; are its line ends "
            "missing?"
        )
    line = first[: min(ends, default=len(first))]
    most = max(line.count(mark.encode()) for mark in DELIMITERS)
    if most >= MOST_COLUMNS:
        raise ValueError(
            f"{name}: the first line has {most + 1:,} columns, more than the {MOST_COLUMNS:,} a table "
            "may have. Are its line ends missing? Features that are mostly 0 can be given as a list: "
            "id,feature,value"
        )


def _delimiter(text: _Text, wanted: Wanted) -> str:
    """Tab, semicolon or comma, whichever gives the first lines equally many columns; else a blank."""
    rows = {
        mark: [row for _, row in islice(replace(text, delimiter=mark).records(), SNIFFED_LINES)]
        for mark in (*DELIMITERS, " ")
    }
    possible = [mark for mark in DELIMITERS if rows[mark] and len(rows[mark][0]) > 1]
    for mark in possible:
        if wanted.recognised([cell.strip() for cell in rows[mark][0]]):
            return mark
    for mark in possible:
        if len({len(row) for row in rows[mark]}) == 1:
            return mark
    words = {len(" ".join(row).split()) for row in rows[" "]}
    if not possible and len(words) == 1 and words != {1}:
        return " "
    return possible[0] if possible else ","


def _parsed(
    text: _Text, width: int, meant: set[int], reached: Callable[[int], None]
) -> tuple[_Text, list[Column]]:
    """The columns, and the text in which their rows are counted.

    Args:
        text: The rows.
        width: How many columns there are.
        meant: Columns that are text, whatever they look like.
        reached: Called with the number of bytes read so far.
    """
    try:
        return text, _columns(text, width, meant, reached)
    except pa.ArrowInvalid as error:
        cleaned = text.rewritten((rb"(?m)^ +(?=\r?$)", b""))  # lines of blanks are empty ones
        if len(cleaned.raw) < len(text.raw):
            return _parsed(cleaned, width, meant, reached)
        found = _not_utf8(text) or _misfit(text, width) or _overlong(text)
        reason = re.sub(r"Row #\d+: ", "", str(error).splitlines()[0])  # counted below the header
        raise ValueError(found or f"{text.name}: {reason}") from None


def _columns(
    text: _Text, width: int, meant: set[int], reached: Callable[[int], None]
) -> list[Column]:
    wide = width >= WIDE and text.delimiter != ";"  # where a point may part thousands, text decides
    numeric = _look_like_numbers(text, width) - meant if wide else set()
    for _ in range(TRIES if numeric else 0):
        try:
            return _read_columns(text, width, numeric, reached)
        except pa.ArrowInvalid as error:
            found = re.search(r"In CSV column #(\d+)", str(error))
            if found is None or int(found[1]) not in numeric:
                raise
            numeric.remove(int(found[1]))
    check_fits(text.name, AS_TEXT * len(text.raw))
    return _read_columns(text, width, set(), reached)


def _batches(
    text: _Text, width: int, numeric: set[int] | None, chosen: list[str]
) -> pacsv.CSVStreamingReader:
    """Arrow's reader: columns are numbers or text, or what Arrow takes them for."""
    names = [str(at) for at in range(width)]
    kinds = {}
    if numeric is not None:
        kinds = {one: pa.float64() if int(one) in numeric else pa.string() for one in names}
    return pacsv.open_csv(
        pa.BufferReader(text.raw),
        pacsv.ReadOptions(column_names=names, block_size=WIDE_BLOCK if width >= WIDE else BLOCK),
        pacsv.ParseOptions(delimiter=text.delimiter, newlines_in_values=text.quoted),
        pacsv.ConvertOptions(
            column_types=kinds,
            include_columns=chosen,
            null_values=[spelt(one) for one in UNKNOWN for spelt in (str, str.upper, str.title)],
            strings_can_be_null=False,
            true_values=[],
            false_values=[],
        ),
    )


def _look_like_numbers(text: _Text, width: int) -> set[int]:
    """The columns that are numbers, or blank, in the first block."""
    kinds = _batches(text, width, None, []).schema.types
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    return {at for at, kind in enumerate(kinds) if any(test(kind) for test in known)}


def _read_columns(
    text: _Text, width: int, numeric: set[int], reached: Callable[[int], None]
) -> list[Column]:
    numbers: dict[int, list[np.ndarray]] = {at: [] for at in numeric}
    texts: dict[int, list[pa.Array]] = {at: [] for at in range(width) if at not in numeric}
    block = WIDE_BLOCK if width >= WIDE else BLOCK
    for number, batch in enumerate(_batches(text, width, numeric, []), 1):
        for at, parts in numbers.items():
            parts.append(smallest(batch.column(at).to_numpy(zero_copy_only=False)))
        for at, held in texts.items():
            held.append(batch.column(at))
        reached(min(number * block, len(text.raw)))

    def again(at: int) -> pa.ChunkedArray:
        """The text of a column that was read as numbers."""
        return _batches(text, width, set(), [str(at)]).read_all().column(0)

    cells = []
    for at in range(width):
        if at in numeric:
            cells.append(Column(lambda at=at: again(at), np.concatenate(numbers.pop(at))))
        else:
            cells.append(Column(pa.chunked_array(texts.pop(at), pa.string())))
            len(cells[-1])  # each text is kept once from now on
    return cells


def _check_closed(text: _Text) -> None:
    """Raise if a quotation mark is left open, so that the last row extends to the end of the file."""
    if text.quoted and memoryview(text.raw).tobytes().count(b'"') % 2:
        line, row = text.line, [""]
        for line, row in text.records():  # noqa: B007 (the last one is wanted)
            pass
        if any("\n" in cell for cell in row):
            raise ValueError(f"{text.name}, line {line}: a quotation mark is left open")


def _not_utf8(text: _Text) -> str | None:
    """The message about the first byte that is not UTF-8."""
    raw = memoryview(text.raw).tobytes()
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        line = text.line + raw.count(b"\n", 0, error.start)
        byte = raw[error.start : error.start + 1]
        windows = byte.decode("cp1252", errors="replace")
        meant = f" (as Windows writes {windows!r})" if windows.isalpha() else ""
        return (
            f"{text.name}, line {line}: byte 0x{byte.hex()}{meant} is not UTF-8; save the file as UTF-8 "
            "(in Excel: Save As, CSV UTF-8)"
        )
    return None


def _overlong(text: _Text) -> str | None:
    """The message about a line that no parser takes."""
    for at, line in enumerate(memoryview(text.raw).tobytes().split(b"\n"), text.line):
        if len(line) > BLOCK:
            return (
                f"{text.name}, line {at}: the line has {len(line.decode()):,} characters; are line ends "
                "missing, or is a quotation mark left open?"
            )
    return None


def _misfit(text: _Text, width: int) -> str | None:
    """The message about the first row whose width differs from the first one's."""
    mark = DELIMITERS.get(text.delimiter, repr(text.delimiter))
    for line, row in text.records():
        if len(row) != width:
            hint = "; is a quotation mark left open?" * any("\n" in cell for cell in row)
            hint = hint or TITLED * (width == 1)
            few = "too few" if len(row) < width else "too many"
            return (
                f"{text.name}, line {line}: {len(row)} column{'s' * (len(row) != 1)}, which is {few}: "
                f"the first row has {width}, separated by {mark}{hint}"
            )
    return None
