"""Delimited text: which marks part its columns, which lines are its rows, and what cannot be one.

Narrow tables are read as codes (`narrow`), wide ones typed (`wide`), and what neither can read as text, line
by line. Line numbers are counted only when one is asked for.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv

from nora.ingest.cells import Cells, Words
from nora.ingest.formats import kind_of
from nora.ingest.narrow import narrow_cells
from nora.ingest.odd_files import check_content
from nora.ingest.opening import content_of
from nora.ingest.wide import FROM_COLUMNS, holds_quotes, wide_cells
from nora.limits import check_fits

DELIMITERS = ("\t", ";", ",")
SNIFFED_LINES = 20
LONGEST_CELL = 1 << 20
MOST_COLUMNS, LONGEST_LINE = 100_000, 1 << 24
HEAD = 1 << 20
# Bytes in memory for each byte of a file that is read as text, or as codes.
IN_MEMORY, AS_CODES = 6, 2

TITLED = ". If a title stands above the names of the columns, delete it"

Header = Callable[[list[str]], bool]


@dataclass(frozen=True, eq=False)
class TextTable:
    """A text file's columns; see `Table`."""

    columns: tuple[str, ...]
    cells: Cells
    place: Callable[[int], str]
    decimal_comma: bool


def read_text(
    path: Path,
    is_header: Header,
    recognised: Header,
    meant: Callable[[str], bool],
    advance: Callable[[int], None],
) -> TextTable:
    """Read a delimited text file.

    Args:
        path: The file.
        is_header: Whether a first row names the columns.
        recognised: Whether a first row holds a name that means something here.
        meant: Whether a column of this name is wanted as text.
        advance: Called with the number of bytes read.
    """
    name = path.name
    raw = content_of(path)
    check_content(memoryview(raw)[: 1 << 16].tobytes(), path)
    _check_lines(raw, name)
    found = _typed(raw, path, is_header, recognised, meant, advance)
    if found is not None:
        return found
    check_fits(name, IN_MEMORY * len(raw))
    text = _comments_blanked(_decoded(memoryview(raw).tobytes(), name))
    if not text.strip():
        raise ValueError(f"{name} is empty")
    told, text = _told_delimiter(text)
    head = _head(text)
    delimiter = told or ("\t" if kind_of(path) == ".tsv" else _delimiter(head, recognised))
    if delimiter == " ":
        text, delimiter = re.sub(r"(?m)^[ \t]+|[ \t]+$", "", text), "\t"
        text = re.sub(r"[ \t]+", "\t", text)
        head = _head(text)
    first = next((row for _, row in _records(head, delimiter)), None)
    if first is None:
        raise ValueError(_unreadable(text, name))
    table = _parsed(text, delimiter, len(first), name)
    _check_closed(text, delimiter, table, name)
    cells = [Words.read(column) for column in table.columns]
    headed = is_header([cell.strip() for cell in first])
    columns = (
        tuple(str(words.distinct[words.codes[0]]) for words in cells)
        if headed
        else ("",) * len(cells)
    )
    skipped = 1 if headed else 0

    def place(row: int) -> str:
        """The line is counted only now."""
        found = next(islice(_records(text, delimiter), row + skipped, None), None)
        return f"{name}, line {found[0]}" if found else f"{name}, row {row + skipped + 1}"

    body = Cells([words.rows(slice(skipped, None)) for words in cells] if skipped else cells, {})
    advance(len(raw))
    return TextTable(columns, body, place, delimiter == ";")


def _typed(
    raw: pa.Buffer,
    path: Path,
    is_header: Header,
    recognised: Header,
    meant: Callable[[str], bool],
    advance: Callable[[int], None],
) -> TextTable | None:
    """The table read as numbers or codes; None where it must be looked at as text."""
    start = memoryview(raw)[:HEAD].tobytes()
    end = start.rfind(b"\n")
    try:
        head = start[: end + 1].decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    if not head or head.startswith(("#", "%", "\n", "\r", " ")) or _told_delimiter(head)[0]:
        return None
    delimiter = "\t" if kind_of(path) == ".tsv" else _delimiter(head, recognised)
    first = next((row for _, row in _records(head, delimiter)), None)
    if first is None or delimiter == " ":
        return None
    narrow = len(first) < FROM_COLUMNS
    if narrow and (head.startswith("\ufeff") or holds_quotes(raw)):
        return None
    first = [cell.strip() for cell in first]
    headed = is_header(first)
    if headed and "\n" in "".join(first):
        return None
    columns = tuple(first) if headed else ("",) * len(first)
    skipped = 1 if headed else 0
    if narrow:
        check_fits(path.name, AS_CODES * len(raw))
        cells = narrow_cells(raw, delimiter, len(first), skipped, advance)
    else:
        text = {0, 1, *(at for at, name in enumerate(columns) if meant(name))}
        cells = wide_cells(raw, delimiter, len(first), skipped, text, advance)
    if cells is None:
        return None

    def place(row: int) -> str:
        """The line is counted only now."""
        whole = _decoded(memoryview(raw).tobytes(), path.name)
        found = next(islice(_records(whole, delimiter), row + skipped, None), None)
        return f"{path.name}, line {found[0]}" if found else f"{path.name}, row {row + skipped + 1}"

    return TextTable(columns, cells, place, delimiter == ";")


def _head(text: str) -> str:
    """The first lines of a text, as many as a megabyte holds; at least one."""
    end = text.find("\n", HEAD)
    return text if end < 0 else text[: end + 1]


def _told_delimiter(text: str) -> tuple[str | None, str]:
    """What Excel's first line `sep=;` says, and the text with that line made blank.

    >>> _told_delimiter("sep=;\\na;b\\n")
    (';', '\\na;b\\n')
    """
    found = re.match(r"\s*\"?sep=(.)\"?[ \t]*(?=\r?\n)", text, re.IGNORECASE)
    return (found[1], text[found.end() :]) if found else (None, text)


def _check_lines(raw: pa.Buffer, name: str) -> None:
    """Raise for a line that is none: without an end for megabytes, or of columns without end."""
    first = memoryview(raw)[: LONGEST_LINE + 1].tobytes()
    ends = [at for at in (first.find(b"\n"), first.find(b"\r")) if at >= 0]
    if not ends and len(first) > LONGEST_LINE:
        raise ValueError(
            f"{name}: the first line goes on for more than {LONGEST_LINE >> 20} MB; are its line ends "
            "missing?"
        )
    line = first[: min(ends, default=len(first))]
    most = max((line.count(mark.encode()) for mark in DELIMITERS), default=0)
    if most >= MOST_COLUMNS:
        raise ValueError(
            f"{name}: the first line has {most + 1:,} columns, more than the {MOST_COLUMNS:,} a table "
            "may have. Are its line ends missing? Features that are mostly 0 can be given as a list: "
            "id,feature,value"
        )


def _check_closed(text: str, delimiter: str, table: pa.Table, name: str) -> None:
    """Raise when the last row goes on to the end of the file behind a quotation mark left open."""
    if text.count('"') % 2 == 0 or not table.num_rows:
        return
    for column in table.columns:
        last = column[table.num_rows - 1].as_py() or ""
        if "\n" in last:
            line = max((line for line, _ in _records(text, delimiter)), default=1)
            raise ValueError(f"{name}, line {line}: a quotation mark is left open")


def _unreadable(text: str, name: str) -> str:
    """What to say when no record can be told from the text."""
    longest = max(map(len, text.split("\n", 1)[0].split(",")), default=0)
    return (
        f"{name}, line 1: a cell of {longest:,} characters; is a quotation mark left open, or is this "
        "no table?"
    )


def _decoded(raw: bytes, name: str) -> str:
    """The file's text: UTF-8, with or without a byte-order mark, or UTF-16 with one."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", errors="replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = raw[error.start : error.start + 1]
        windows = byte.decode("cp1252", errors="replace")
        meant = f" (as Windows writes {windows!r})" if windows.isalpha() else ""
        raise ValueError(
            f"{name}, line {line}: byte 0x{byte.hex()}{meant} is not UTF-8; save the file as UTF-8 "
            "(in Excel: Save As, CSV UTF-8)"
        ) from None


def _comments_blanked(text: str) -> str:
    """The text with comment lines at its top (`# …`, `% …`) made blank; line numbers stay.

    >>> _comments_blanked("# made by hand\\na,b\\n")
    '\\na,b\\n'
    """
    top = re.match(r"(?:[ \t]*(?:[#%][ \t][^\n]*|[#%]?)\r?\n)+", text)
    return "\n" * top[0].count("\n") + text[top.end() :] if top else text


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every record that is not an empty line."""
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=delimiter)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error:  # a cell larger than the module takes
        return


def _delimiter(text: str, recognised: Header) -> str:
    """Tab, semicolon or comma, whichever parts the first lines alike; a blank as a last resort."""
    rows = {
        mark: [row for _, row in islice(_records(text, mark), SNIFFED_LINES)]
        for mark in (*DELIMITERS, " ")
    }
    for mark in DELIMITERS:
        if len(rows[mark][0]) > 1 and recognised([cell.strip() for cell in rows[mark][0]]):
            return mark
    for mark in DELIMITERS:
        if len(rows[mark][0]) > 1 and len({len(row) for row in rows[mark]}) == 1:
            return mark
    found = next((mark for mark in DELIMITERS if len(rows[mark][0]) > 1), None)
    words = {len(" ".join(row).split()) for row in rows[" "]}
    if found is None and len(words) == 1 and words != {1}:
        return " "
    return found or ","


def _parsed(text: str, delimiter: str, width: int, name: str) -> pa.Table:
    """All records as columns `0 … width−1` of text; a row of another width is an error."""
    columns = [str(at) for at in range(width)]
    try:
        return pacsv.read_csv(
            pa.BufferReader(text.encode()),
            pacsv.ReadOptions(column_names=columns),
            pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            pacsv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        blanked = re.sub(r"(?m)^ +$", "", text)
        if blanked != text:
            return _parsed(blanked, delimiter, width, name)
        found = _misfit(text, delimiter, width, name) or _overlong(text, name)
        raise ValueError(found or f"{name}: {error}") from None


def _overlong(text: str, name: str) -> str | None:
    """What to say about a line that no parser takes."""
    for at, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_CELL:
            return (
                f"{name}, line {at}: the line has {len(line):,} characters; are line ends missing, or is a "
                "quotation mark left open?"
            )
    return None


def _misfit(text: str, delimiter: str, width: int, name: str) -> str | None:
    """What to say about the first row that has not as many columns as the first one."""
    mark = {"\t": "tabs", ";": "semicolons", ",": "commas"}[delimiter]
    for line, row in _records(text, delimiter):
        if len(row) != width:
            hint = "; is a quotation mark left open?" * any("\n" in cell for cell in row)
            hint = hint or TITLED * (width == 1)
            few = "too few" if len(row) < width else "too many"
            return (
                f"{name}, line {line}: {len(row)} column{'s' * (len(row) != 1)}, which is {few}: "
                f"the first row has {width}, parted by {mark}{hint}"
            )
    return None
