"""The graph with its scores, for other programs: NetworkX in memory, GraphML and GEXF as files.

`to_networkx` puts everything known about a node on the node, so that a layout, a filter or a colour in
Gephi, Cytoscape or NetworkX can use it. Values are plain Python numbers and text, which is what every
writer takes.

    from nora.results.export import to_networkx, write_graph

    write_graph(to_networkx(data, scores), "influence.gexf")
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from nora.arguments import shown
from nora.files import written_atomically
from nora.graph.degrees import degrees, is_directed
from nora.graph.node_index import Graph, global_edges, node_index_of
from nora.results.influence import Influence

# Everything outside the Char production of XML 1.0: no parser reads it, escaped or not.
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_networkx(
    data: Graph,
    scores: Influence | Tensor | None = None,
    *,
    predictions: Tensor | None = None,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    labels: Tensor | None = None,
) -> nx.Graph | nx.DiGraph:
    """Convert a graph to NetworkX, with scores and predictions as node attributes.

    If every edge has its reverse, with the same weight and type, the result is undirected, with one edge per
    pair of directions. Otherwise it is directed. Duplicate edges become one edge with the sum of their
    weights and their number as `count`. Self-loops stay.

    Nodes have these attributes, if known: `label` (the name), `influence` and `rank` (not for nodes without a
    score), `degree` (edges in plus edges out, without self-loops), `predicted` and `probability` (the most
    likely class and its probability), and `class` (the true class). Classes are numbers, or names if
    `class_names` are given. Edges have `weight` and `type` if the data has `edge_weight` and `edge_type`. If
    duplicates of different types become one edge, all types are text such as `"0, 2"`. The nodes of a
    `HeteroData` come type after type, as in `Influence.scores`; the `type` of nodes and edges is then text.

    Args:
        data: The graph, with `edge_index` `[2, E]`.
        scores: Influence scores `[N]`.
        predictions: Class probabilities `[N, C]` such as `Effect.before`, or class ids `[N]`.
        names: The nodes' names; those of `scores` by default.
        class_names: Class names.
        labels: True classes `[N]`, −1 where unknown; `data.y` by default.

    Returns:
        A graph whose nodes are `0 … N−1`.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> graph = to_networkx(path, torch.tensor([0.5, 2.0, 1.0]), names=["a", "b", "c"])
        >>> graph.nodes[1]
        {'label': 'b', 'influence': 2.0, 'rank': 1, 'degree': 2}
        >>> list(graph.edges)
        [(0, 1), (1, 2)]
    """
    located: list[tuple[str, int]] = []
    if isinstance(data, HeteroData):
        data, located = _on_the_line(data)
    if not isinstance(data, Data):
        raise TypeError(
            f"data must be a torch_geometric.data.Data or HeteroData, got {type(data).__name__}"
        )
    if data.edge_index is None:
        raise ValueError("data has no edge_index; a graph needs one of shape [2, num_edges]")
    num_nodes = int(data.num_nodes or 0)
    directed, edges = _edges(data, num_nodes)
    graph: nx.Graph | nx.DiGraph = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(edges)
    if isinstance(scores, Influence) and names is None:
        names = scores.names
    if names is None and located:
        names = [f"{name} {node}" for name, node in located]
    if names is not None:
        _check_length("names", names, num_nodes)
        _put(graph, "label", dict(enumerate(map(str, names))))
    _put(graph, "type", {node: name for node, (name, _) in enumerate(located)})
    if scores is not None:
        _put_scores(graph, scores, num_nodes)
    _put(graph, "degree", dict(enumerate(degrees(data).tolist())))
    if predictions is not None:
        _put_predictions(graph, predictions, class_names, num_nodes)
    if labels is None:
        labels = _labels_of(data, num_nodes)
    if labels is not None:
        _check_length("labels", labels, num_nodes)
        _put(graph, "class", _classes(labels, class_names))
    return graph


def _put_scores(graph: nx.Graph, scores: Influence | Tensor, num_nodes: int) -> None:
    if not isinstance(scores, Influence | Tensor):
        raise TypeError(f"scores must be a nora.Influence or a tensor, got {shown(scores)}")
    scored = scores if isinstance(scores, Influence) else Influence(scores.flatten(), "given")
    _check_length("scores", scored, num_nodes)
    frame = replace(scored, node_types=None).to_frame().set_index("node")
    for name in ("influence", "rank"):
        _put(graph, name, frame[name].to_dict())


def _put_predictions(
    graph: nx.Graph, predictions: Tensor, class_names: Sequence[str] | None, num_nodes: int
) -> None:
    _check_length("predictions", predictions, num_nodes)
    if predictions.dim() != 2:
        _put(graph, "predicted", _classes(predictions, class_names))
        return
    _check_probabilities(predictions)
    likeliest = predictions.max(dim=1)
    # A node that was removed has no prediction.
    ids = likeliest.indices.masked_fill(likeliest.values.isnan(), -1)
    _put(graph, "predicted", _classes(ids, class_names))
    known = enumerate(likeliest.values.double().tolist())
    _put(graph, "probability", {node: one for node, one in known if one == one})


def write_graph(graph: nx.Graph, path: str | Path) -> Path:
    """Write a graph to a `.graphml` or `.gexf` file, complete or not at all.

    Characters that XML 1.0 has no place for (such as NUL) become `�`; numbers that are not finite
    are left out. In GEXF an edge's `type` is its direction, so that ours is called `edge_type`.

    Args:
        graph: What `to_networkx` made, or any graph with plain attributes.
        path: Where to; the ending decides the format.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = write_graph(nx.path_graph(3), Path(folder) / "path.graphml")
        ...     len(nx.read_graphml(file))
        3
    """
    path = Path(path)
    format = path.suffix.lower()
    if format not in (".graphml", ".gexf"):
        raise ValueError(
            f"cannot tell the graph format of {path.name!r}: use a .graphml or .gexf name"
        )
    legal = nx.relabel_nodes(graph, {node: _legal(node) for node in graph})  # a copy
    edges = (attributes for *_, attributes in legal.edges(data=True))
    for attributes in [*(attributes for _, attributes in legal.nodes(data=True)), *edges]:
        kept = {
            _legal(key): _legal(value)
            for key, value in attributes.items()
            if not isinstance(value, float) or math.isfinite(value)
        }
        attributes.clear()
        attributes.update(kept)
    if format == ".gexf":
        for *_, attributes in legal.edges(data=True):
            if "type" in attributes:
                attributes["edge_type"] = attributes.pop("type")
    write = nx.write_gexf if format == ".gexf" else nx.write_graphml
    with written_atomically(path) as temporary, temporary.open("wb") as file:
        write(legal, file)
    return path


def _legal(value: Any) -> Any:
    return _NOT_IN_XML.sub("\ufffd", value) if isinstance(value, str) else value


def _on_the_line(data: HeteroData) -> tuple[Data, list[tuple[str, int]]]:
    """All types in one graph whose edges have a type, and what each node is there."""
    index = node_index_of(data)
    whole = Data(edge_index=global_edges(data, index), num_nodes=index.total)
    whole.edge_type = [
        relation for key in data.edge_types for relation in [key[1]] * data[key].num_edges
    ]
    return whole, index.located(torch.arange(index.total))


def _edges(data: Data, num_nodes: int) -> tuple[bool, Iterator[tuple[int, int, dict[str, Any]]]]:
    """Whether the graph is directed, and its distinct edges with their attributes."""
    source, target = data.edge_index.cpu().numpy()
    # One number per edge, in the order of (source, target).
    key, copy_of, count = np.unique(
        source.astype(np.int64) * num_nodes + target, return_inverse=True, return_counts=True
    )
    source, target = np.divmod(key, max(num_nodes, 1))
    attributes: dict[str, np.ndarray] = {}
    weight = _per_edge(data, "edge_weight", len(copy_of))
    if weight is not None:
        attributes["weight"] = np.bincount(copy_of, weight.astype(float), len(key))
    kind = _per_edge(data, "edge_type", len(copy_of))
    if kind is not None:
        attributes["type"] = _merged_types(kind, copy_of, len(key))
    if (count > 1).any():
        attributes["count"] = count
    directed = is_directed(data)
    shown = np.arange(len(key)) if directed else np.flatnonzero(source <= target)
    columns = {name: value[shown].tolist() for name, value in attributes.items()}
    rows = zip(*columns.values(), strict=True) if columns else (() for _ in shown)
    pairs = zip(source[shown].tolist(), target[shown].tolist(), rows, strict=True)
    return directed, (
        (tail, head, dict(zip(columns, row, strict=True))) for tail, head, row in pairs
    )


def _per_edge(data: Data, name: str, num_edges: int) -> np.ndarray | None:
    """One value per edge `[E]`, or None when the data has none."""
    values = data.get(name)
    if values is None:
        return None
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.size != num_edges:
        raise ValueError(
            f"{name} has shape {list(array.shape)}: {num_edges} edges need one value each"
        )
    return array.reshape(-1)


def _merged_types(kind: np.ndarray, copy_of: np.ndarray, num_edges: int) -> np.ndarray:
    """The type of each distinct edge; where copies differ, all types as text."""
    pairs = np.unique(np.stack([copy_of, np.unique(kind, return_inverse=True)[1]]), axis=1)
    types = np.unique(kind)[pairs[1]]
    if pairs.shape[1] == num_edges:
        return types
    merged: list[list[str]] = [[] for _ in range(num_edges)]
    for edge, one in zip(pairs[0].tolist(), types.tolist(), strict=True):
        merged[edge].append(str(one))
    return np.array([", ".join(types) for types in merged], dtype=object)


def _classes(ids: Tensor, class_names: Sequence[str] | None) -> dict[int, Any]:
    """Class name, or number, of every node that has one."""
    if ids.is_floating_point() or ids.dim() != 1:
        raise TypeError(
            f"classes are whole numbers, one per node; got {ids.dtype} of shape {list(ids.shape)}"
        )
    known = {node: one for node, one in enumerate(ids.tolist()) if one >= 0}
    if class_names is None:
        return known
    if known and max(known.values()) >= len(class_names):
        raise ValueError(
            f"class_names has {len(class_names)} entries, but class {max(known.values())} occurs: "
            "name every class"
        )
    return {node: str(class_names[one]) for node, one in known.items()}


def _labels_of(data: Data, num_nodes: int) -> Tensor | None:
    """`data.y`, where it holds one class per node."""
    y = data.get("y")
    whole = isinstance(y, Tensor) and not y.is_floating_point() and y.dtype != torch.bool
    return y if whole and list(y.shape) == [num_nodes] else None


def _check_length(what: str, given: Any, num_nodes: int) -> None:
    if len(given) != num_nodes:
        raise ValueError(f"{what} must have one entry per node, {num_nodes}; got {len(given)}")


def _check_probabilities(given: Tensor) -> None:
    if bool(((given < -1e-4) | (given > 1 + 1e-4)).any()):
        raise ValueError(
            "predictions must be probabilities, between 0 and 1, but span "
            f"[{float(given.min()):.3g}, {float(given.max()):.3g}]; for logits, pass "
            "logits.softmax(dim=-1)"
        )


def _put(graph: nx.Graph, name: str, values: Mapping[Any, Any]) -> None:
    nx.set_node_attributes(graph, values, name)
