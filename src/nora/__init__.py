"""NORA: without this node, how would every other prediction change?

    import nora

    scores = nora.influence(model, data)           # every node's influence
    effect = nora.what_if(model, data, remove=17)  # who changes, by how much, to which class

Names are imported on first use, so that `import nora` and `nora --help` stay quick. Where torch is not loaded
yet, `import nora` sets `OMP_WAIT_POLICY=PASSIVE` unless it is set: docs/troubleshooting.md says why.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

# Read when torch is loaded: its threads wait for each other by spinning otherwise, and where other programs
# use a core, too, nearly all time goes into that (ten times as long, measured).
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from nora.analysis import Analysis, analyse
    from nora.analysis.reporting import write_report
    from nora.datasets import load_dataset
    from nora.engine import rule
    from nora.explorer.explore import explore
    from nora.graph.edits import Edits
    from nora.ingest import read_graph
    from nora.model.tasks.link_prediction import LinkPrediction
    from nora.model.tasks.node_classification import NodeClassification
    from nora.model.tasks.node_regression import NodeRegression
    from nora.models import build_model
    from nora.questions.edge_influence import edge_influence
    from nora.questions.explain_engine import EngineReport, explain_engine
    from nora.questions.explainer import NoraExplainer
    from nora.questions.flip import flip
    from nora.questions.fragile import fragile
    from nora.questions.group import best_group
    from nora.questions.influence import influence
    from nora.questions.live import Live
    from nora.questions.pairwise import influence_matrix, influencers
    from nora.questions.prepare import prepare
    from nora.questions.ray_cluster import RayCluster
    from nora.questions.session import Session
    from nora.questions.top import top
    from nora.questions.what_if import what_if
    from nora.results.agreement import evaluate
    from nora.results.checkpoint import merge_checkpoints
    from nora.results.edge_influence import EdgeInfluence
    from nora.results.effect import Effect
    from nora.results.export import to_networkx
    from nora.results.flip import Flip
    from nora.results.fragile import Fragile
    from nora.results.group import Group
    from nora.results.influence import Influence
    from nora.results.top import Top
    from nora.training.runs import Run, load_run
    from nora.training.train import train
    from nora.tuning.tune import Tuned, tune

__version__ = "0.2.0"

_HOME = {
    "influence": "questions.influence",
    "edge_influence": "questions.edge_influence",
    "explain_engine": "questions.explain_engine",
    "EngineReport": "questions.explain_engine",
    "EdgeInfluence": "results.edge_influence",
    "top": "questions.top",
    "Top": "results.top",
    "what_if": "questions.what_if",
    "flip": "questions.flip",
    "Flip": "results.flip",
    "fragile": "questions.fragile",
    "Fragile": "results.fragile",
    "Live": "questions.live",
    "best_group": "questions.group",
    "Group": "results.group",
    "influence_matrix": "questions.pairwise",
    "influencers": "questions.pairwise",
    "NodeClassification": "model.tasks.node_classification",
    "NodeRegression": "model.tasks.node_regression",
    "LinkPrediction": "model.tasks.link_prediction",
    "Influence": "results.influence",
    "Effect": "results.effect",
    "to_networkx": "results.export",
    "read_graph": "ingest",
    "NoraExplainer": "questions.explainer",
    "load_dataset": "datasets",
    "build_model": "models",
    "train": "training.train",
    "tune": "tuning.tune",
    "Tuned": "tuning.tune",
    "evaluate": "results.agreement",
    "Run": "training.runs",
    "load_run": "training.runs",
    "merge_checkpoints": "results.checkpoint",
    "rule": "engine",
    "Edits": "graph.edits",
    "Session": "questions.session",
    "prepare": "questions.prepare",
    "RayCluster": "questions.ray_cluster",
    "write_report": "analysis.reporting",
    "explore": "explorer.explore",
    "analyse": "analysis",
    "Analysis": "analysis",
}

__all__ = [
    "Analysis",
    "EdgeInfluence",
    "Edits",
    "Effect",
    "EngineReport",
    "Flip",
    "Fragile",
    "Group",
    "Influence",
    "LinkPrediction",
    "Live",
    "NodeClassification",
    "NodeRegression",
    "NoraExplainer",
    "RayCluster",
    "Run",
    "Session",
    "Top",
    "Tuned",
    "analyse",
    "best_group",
    "build_model",
    "edge_influence",
    "evaluate",
    "explain_engine",
    "explore",
    "flip",
    "fragile",
    "influence",
    "influence_matrix",
    "influencers",
    "load_dataset",
    "load_run",
    "merge_checkpoints",
    "prepare",
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
    return sorted(__all__)
