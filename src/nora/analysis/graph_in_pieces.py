"""A large graph as GraphML, written piece by piece from arrays: no second graph in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from nora.files import written_atomically
from nora.graph.degrees import is_directed

# Up to so many edges NetworkX writes them; it holds the graph once more, in a kilobyte an edge.
IN_ONE_PIECE = 200_000
ROWS = 20_000
KINDS = {"i": "long", "f": "double", "O": "string", "U": "string"}


def write_graphml_in_pieces(
    data: Data, nodes: pd.DataFrame, types: Sequence[str] | None, path: Path
) -> None:
    """Write a graph with the attributes of its nodes.

    Args:
        data: The graph.
        nodes: A row per node with its position in `node`, its `id`, and columns of attributes.
        types: The names of edge types, where edges have types.
        path: The file.
    """
    nodes = nodes.sort_values("node").reset_index(drop=True)
    ids = [quoteattr(str(one)) for one in nodes["id"]]
    attributes = {
        str(key): nodes[key].to_numpy() for key in nodes if key not in ("node", "id", "name")
    }
    directed = is_directed(data)
    source, target = data.edge_index.numpy()
    stays = slice(None) if directed else source <= target
    source, target = source[stays], target[stays]
    edges: dict[str, np.ndarray] = {}
    if data.get("edge_weight") is not None:
        edges["weight"] = data.edge_weight.double().numpy()[stays]
    if data.get("edge_type") is not None and types:
        edges["type"] = np.array(types, dtype=object)[data.edge_type.numpy()[stays]]
    with written_atomically(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        )
        for role, columns in (("node", attributes), ("edge", edges)):
            for key, values in columns.items():
                kind = KINDS.get(values.dtype.kind, "string")
                file.write(
                    f'<key id="{role}-{key}" for="{role}" attr.name="{key}" attr.type="{kind}"/>\n'
                )
        file.write(f'<graph edgedefault="{"directed" if directed else "undirected"}">\n')
        for start in range(0, len(ids), ROWS):
            rows = range(start, min(start + ROWS, len(ids)))
            file.writelines(f"<node id={ids[at]}>{own}</node>\n" for at, own in
                            zip(rows, _data_elements("node", attributes, rows), strict=True))  # fmt: skip
        for start in range(0, len(source), ROWS):
            rows = range(start, min(start + ROWS, len(source)))
            file.writelines(
                f"<edge source={ids[source[at]]} target={ids[target[at]]}>{own}</edge>\n"
                for at, own in zip(rows, _data_elements("edge", edges, rows), strict=True)
            )
        file.write("</graph>\n</graphml>\n")


def _data_elements(role: str, columns: Mapping[str, np.ndarray], rows: range) -> Iterator[str]:
    """The attributes of some rows as XML; those that are not known are left out."""
    parts = {key: values[rows.start : rows.stop].tolist() for key, values in columns.items()}
    for at in range(len(rows)):
        yield "".join(
            f'<data key="{role}-{key}">{escape(str(values[at]))}</data>'
            for key, values in parts.items()
            if values[at] is not None and values[at] == values[at]
        )
