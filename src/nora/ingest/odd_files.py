"""Files that are not what their names say, recognised by how they begin."""

from __future__ import annotations

from pathlib import Path

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
}


def check_content(head: bytes, path: Path) -> None:
    """Raise when a file that is read as text is something else.

    Args:
        head: How the file begins, unpacked.
        path: The file.
    """
    name = path.name
    for beginning, what in BEGINNINGS.items():
        if head.startswith(beginning):
            raise ValueError(f"{name} {what.format(name=name)}")
    if head.startswith(b"PK\x03\x04"):
        workbook = b"xl/" in head or b"[Content_Types].xml" in head
        what = "an Excel workbook; name it .xlsx" if workbook else "a ZIP archive; unpack it"
        raise ValueError(f"{name} is {what}")
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        raise ValueError(f"{name} is a pickle, and reading a pickle runs whatever code it holds")
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:400].lower()
    if start.startswith((b"<?xml", b"<graphml", b"<gexf")):
        what = (
            "GEXF: name it .gexf"
            if b"<gexf" in start
            else "XML: if it is GraphML, name it .graphml"
        )
        raise ValueError(f"{name} is {what}")
    if start.startswith((b"<!doctype html", b"<html")):
        raise ValueError(f"{name} is a web page, maybe one that says why the download failed")
    if start.startswith((b"{", b"[{", b"[[", b'["')):
        raise ValueError(f"{name} is JSON; write the table as CSV")
    if head[:4] in (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"):
        raise ValueError(f"{name} is UTF-32; save it as UTF-8 (in Excel: CSV UTF-8)")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return  # UTF-16 that says so
    if b"\x00" in head:
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
