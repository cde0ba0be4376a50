"""A file's content: mapped into memory, or unpacked where it is compressed."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow as pa

from nora.ingest.formats import WORKBOOK
from nora.limits import check_fits

PIECE, MOST_AT_ONCE = 1 << 16, 1 << 24
# Files of several parts end with an empty one, and may be joined.
MOST_EMPTY = 1000


def content_of(path: Path) -> pa.Buffer:
    """The bytes of a file, unpacked when its name ends in `.gz`; of a workbook its table as CSV."""
    if path.suffix.lower() == WORKBOOK:
        from nora.ingest.workbook import workbook_text

        return pa.py_buffer(workbook_text(path))
    if path.suffix.lower() == ".gz":
        return pa.py_buffer(_unpacked(path))
    if not path.stat().st_size:
        return pa.py_buffer(b"")
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def _unpacked(path: Path) -> bytes:
    """What a gzip file holds; refused when it grows beyond what fits, before it does."""
    parts: list[bytes] = []
    size = written = empty = 0
    unpacker, packed = None, b""
    with path.open("rb") as file:
        while packed or (packed := file.read(PIECE)):
            if unpacker is None:  # a gzip file may hold several, one behind the other
                unpacker, written = zlib.decompressobj(wbits=31), 0
            try:
                found = unpacker.decompress(packed, MOST_AT_ONCE)
            except zlib.error as error:
                raise ValueError(f"{path.name} is not a readable gzip file: {error}") from None
            written += len(found)
            size += len(found)
            check_fits(path.name, size)
            parts.append(found)
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed, unpacker = unpacker.unused_data, None
                empty += not written
                if empty > MOST_EMPTY:
                    raise ValueError(
                        f"{path.name} holds more than {MOST_EMPTY:,} empty parts; unpack it, and compress "
                        "it again"
                    )
    if unpacker is not None:
        raise ValueError(f"{path.name} is cut off: the gzip file ends too early")
    return b"".join(parts)
