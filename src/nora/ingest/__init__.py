"""A person's own files as a `Dataset`: an edge list, and features and labels if there are any.

    reading = read_graph("edges.csv", labels="labels.csv")
    reading.dataset, reading.notes

One `Table` (`table`) is what is read, and everything else is about its columns. `formats` lists the formats,
each with the module that reads it: `text`, `parquet`, `graphfile` (GraphML and GEXF), `matrices` (Matrix
Market), `folders` (what OGB and PyG lay out); `opening` unpacks a file and refuses what its name does not
say. `columns` finds what a column means, `ids` when two spellings are one node, `nodes` which node a row is
about. `edges`, `features`, `feature_list`, `classes` and `numbers` make tensors of them; `encodings` makes
features where there are none; `reading` puts it together. What cannot be understood is refused with the
file's name and the line; what was decided on the way is noted.

Names are imported on first use, so that `formats` can refuse a file before torch is loaded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nora.ingest.encodings import ENCODINGS, encode
    from nora.ingest.reading import Reading, read_graph

__all__ = ["ENCODINGS", "Reading", "encode", "read_graph"]

_HOME = {
    "ENCODINGS": "encodings",
    "encode": "encodings",
    "Reading": "reading",
    "read_graph": "reading",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"nora.ingest.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'nora.ingest' has no attribute {name!r}")
