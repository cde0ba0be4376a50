"""The graph that was read and the model that was trained, as facts and in words."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from nora.graph.degrees import count_edges
from nora.ingest import Reading
from nora.options import option
from nora.training.runs import Run
from nora.wording import listed


@dataclass(frozen=True)
class GraphSummary:
    """Facts about a graph, for `run.json`; as text, one line for people.

    Attributes:
        nodes: How many.
        edges: How many; an undirected one counts once.
        directed: Whether edges go one way only.
        weighted: Whether edges have weights.
        edge_types: The names of their types, if they have any.
        features: How many features a node has, those made from the graph included.
        classes: How many nodes are labelled with each class.
        unlabelled: How many nodes have no label.

    Example:
        >>> print(GraphSummary(9, 1, False, False, (), 1, {"0": 5, "1": 4}, 0))
        9 nodes, 1 undirected edge, 1 feature, 2 classes ('0': 5, '1': 4)
        >>> print(GraphSummary(9, 5, True, False, tuple("abcdefghij"), 1, {}, 9))
        9 nodes, 5 directed edges of the types a, b, c, d, e, f, g, h and 2 more, 1 feature
    """

    nodes: int
    edges: int
    directed: bool
    weighted: bool
    edge_types: tuple[str, ...]
    features: int
    classes: Mapping[str, int]
    unlabelled: int

    def __str__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        parts = [
            _counted(self.nodes, "node"),
            _counted(self.edges, f"{kind} edge"),
            _counted(self.features, "feature"),
        ]
        if self.edge_types:
            parts[1] += f" of the types {listed(self.edge_types, 8)}"
        if self.classes:
            most = sorted(self.classes.items(), key=lambda item: -item[1])[:8]
            sizes = ", ".join(f"{name!r}: {count:,}" for name, count in most)
            others = len(self.classes) - len(most)
            more = f" and {others:,} more" if others else ""
            unknown = f"; {self.unlabelled:,} unknown" if self.unlabelled else ""
            which = "class" if len(self.classes) == 1 else "classes"
            parts.append(f"{len(self.classes):,} {which} ({sizes}{more}{unknown})")
        return ", ".join(parts)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def summarise_graph(reading: Reading, directed: bool) -> GraphSummary:
    """The facts about a graph that was read."""
    dataset = reading.dataset
    data = dataset.data
    y = data.y
    return GraphSummary(
        nodes=int(data.num_nodes or 0),
        edges=count_edges(data, directed),
        directed=directed,
        weighted=data.get("edge_weight") is not None,
        edge_types=dataset.edge_type_names or (),
        features=int(data.x.size(1)),
        classes={
            name: int((y == number).sum()) for number, name in enumerate(dataset.class_names or ())
        },
        unlabelled=int((y < 0).sum()),
    )


def model_notes(run: Run, explained: bool = False) -> list[str]:
    """Notes on whether the model uses edge weights, edge types and labels.

    Args:
        run: The trained run.
        explained: Whether the use of edge types was explained already.
    """
    takes = inspect.signature(run.model.forward).parameters
    name = run.architecture["name"]
    found = []
    if run.metrics.get("still_improving"):
        found.append(
            f"training ended after {run.metrics['epochs']:,} epochs while it was still improving; more "
            f"{option('epochs')} may make a better model"
        )
    if not explained and run.data.get("edge_type") is not None and "edge_type" not in takes:
        found.append(f"{name} ignores edge types; rgcn uses them ({option('model', 'rgcn')})")
    weight = run.data.get("edge_weight")
    if weight is not None and "edge_weight" not in takes:
        found.append(f"{name} ignores edge weights; gcn and gcnii use them")
    elif weight is not None:
        low, high = float(weight.min()), float(weight.max())
        found.append(
            f"edge weights are used as given (from {low:g} to {high:g}); to ignore them, name their "
            f"column in {option('ignore')}"
        )
    if run.task.name == "link" and run.dataset.class_names:
        found.append(
            f"labels are not used: the task is to predict edges ({option('task', 'link')})"
        )
    return found
