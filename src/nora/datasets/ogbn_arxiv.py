"""ogbn-arxiv (Hu et al., 2020): 169,343 papers in 40 subject areas, read by the `ogb` package.

Citations are used in both directions, as in the paper's experiments. ogb's own dataset class asks
questions on standard input and unpickles what it has cached; its readers do neither, so the raw
files are read directly and nothing is written beside those that were given.

Neither ogb nor its site publishes a checksum of the archive. So it comes over https, what it holds is
compared with the published numbers of papers and citations, and its size and the SHA-256 of it and of
each file are kept beside the files (`download.json`): every later use is compared with them.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch_geometric.utils import to_undirected

from nora.artefact import sha256_of
from nora.datasets import (
    DATASETS,
    Dataset,
    DatasetUnavailableError,
    cache_folder,
    given_folder,
)
from nora.files import folder_written_atomically

URL = "https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
FOLDER, CLASSES, SECONDS_TO_ANSWER = "ogbn_arxiv", 40, 30.0
# Papers and citations, as https://ogb.stanford.edu/docs/nodeprop states.
PUBLISHED = (169_343, 1_166_243)
RECORD = "download.json"
PARTS = ("train", "valid", "test")
FILES = (
    *(
        f"raw/{name}.csv.gz"
        for name in ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list")
    ),
    *(f"split/time/{part}.csv.gz" for part in PARTS),
)


@DATASETS.register("ogbn-arxiv", "citations: 169,343 papers, 40 areas (needs the extra [ogb])")
def ogbn_arxiv() -> Dataset:
    """ogbn-arxiv with symmetrised citations; splits have the official split's sizes."""
    try:
        with _no_version_check():
            from ogb.io.read_graph_pyg import read_graph_pyg
    except ImportError as error:
        raise DatasetUnavailableError(
            "ogbn-arxiv is read by the package ogb, which is not installed: "
            "pip install 'nora-influence[ogb]'"
        ) from error
    folder = _folder()
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        data = read_graph_pyg(str(folder / "raw"))[0]
    if (found := (data.num_nodes, data.num_edges)) != PUBLISHED:
        raise ValueError(
            f"{folder} holds {found[0]:,} papers and {found[1]:,} citations, as published there are "
            f"{PUBLISHED[0]:,} and {PUBLISHED[1]:,}: are its files complete? Get them again from {URL}"
        )
    data.edge_index = to_undirected(data.edge_index, num_nodes=data.num_nodes)
    data.y = torch.from_numpy(_column(folder / "raw" / "node-label.csv.gz"))
    sizes = [len(_column(folder / "split" / "time" / f"{part}.csv.gz")) for part in PARTS]
    train, val, test = (size / sum(sizes) for size in sizes)
    return Dataset(
        "ogbn-arxiv",
        data,
        num_classes=CLASSES,
        class_names=_class_names(folder),
        node_ratios=(train, val, test),
    )


def _missing(folder: Path) -> list[str]:
    return [file for file in FILES if not (folder / file).exists()]


def _folder() -> Path:
    """The folder with ogb's raw files: given, cached, or downloaded now."""
    places = [base / FOLDER for base in (given_folder(), cache_folder()) if base]
    for place in places:
        if not _missing(place):
            _check_unchanged(place)
            return place
    target = places[-1]
    try:
        _download(target)
    except Exception as error:  # any network or file error ends in the same remedy
        raise DatasetUnavailableError(
            f"ogbn-arxiv could not be downloaded ({type(error).__name__}). Missing: "
            f"{', '.join(_missing(target))}. Get {URL} and unpack it so that these files are in "
            f"{target}, or set NORA_DATA to a folder that holds {FOLDER} with them"
        ) from None  # the message of a network library is long, and adds nothing
    return target


def _download(target: Path) -> None:
    from ogb.utils.url import download_url, extract_zip

    waiting = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SECONDS_TO_ANSWER)
    try:
        with (
            redirect_stdout(sys.stderr),
            folder_written_atomically(target, replace=True) as temporary,
        ):
            archive = Path(download_url(URL, str(temporary)))
            about: dict[str, Any] = {
                "url": URL,
                "bytes": archive.stat().st_size,
                "sha256": sha256_of(archive),
            }
            extract_zip(str(archive), str(temporary))
            archive.unlink()
            for part in (temporary / "arxiv").iterdir():
                part.rename(temporary / part.name)
            (temporary / "arxiv").rmdir()
            if missing := _missing(temporary):
                raise FileNotFoundError(f"the archive lacks {', '.join(missing)}")
            about["files"] = {file: sha256_of(temporary / file) for file in FILES}
            text = json.dumps(about, indent=2)
            (temporary / RECORD).write_text(text + "\n", encoding="utf-8")
    finally:
        socket.setdefaulttimeout(waiting)


def _check_unchanged(folder: Path) -> None:
    """Raise when files are not those that were downloaded; files from elsewhere have no record."""
    if not (folder / RECORD).exists():
        return
    recorded = json.loads((folder / RECORD).read_text(encoding="utf-8"))["files"]
    changed = [file for file in FILES if recorded.get(file) != sha256_of(folder / file)]
    if changed:
        raise DatasetUnavailableError(
            f"{', '.join(changed)} in {folder} changed since the download; remove {folder}, and it is "
            "downloaded again"
        )


def _column(path: Path) -> np.ndarray:
    """The one column of integers of a CSV file."""
    return pd.read_csv(path, header=None)[0].to_numpy(dtype="int64", copy=True)


def _class_names(folder: Path) -> tuple[str, ...] | None:
    """`arxiv cs na` → `cs.NA`, where the mapping came with the data (its file name's spelling)."""
    path = folder / "mapping" / "labelidx2arxivcategeory.csv.gz"
    if not path.exists():
        return None
    words = [name.split() for name in pd.read_csv(path)["arxiv category"]]
    return tuple(f"{area}.{subject.upper()}" for _, area, subject in words)


@contextmanager
def _no_version_check() -> Iterator[None]:
    """Import ogb without the thread in which it asks the network for a newer version of itself.

    It does not ask where the package `outdated` cannot be imported.
    """
    outdated = sys.modules.get("outdated")
    sys.modules["outdated"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if outdated is None:
            del sys.modules["outdated"]
        else:
            sys.modules["outdated"] = outdated
