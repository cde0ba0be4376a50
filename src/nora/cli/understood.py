"""What `nora run` has understood of a person's files, as facts and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nora import Run
    from nora.ingest import Reading


def graph_facts(reading: Reading, directed: bool) -> dict[str, Any]:
    """Facts about the graph, for `run.json` and for people."""
    dataset = reading.dataset
    data = dataset.data
    source, target = data.edge_index
    loops = int((source == target).sum())
    names = dataset.class_names or ()
    y = data.y
    return {
        "nodes": int(data.num_nodes or 0),
        "edges": data.num_edges if directed else (data.num_edges - loops) // 2 + loops,
        "directed": directed,
        "weighted": data.get("edge_weight") is not None,
        "edge_types": list(dataset.edge_type_names or ()),
        "features": int(data.x.size(1)),
        "classes": {name: int((y == number).sum()) for number, name in enumerate(names)},
        "unlabelled": int((y < 0).sum()),
    }


def in_words(graph: dict[str, Any]) -> str:
    """The graph in one line, for people.

    >>> facts = {"nodes": 9, "edges": 1, "directed": False, "features": 1, "edge_types": []}
    >>> in_words({**facts, "classes": {"0": 5, "1": 4}, "unlabelled": 0})
    "9 nodes, 1 undirected edge, 1 feature, 2 classes ('0': 5, '1': 4)"
    """
    kind = "directed" if graph["directed"] else "undirected"
    parts = [
        _counted(graph["nodes"], "node"),
        _counted(graph["edges"], f"{kind} edge"),
        _counted(graph["features"], "feature"),
    ]
    if graph["edge_types"]:
        parts[1] += f" of the types {', '.join(graph['edge_types'][:8])}"
    classes = graph["classes"]
    if classes:
        most = sorted(classes.items(), key=lambda item: -item[1])[:8]
        sizes = ", ".join(f"{name!r}: {count:,}" for name, count in most)
        more = ", …" if len(classes) > len(most) else ""
        unknown = f"; {graph['unlabelled']:,} unknown" if graph["unlabelled"] else ""
        which = "class" if len(classes) == 1 else "classes"
        parts.append(f"{len(classes):,} {which} ({sizes}{more}{unknown})")
    return ", ".join(parts)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def what_counts(trained: Run) -> list[str]:
    """Which of weights, types and labels the model looks at, and which not."""
    import inspect

    takes = inspect.signature(trained.model.forward).parameters
    name = trained.architecture["name"]
    found = []
    if trained.data.get("edge_type") is not None and "edge_type" not in takes:
        found.append(f"{name} does not look at the types of edges; rgcn does (--model rgcn)")
    weight = trained.data.get("edge_weight")
    if weight is not None and "edge_weight" not in takes:
        found.append(f"{name} does not look at the weights of edges; gcn and gcnii do")
    elif weight is not None:
        low, high = float(weight.min()), float(weight.max())
        found.append(
            f"the weights of edges count, as they are (from {low:g} to {high:g}); to leave them out, "
            "name their column in --ignore"
        )
    if trained.task.name == "link" and trained.dataset.class_names:
        found.append("labels are not used: the task is to predict edges (--task link)")
    return found
