"""Features to change, from a file: `--set features.csv`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nora.cli.arguments import parse_nodes
from nora.files import check_regular

if TYPE_CHECKING:
    from torch import Tensor


def read_feature_rows(
    path: Path, x: Tensor | None, names: Sequence[str] | None, count: int
) -> dict[int, Tensor]:
    """New rows of `x` by node, from a `.csv` or `.parquet` table.

    The first column names the node, by id or name. Either all features follow, in their order, or the columns
    are `node`, `feature`, `value`: one feature each, counted from 0, the others staying as they are.

    Args:
        path: The file.
        x: The graph's features `[N, F]`.
        names: The nodes' names, when they have any.
        count: How many nodes there are.
    """
    import pandas as pd
    import torch

    from nora.parquet import decoded, read_parquet

    if x is None:
        raise ValueError("the graph has no features to set")
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    check_regular(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"cannot tell the format of {path.name!r}: use a .csv or .parquet name")
    try:
        if path.suffix == ".parquet":
            frame = decoded(read_parquet(path)).to_pandas(ignore_metadata=True)
        else:
            frame = pd.read_csv(path, dtype=str)
    except ValueError as error:
        raise ValueError(f"{path} is not readable: {error}") from error
    if frame.empty:
        raise ValueError(f"{path} has no rows: nothing would change")
    width = x.size(1)
    single = [str(column).lower() for column in frame][1:] == ["feature", "value"] and width != 2
    if not single and len(frame.columns) != width + 1:
        raise ValueError(
            f"{path} has {len(frame.columns)} columns: give a node and its {width} features, or the "
            "columns node, feature, value"
        )
    nodes = [parse_nodes([str(one)], names, count)[0] for one in frame.iloc[:, 0]]
    try:
        values = frame.iloc[:, 1:].astype(float).to_numpy()
    except ValueError as error:
        raise ValueError(f"{path}: features are numbers ({error})") from error
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
