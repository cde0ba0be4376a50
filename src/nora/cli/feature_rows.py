"""Features to change, from a file: `--set features.csv`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nora.cli.parameters import parse_nodes

if TYPE_CHECKING:
    from torch import Tensor


def read_feature_rows(
    path: Path, x: Tensor | None, names: Sequence[str] | None, count: int
) -> dict[int, Tensor]:
    """New rows of `x` by node, from a table: `.csv`, `.parquet` or another format of tables.

    The first column names the node, by id or name. Either all features follow, in their order, or the columns
    are `node`, `feature`, `value`: one feature each, counted from 0, the others staying as they are.

    Args:
        path: The file.
        x: The graph's features `[N, F]`.
        names: The nodes' names, when they have any.
        count: How many nodes there are.
    """
    import numpy as np
    import torch

    from nora.ingest.formats import existing, format_of
    from nora.ingest.numbers import numbers
    from nora.ingest.table import Wanted

    if x is None:
        raise ValueError("the graph has no features to set")
    path = existing(path, "labels")  # a table, as one of labels is
    (table,) = format_of(path).read(path, Wanted("features")).values()
    width = x.size(1)
    single = [name.lower() for name in table.columns[1:]] == ["feature", "value"] and width != 2
    if not single and len(table.columns) != width + 1:
        raise ValueError(
            f"{path} has {len(table.columns)} columns: give a node and its {width} features, or the "
            "columns node, feature, value"
        )
    nodes = [parse_nodes([str(one)], names, count)[0] for one in table.cells[0].text]
    values = np.stack([numbers(table, at) for at in range(1, len(table.columns))], axis=1)
    if not np.isfinite(values).all():
        row, at = np.argwhere(~np.isfinite(values))[0].tolist()
        raise ValueError(
            f"{table.place(row)}: features are numbers, got {table.cells[at + 1].cell(row)!r} in the "
            f"column {table.title(at + 1)!r}"
        )
    found: dict[int, Tensor] = {}
    for node, given in zip(nodes, values, strict=True):
        if not single:
            if node in found:
                raise ValueError(f"{path} names node {node} twice")
            found[node] = torch.as_tensor(given).to(x.dtype)
            continue
        feature = int(given[0])
        if feature != given[0] or not 0 <= feature < width:
            raise ValueError(f"{path}: feature {given[0]:g} is not one of 0 … {width - 1}")
        found.setdefault(node, x[node].cpu().clone())[feature] = float(given[1])
    return found
