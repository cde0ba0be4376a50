"""A dataset of the user's own as files, so that a run can carry it: nothing in them can execute.

`dataset.safetensors` holds the graph's tensors, features of which few are not zero as the rows of a
sparse matrix; `dataset.json` the names and everything else. In a
graph of several types (`HeteroData`), the attribute `x` of the second type in the list `types` is
called `1/x`; that list begins with null, the attributes of the graph as a whole. Lists and tuples
both come back as lists; other values are rejected.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.datasets import DATASETS, Dataset
from nora.files import read_json, write_tensors
from nora.limits import check_fits
from nora.sparse import is_sparse
from nora.training.run_folder import GRAPH, GRAPH_FACTS, read_tensors

PARTS = ("rows", "columns", "values", "size")


def keeps_its_graph(dataset: Dataset) -> bool:
    """Whether a run must contain its graph, because `load_dataset` cannot load it again.

    >>> from nora.datasets import load_dataset
    >>> keeps_its_graph(load_dataset("karate"))
    False
    """
    return dataset.own or dataset.name not in {entry.name for entry in DATASETS}


def write_dataset(dataset: Dataset, folder: Path) -> None:
    """Write the tensors of the graph and the facts about it into `folder`."""
    facts = {
        field.name: getattr(dataset, field.name)
        for field in fields(dataset)
        if field.name not in ("data", "own")
    }
    data = dataset.data
    facts["num_nodes"] = int(data.num_nodes or 0)
    typed = isinstance(data, HeteroData)
    if typed:
        facts["types"] = [store._key for store in data.stores]
    tensors: dict[str, Tensor] = {}
    facts["attributes"] = {}
    for number, store in enumerate(data.stores):
        for key, value in store.items():
            name = f"{number}/{key}" if typed else key
            if isinstance(value, Tensor) and value.layout == torch.strided:
                tensors |= _stored(name, value)
            elif _is_plain(value):
                facts["attributes"][name] = value
            else:
                kind = "sparse tensor" if isinstance(value, Tensor) else type(value).__name__
                place = "data" if store._key is None else f"data[{store._key!r}]"
                raise TypeError(
                    f"{place}.{key} is a {kind}, which cannot be saved with a run: only dense tensors, "
                    "numbers, texts and lists of these can. Convert it to one of them, or delete it "
                    f"(del {place}[{key!r}])"
                )
    write_tensors(tensors, folder / GRAPH)
    text = json.dumps(facts, ensure_ascii=False)
    (folder / GRAPH_FACTS).write_text(text + "\n", encoding="utf-8")


def _stored(name: str, value: Tensor) -> dict[str, Tensor]:
    """A tensor as it is saved: sparse features as their non-zero entries.

    >>> sorted(_stored("x", torch.eye(40))), list(_stored("y", torch.zeros(3)))
    (['x.columns', 'x.rows', 'x.size', 'x.values'], ['y'])
    """
    if value.dim() != 2 or not value.is_floating_point() or not is_sparse(value):
        return {name: value}
    found = value.to_sparse_csr()
    parts = (
        found.crow_indices(),
        found.col_indices().int(),
        found.values(),
        torch.tensor(value.shape),
    )
    return {f"{name}.{part}": one for part, one in zip(PARTS, parts, strict=True)}


def _unpacked(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with those that `_stored` took apart in one piece, dense.

    >>> bool((_unpacked(_stored("x", torch.eye(40)))["x"] == torch.eye(40)).all())
    True
    """
    for name in [key.removesuffix(".rows") for key in tensors if key.endswith(".rows")]:
        rows, columns, values, size = (tensors.pop(f"{name}.{part}") for part in PARTS)
        height, width = (int(one) for one in size.tolist())
        each = rows.diff()
        if not (
            len(rows) == height + 1
            and int(each.sum()) == len(values) == len(columns)
            and bool((each >= 0).all() & (columns >= 0).all() & (columns < width).all())
        ):
            raise ValueError(
                f"the parts of {name} are not those of a matrix of {height} by {width}"
            )
        check_fits(f"{name} of {height:,} by {width:,}", height * width * values.element_size())
        row = torch.arange(height).repeat_interleave(each)
        dense = torch.zeros(height, width, dtype=values.dtype)
        dense[row, columns.long()] = values
        tensors[name] = dense
    return tensors


def _is_plain(value: Any) -> bool:
    """Whether JSON keeps it.

    >>> _is_plain({"names": ["a", "b"]}), _is_plain({1, 2})
    (True, False)
    """
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    return value is None or isinstance(value, bool | int | float | str)


def read_dataset(folder: Path) -> Dataset:
    """Read what `write_dataset` wrote."""
    try:
        facts = read_json(folder / GRAPH_FACTS)
        num_nodes, attributes = facts.pop("num_nodes"), facts.pop("attributes", {})
        if not isinstance(num_nodes, int) or not isinstance(attributes, dict):
            raise TypeError("num_nodes is not a whole number, or attributes are not a table")
        check_fits(f"a graph of {num_nodes:,} nodes", 8 * num_nodes)
        types = [_tuple(one) for one in facts.pop("types", [None])]
        data = Data() if types == [None] else HeteroData()
        dataset = Dataset(data=data, own=True, **{key: _tuple(v) for key, v in facts.items()})
        stores = [data if kind is None else data[kind] for kind in types]
        _check_names(dataset)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder / GRAPH_FACTS} is not readable as a dataset: {error}") from error
    packed = read_tensors(folder / GRAPH, "a graph")
    try:
        tensors = _unpacked(packed)
    except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
        raise ValueError(f"{folder / GRAPH} does not hold a graph: {error}") from error
    try:
        for name, value in (*tensors.items(), *attributes.items()):
            number, _, key = (
                name.rpartition("/") if isinstance(data, HeteroData) else ("", "", name)
            )
            setattr(stores[int(number or 0)], key, value)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{folder / GRAPH} is not of {folder / GRAPH_FACTS}: {error!r}") from error
    if isinstance(data, Data) and "x" not in tensors:
        data.num_nodes = num_nodes
    if dataset.node_names is not None and len(dataset.node_names) != num_nodes:
        raise ValueError(
            f"{folder / GRAPH_FACTS} names {len(dataset.node_names)} of {num_nodes} nodes"
        )
    return dataset


def _check_names(dataset: Dataset) -> None:
    """Raise for names that are not text: everything that looks them up expects that."""
    for key in ("node_names", "class_names", "edge_type_names", "feature_names"):
        for name in getattr(dataset, key) or ():
            if not isinstance(name, str):
                raise TypeError(f"{key} holds {name!r}, expected text")


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
