"""A file's content: mapped into memory or unpacked, and refused where it is not what its name promises."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from nora.ingest.formats import PACKED
from nora.limits import check_fits

PIECE = 1 << 24
BEGINNINGS = {
    b"\x1f\x8b": "is compressed with gzip; name it {name}.gz, or unpack it",
    b"BZh": "is compressed with bzip2; unpack it, or compress it with gzip",
    b"\xfd7zXZ": "is compressed with xz; unpack it, or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; unpack it, or compress it with gzip",
    b"7z\xbc\xaf": "is a 7z archive; unpack it",
    b"Rar!": "is a RAR archive; unpack it",
    b"PAR1": "is a Parquet file; name it .parquet",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook (.xls); save it as CSV",
    b"%PDF": "is a PDF; give the table as CSV",
    b"\x89PNG": "is a picture (PNG)",
    b"\xff\xd8\xff": "is a picture (JPEG)",
    b"GIF8": "is a picture (GIF)",
    b"SQLite format 3": "is an SQLite database; export the table as CSV",
    b"\x89HDF": "is an HDF5 file; export the table as CSV",
    b"\x93NUMPY": "is a NumPy array; give a table of ids and features as CSV or Parquet",
    b"\x7fELF": "is a program",
    b"ARROW1": "is an Arrow file; save it as Parquet",
    b"Obj\x01": "is an Avro file; save it as Parquet",
    b"%%MatrixMarket": "is a Matrix Market file; name it .mtx",
    b"{\\rtf": "is a text document (RTF); save the table as CSV",
    **{
        b"\x80" + bytes([version]): "is a pickle, and reading a pickle runs whatever code it holds"
        for version in range(2, 6)
    },
    b"\xff\xfe\x00\x00": "is UTF-32; save it as UTF-8 (in Excel: CSV UTF-8)",
    b"\x00\x00\xfe\xff": "is UTF-32; save it as UTF-8 (in Excel: CSV UTF-8)",
}
# The same of text, after blanks and a byte-order mark, in lower case.
MARKUP = {
    (b"<!doctype html", b"<html"): "is a web page, perhaps an error page of a failed download",
    (b"{", b"[{", b"[[", b'["'): "is JSON; write the table as CSV",
}


def content_of(path: Path) -> pa.Buffer:
    """The bytes of a file, unpacked when its name ends in `.gz`; of a workbook its table as CSV."""
    if path.suffix.lower() == ".xlsx":
        from nora.ingest.workbook import workbook_text

        return pa.py_buffer(workbook_text(path))
    if path.suffix.lower() == PACKED:
        return _unpacked(path)
    if not path.stat().st_size:
        return pa.py_buffer(b"")
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def _unpacked(path: Path) -> pa.Buffer:
    """The content of a gzip file; rejected before it grows beyond the limit."""
    parts: list[bytes] = []
    size = 0
    try:
        with pa.input_stream(str(path), compression="gzip") as file:
            while part := file.read(PIECE):
                size += len(part)
                check_fits(path.name, size)
                parts.append(part)
    except OSError as error:
        if "Truncated" in str(error):
            raise ValueError(f"{path.name} is cut off: the gzip file ends too early") from None
        raise ValueError(f"{path.name} is not a readable gzip file: {error}") from None
    return pa.py_buffer(b"".join(parts))


def check_text(head: bytes, name: str) -> None:
    """Raise when a file that is read as text is something else, by how it begins."""
    for beginning, what in BEGINNINGS.items():
        if head.startswith(beginning):
            raise ValueError(f"{name} {what.format(name=name)}")
    if head.startswith(b"PK\x03\x04"):
        workbook = b"xl/" in head or b"[Content_Types].xml" in head
        what = "an Excel workbook; name it .xlsx" if workbook else "a ZIP archive; unpack it"
        raise ValueError(f"{name} is {what}")
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:400].lower()
    if start.startswith((b"<?xml", b"<graphml", b"<gexf")):
        gexf = b"<gexf" in start
        what = "GEXF: name it .gexf" if gexf else "XML: if it is GraphML, name it .graphml"
        raise ValueError(f"{name} is {what}")
    for beginnings, what in MARKUP.items():
        if start.startswith(beginnings):
            raise ValueError(f"{name} {what}")
    if b"\x00" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        if _is_utf16(head):
            raise ValueError(
                f"{name} is UTF-16 without a byte-order mark; save it as UTF-8 (in Excel: CSV UTF-8)"
            )
        raise ValueError(f"{name} holds binary data, not text")


def _is_utf16(head: bytes) -> bool:
    """Whether every other byte is 0, as in Latin text of two bytes a letter.

    >>> _is_utf16("a,b".encode("utf-16-le")), _is_utf16(bytes(8))
    (True, False)
    """
    even, odd = head[0 : len(head) // 2 * 2 : 2], head[1::2]
    shares = sorted(part.count(0) / max(1, len(part)) for part in (even, odd))
    return shares[0] < 0.1 and shares[1] > 0.7
