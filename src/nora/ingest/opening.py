"""A file's content: mapped into memory, or unpacked where it is compressed."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow as pa

from nora.ingest.limits import check_fits

PIECE = 1 << 20


def content_of(path: Path) -> pa.Buffer:
    """The bytes of a file, unpacked when its name ends in `.gz`."""
    if path.suffix.lower() == ".gz":
        return pa.py_buffer(_unpacked(path))
    if not path.stat().st_size:
        return pa.py_buffer(b"")
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def _unpacked(path: Path) -> bytes:
    """What a gzip file holds; refused when it grows beyond what fits, before it does."""
    parts, size = [], 0
    unpacker = zlib.decompressobj(wbits=31)
    with path.open("rb") as file:
        while True:
            packed = unpacker.unconsumed_tail or file.read(PIECE)
            if not packed:
                break
            try:
                found = unpacker.decompress(packed, 16 * PIECE)
                while unpacker.eof and unpacker.unused_data:  # several, one behind the other
                    rest, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=31)
                    found += unpacker.decompress(rest)
            except zlib.error as error:
                raise ValueError(f"{path.name} is not a readable gzip file: {error}") from None
            size += len(found)
            check_fits(path.name, size)
            parts.append(found)
    if not unpacker.eof:
        raise ValueError(f"{path.name} is cut off: the gzip file ends too early")
    return b"".join(parts)
