"""NORA: had this node been gone, how would everybody else's prediction change?

    import nora

    scores = nora.influence(model, data)           # every node's influence
    effect = nora.what_if(model, data, remove=17)  # who changes, by how much, to which class

Names are imported on first use, so that `import nora` and `nora --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nora.api import influence, what_if
    from nora.certified import Top, top
    from nora.datasets import load_dataset
    from nora.evaluation import evaluate
    from nora.explain import NoraExplainer
    from nora.export import to_networkx
    from nora.group import Group, best_group
    from nora.incremental import rule
    from nora.ingest import read_graph
    from nora.models import build_model
    from nora.relations import influence_matrix, influencers
    from nora.report.page import write_report
    from nora.result import Effect, Influence
    from nora.runs import Run, load_run
    from nora.shards import merge_checkpoints
    from nora.task import LinkPrediction, NodeClassification
    from nora.training import train
    from nora.tuning import Tuned, tune

__version__ = "0.1.0"

_HOME = {
    "influence": "api",
    "top": "certified",
    "Top": "certified",
    "what_if": "api",
    "best_group": "group",
    "Group": "group",
    "influence_matrix": "relations",
    "influencers": "relations",
    "NodeClassification": "task",
    "LinkPrediction": "task",
    "Influence": "result",
    "Effect": "result",
    "to_networkx": "export",
    "read_graph": "ingest",
    "NoraExplainer": "explain",
    "load_dataset": "datasets",
    "build_model": "models",
    "train": "training",
    "tune": "tuning",
    "Tuned": "tuning",
    "evaluate": "evaluation",
    "Run": "runs",
    "load_run": "runs",
    "merge_checkpoints": "shards",
    "rule": "incremental",
    "write_report": "report.page",
}

__all__ = [
    "Effect",
    "Group",
    "Influence",
    "LinkPrediction",
    "NodeClassification",
    "NoraExplainer",
    "Run",
    "Top",
    "Tuned",
    "best_group",
    "build_model",
    "evaluate",
    "influence",
    "influence_matrix",
    "influencers",
    "load_dataset",
    "load_run",
    "merge_checkpoints",
    "read_graph",
    "rule",
    "to_networkx",
    "top",
    "train",
    "tune",
    "what_if",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"nora.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'nora' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
