"""Exports: the changes as CSV, the edits as a Python program, a report of the edited graph."""

from __future__ import annotations

import copy
import io
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from nora.explorer.network import Network
from nora.explorer.page_edits import PageEdits, as_edits
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


def as_python(edits: PageEdits, network: Network) -> str:
    """A program that asks the same; it prints the total that the page shows.

    Of a model that only the caller has it is a function of that model.
    """
    question = _question(edits, network)
    if network.origin.program:
        counted = session.problem().targets if (session := network.session).restricted else None
        targets = "" if counted is None else f"targets={counted.nonzero().flatten().tolist()}"
        lines = [*network.origin.program, f"session = run.session({targets})", "data = run.data"]
        lines += [*question, "print(effect.total)", "print(effect.flips())"]
        return "\n".join(lines) + "\n"
    lines = [
        "import nora",
        "",
        "",
        "def ask(model, data, task=None, **given):",
        '    """The effect of these edits; the arguments are those of nora.explore."""',
        "    session = nora.Session(model, data, task, **given)",
        *(f"    {line}" if line else "" for line in question),
        "    return effect",
        "",
        "",
        'if __name__ == "__main__":',
        '    print("This model is in no file: from what_if import ask; ask(model, data).total")',
    ]
    return "\n".join(lines) + "\n"


def _question(edits: PageEdits, network: Network) -> list[str]:
    """Lines that make `effect` from `session` and `data`: nodes by name where the session knows names."""
    names = _unique(network) if network.origin.program else {}
    # Names that the program cannot use become comments.
    comments = {} if names or network.names is None else dict(enumerate(network.names))

    def node(given: Any) -> str:
        return repr(names.get(given, given))

    def edge(given: Any) -> str:
        ends = ", ".join(map(node, given[:2]))
        return f"({ends}, {given[2]!r})" if len(given) > 2 else f"({ends})"

    lines = []
    rows = [one for one in edits if one.kind == "set"]
    if rows:
        lines += ["", "features = {}"]
    for one in rows:
        at = network.named(one.nodes[0])
        x = f"data[{at[0]!r}].x[{at[1]}]" if isinstance(at, tuple) else f"data.x[{at}]"
        named = network.feature_names[one.feature : one.feature + 1]
        comment = f"  # {named[0]!r}" if named else ""
        row = f"features.setdefault({node(at)}, {x}.clone())"
        lines += [f"{row}[{one.feature}] = {one.value!r}{comment}"]
    made = as_edits(edits, network.session)
    lines += ["", "edits = nora.Edits("]
    if made.remove:
        lines += ["    remove=["]
        for one in made.remove:
            called = comments.get(network.position(one))
            lines += [f"        {node(one)}," + (f"  # {called!r}" if called is not None else "")]
        lines += ["    ],"]
    for field in ("remove_edges", "add_edges"):
        own = getattr(made, field)
        if isinstance(own, Mapping):  # with edge types: by id
            lines += [f"    {field}={own!r},"] if own else []
        elif own:
            lines += [f"    {field}=[{', '.join(map(edge, own))}],"]
    lines += ["    features=features,"] if rows else []
    return [*lines, ")", "effect = session.what_if(edits)"]


def _unique(network: Network) -> dict[Any, str]:
    """Names by which a session knows its nodes, by id: those that no two nodes share."""
    names = network.session.names
    if names is None:
        return {}
    counts = Counter(names)
    return {node: name for node, name in enumerate(names) if counts[name] == 1}


def as_report(edits: PageEdits, network: Network, text: str) -> bytes:
    """`report.html` of the graph as it is after the edits, ranked again.

    Args:
        edits: The edits; none for the graph as it is.
        network: What is explored.
        text: The edits and their effect in words.
    """
    from nora.analysis.reporting import write_report
    from nora.questions.session import Session

    session = network.session
    if session.problem().by_id:
        raise ValueError(
            "this model has weights for every node id, so it cannot predict on a graph with other nodes: "
            "there is no report of an edited graph"
        )
    if session.node_index.types:
        raise ValueError(
            "the report draws one kind of node: there is none of a graph with node types"
        )
    if edits and session.task.name != "node":
        raise ValueError("a report of an edited graph is made for node tasks only")
    # Copies, so that questions go on meanwhile.
    model, task = copy.deepcopy(session.model), session.task
    data = network.data
    removed = {one.nodes[0] for one in edits if one.kind == "remove"}
    if edits:
        data = as_edits(edits, session).apply(data)
    kept = [node for node in range(network.num_nodes) if node not in removed]
    given = session._given  # the forward and transform that it was made with
    targets = torch.from_numpy(network.counted[kept]) if network.counted is not None else None
    asked = Session(
        model,
        data,
        task,
        forward=given.forward,
        transform=given.transform,
        targets=targets,
        once=True,
    )
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
            notes=[text] if text else (),
            warnings=[text] if edits and text else (),
            session=asked,
            progress=False,
        )
        return page.read_bytes()
