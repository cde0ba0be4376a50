"""Small files that claim to be, or become, far more than fits: each is refused quickly, and memory stays low.

`make` writes them. `python -m ingest.bombs FOLDER` opens them, with `memory="500MB"`, and prints what each
answered, how long that took, and the most memory that was held.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file, save_file

import nora
from nora.ingest import read_graph
from nora.limits import memory_limit
from nora.machine import peak_memory, release_memory
from payload import edited

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


def long_texts(path: Path) -> None:
    """Five texts of a megabyte, each named eight thousand times: 40 GB from 0.5 MB."""
    texts = pa.array(["x" * 10**6 + str(at) for at in range(5)])
    column = pa.DictionaryArray.from_arrays(pa.array(np.arange(20_000) % 5, pa.int32()), texts)
    table = pa.table({"source": column, "target": column})
    pq.write_table(table, path, store_schema=False, dictionary_pagesize_limit=10**8)


def repeated_texts(path: Path) -> None:
    """Each text repeats all of the one before."""
    table = pa.table({name: ["y" * 10**6] * 300 for name in ("source", "target")})
    how = {name: "DELTA_BYTE_ARRAY" for name in table.column_names}
    with pq.ParquetWriter(path, table.schema, use_dictionary=False, column_encoding=how) as file:
        for _ in range(4):
            file.write_table(table)


def wide_cells(path: Path) -> None:
    """Cells of a megabyte each, all equal: 4 GB."""
    column = pa.array([b"x" * 10**6] * 100, pa.binary(10**6))
    table = pa.table({"source": column, "target": column})
    with pq.ParquetWriter(path, table.schema) as file:
        for _ in range(20):
            file.write_table(table)


def wide_matrix(path: Path) -> None:
    """A matrix that claims 2,000,000,000 columns, of which one holds something: harmless."""
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 2000000000 1\n1 7 1.0\n")


def second_part(path: Path) -> None:
    """A gzip file whose second part holds 8 GB."""
    pack = zlib.compressobj(9, wbits=31)
    first = pack.compress(b"source,target\na,b\n") + pack.flush()
    pack = zlib.compressobj(9, wbits=31)
    head = pack.compress(b"\n") + pack.flush(zlib.Z_FULL_FLUSH)
    block = pack.compress(b"\n" * 2**24) + pack.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(first + head + block * 500)


def empty_parts(path: Path) -> None:
    """A gzip file of a million empty parts."""
    pack = zlib.compressobj(9, wbits=31)
    path.write_bytes((pack.compress(b"") + pack.flush()) * 10**6)


def packed_tensors(path: Path) -> None:
    """A file of PyG's whose storage was compressed, which torch's own never is: 1.2 GB from 6 MB."""
    torch.save({"edge_index": EDGES, "x": torch.zeros(3, 2)}, path)
    with ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for part, content in parts.items():
            with archive.open(part, "w") as file:
                for _ in range(120 if part.endswith("data/1") else 0):
                    file.write(bytes(10**7))
                file.write(content)


def tensors(**graph: Any) -> Callable[[Path], None]:
    return lambda path: torch.save({"edge_index": EDGES} | graph, path)


FILES: dict[str, Callable[[Path], None]] = {
    "long texts.parquet": long_texts,
    "repeated texts.parquet": repeated_texts,
    "wide cells.parquet": wide_cells,
    "second part.csv.gz": second_part,
    "empty parts.csv.gz": empty_parts,
    "packed/data.pt": packed_tensors,
    "edges/data.pt": tensors(edge_index=torch.zeros(2, 1, dtype=torch.long).expand(2, 10**9)),
    "x/data.pt": tensors(x=torch.zeros(1).expand(10**6, 10**6)),
    "y/data.pt": tensors(y=torch.zeros(1, dtype=torch.long).expand(10**11)),
    "sparse/data.pt": tensors(
        x=torch.sparse_coo_tensor(
            torch.zeros(2, 1, dtype=torch.long), torch.ones(1), (10**9, 10**9)
        )
    ),
}


def run_of_size(folder: Path, **parts: torch.Tensor) -> Path:
    """A run whose graph has features of another size, as its `dataset.safetensors` says."""
    own = nora.datasets.Dataset("mine", nora.load_dataset("karate").data, 4)
    nora.train("gcn", own, epochs=1, progress=False).save(folder)
    graph = load_file(folder / "dataset.safetensors")
    save_file(graph | parts, folder / "dataset.safetensors")
    edited(folder)
    return folder


def answer(ask: Callable[[], Any]) -> tuple[str, float]:
    """What it answers, and the seconds it takes."""
    start = time.monotonic()
    try:
        with memory_limit("500MB"):
            ask()
        caught = ""
    except ValueError as error:
        caught = str(error)
    seconds = time.monotonic() - start
    pa.default_memory_pool().release_unused()
    release_memory()  # what one has left must not count for the next
    return caught, seconds


SIZES = {
    "many columns": {"x.size": torch.tensor([34, 10**10])},
    "many rows": {"x.size": torch.tensor([10**10, 34])},
    "many entries": {"x.rows": torch.tensor([0, *[10**12] * 34])},
}


def make(place: Path) -> None:
    """Write all of them."""
    for name, write in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        write(place / name)
    wide_matrix(place / "wide.mtx")
    (place / "edges.csv").write_text("source,target\n1,2\n2,3\n")
    for name, parts in SIZES.items():
        run_of_size(place / name, **parts)


def main(place: Path) -> None:
    """Open all of them."""
    found: dict[str, Any] = {}
    for name in FILES:
        path = place / name
        source = path.parent if path.suffix == ".pt" else path
        found[name] = answer(lambda source=source: read_graph(source))
    found["wide.mtx"] = answer(lambda: read_graph(place / "edges.csv", place / "wide.mtx"))
    for name in SIZES:
        found[name] = answer(lambda name=name: nora.load_run(place / name))
    print(json.dumps({"answers": found, "peak": peak_memory()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
