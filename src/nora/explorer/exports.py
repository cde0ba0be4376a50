"""What can be taken along: the changes as CSV, the state as Python, the graph after it as a report."""

from __future__ import annotations

import copy
import io
import tempfile
from pathlib import Path

import torch

from nora.explorer.changes import Key, as_edits
from nora.explorer.network import Network
from nora.problem.tasks.node_classification import NodeClassification
from nora.results.effect import Effect
from nora.results.spreadsheet import write_csv


def as_csv(effect: Effect, network: Network) -> str:
    """Every changed prediction, one row each, the largest change first; classes by name."""
    frame = effect.to_frame()
    frame = frame[frame["change"] > 0].sort_values("change", ascending=False, kind="stable")
    if network.names is not None and effect.names is None and "node" in frame:
        ids = frame["node"].tolist()
        if "type" in frame:
            ids = [network.position(one) for one in zip(frame["type"], ids, strict=True)]
        frame.insert(1, "name", [network.names[node] for node in ids])
    for column in ("from_class", "to_class"):
        if column in frame:
            frame[column] = [network.class_names[k] for k in frame[column]]
    text = io.StringIO()
    write_csv(frame, text)
    return text.getvalue()


def as_python(changes: Key, network: Network) -> str:
    """A program that asks the same; it prints the total that the page shows."""
    lines = ["import nora", ""]
    if network.run is not None:
        lines += [
            f"run = nora.load_run({network.run!r})",
            "session = run.session()",
            "data = run.data",
        ]
    elif network.session.task == NodeClassification():
        lines += [
            "# model and data as they were given to nora.explore",
            "session = nora.Session(model, data)",
        ]
    else:
        lines += [
            "# model, data and task as they were given to nora.explore",
            "session = nora.Session(model, data, task)",
        ]
    rows = [one for one in changes if one.kind == "set"]
    if rows:
        lines += ["", "features = {}"]
        for one in rows:
            node = network.named(one.nodes[0])
            row = (
                f"data[{node[0]!r}].x[{node[1]}]" if isinstance(node, tuple) else f"data.x[{node}]"
            )
            lines += [
                f"features.setdefault({node!r}, {row}.clone())[{one.feature}] = {one.value!r}"
            ]
    lines += ["", "edits = nora.Edits("]
    made = as_edits(changes, network.session)
    for field in ("remove", "remove_edges", "add_edges"):
        own = getattr(made, field)
        lines += [f"    {field}={own!r},"] if own else []
    lines += ["    features=features,"] if rows else []
    lines += [
        ")",
        "effect = session.what_if(edits)",
        "print(effect.total)",
        "print(effect.flips())",
    ]
    return "\n".join(lines) + "\n"


def as_report(changes: Key, network: Network, told: str) -> bytes:
    """`report.html` of the graph as it is after the edits, ranked anew.

    Args:
        changes: The edits; none for the graph as it is.
        network: What is explored.
        told: The edits and their effect in words.
    """
    from nora.questions.session import Session
    from nora.report.page import write_report

    session = network.session
    if session.problem().by_id:
        raise ValueError(
            "this model has weights of its own for every node, so that it cannot be asked about a graph "
            "with other nodes: the report of an edited graph is not to be had"
        )
    if session.node_index.types:
        raise ValueError(
            "the report draws one kind of node: it is not to be had of a graph with node types"
        )
    if changes and session.task.name != "node":
        raise ValueError("a report of an edited graph is made for node tasks only")
    # Of its own, so that questions go on meanwhile.
    model, task = copy.deepcopy(session.model), session.task
    data = network.data
    gone = {one.nodes[0] for one in changes if one.kind == "remove"}
    if changes:
        data = as_edits(changes, session).apply(data)
    kept = [node for node in range(network.num_nodes) if node not in gone]
    given = session._given  # the forward and transform that it was made with
    asked = Session(model, data, task, forward=given.forward, transform=given.transform, once=True)
    scores = asked.influence(progress=False)
    labels = None if network.labels is None else torch.from_numpy(network.labels[kept])
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(
            Path(folder) / "report.html",
            model,
            data,
            scores,
            task,
            names=None if network.names is None else [network.names[node] for node in kept],
            class_names=network.class_names or None,
            labels=labels,
            title=network.title or None,
            notes=[told] if told else (),
            warnings=[told] if changes and told else (),
            session=asked,
            progress=False,
        )
        return page.read_bytes()
