"""A task as arrays and JSON, and back."""

from __future__ import annotations

from typing import Any

from nora.graph.graph_arrays import Give, Keep
from nora.model.return_types import DefaultReturnType
from nora.model.task import Task
from nora.model.tasks.link_prediction import LinkPrediction
from nora.model.tasks.node_classification import NodeClassification
from nora.model.tasks.node_regression import NodeRegression

_FIELDS = {
    NodeClassification: ("classes", "node_type", "mode"),
    NodeRegression: ("node_type",),
    LinkPrediction: ("node_types",),
}


def task_document(task: Task, keep: Keep) -> dict[str, Any] | None:
    """A task as JSON; None if it contains code, such as a decoder."""
    kind = type(task)
    if kind not in _FIELDS:
        return None
    values = {name: _listed(getattr(task, name)) for name in _FIELDS[kind]}
    return_type = getattr(task, "return_type", None)
    if return_type is not None and not isinstance(return_type, DefaultReturnType):
        values["return_type"] = str(return_type)
    if isinstance(task, LinkPrediction):
        if not task.leaves_decoder_open:
            return None
        values["pairs"] = keep(task.pairs)
        values["relation"] = None if task.relation is None else keep(task.relation)
    return {"kind": kind.__name__, **values}


def task_of(document: dict[str, Any], give: Give) -> Task:
    """The task that `task_document` described."""
    values = {key: value for key, value in document.items() if key != "kind"}
    for name in ("classes", "node_types"):
        if values.get(name) is not None:
            values[name] = tuple(values[name])
    for name in ("pairs", "relation"):
        if values.get(name) is not None:
            values[name] = give(values[name])
    kinds = {kind.__name__: kind for kind in _FIELDS}
    found: Task = kinds[document["kind"]](**values)
    return found


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value
