"""Writing the folder of results: tables, graph files, a page to show, and how it all came about."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import pandas as pd

from nora import __version__
from nora.analysis.graph_in_pieces import IN_ONE_PIECE, write_graphml_in_pieces
from nora.analysis.output_folder import ABOUT, MADE_BY
from nora.analysis.result_tables import changes_table, effect_file, predictions, scores_table
from nora.analysis.stages import Stages
from nora.files import folder_written_atomically
from nora.graph.degrees import degrees
from nora.progress import Advance
from nora.report.page import write_page
from nora.results.exactness import method_name
from nora.results.export import to_networkx, write_graph
from nora.results.influence import Influence
from nora.results.plots.style import save_figure
from nora.results.spreadsheet import write_csv
from nora.results.tables import write_table
from nora.strict_json import json_text

if TYPE_CHECKING:
    from nora.analysis.result import Analysis


def write_results(analysis: Analysis, folder: Path, progress: bool) -> None:
    """Write everything into `folder`, which is there complete or not at all."""
    stages = Stages(
        progress, dict(analysis.seconds), dict(analysis.memory), dict(analysis.computing)
    )
    run, scores, dataset = analysis.run, analysis.scores, analysis.run.dataset
    with folder_written_atomically(folder, replace=folder.exists()) as new:
        with stages.shown("writing tables and graph", 5 + len(analysis.effects)) as advance:
            run.save(new / "run")
            advance(1)
            table = scores_table(analysis, dict(enumerate(degrees(dataset.data).tolist())))
            for name in ("scores.parquet", "scores.csv"):
                write_table(table, scores.provenance(), new / name)
                advance(1)
            (new / "effects").mkdir()
            for rank, effect in enumerate(analysis.effects, start=1):
                name = effect_file(rank, scores.names or (), effect.removed[0])
                write_csv(changes_table(effect, dataset.class_names), new / "effects" / name)
                advance(1)
            if analysis.stability is not None:
                write_csv(analysis.stability.models(), new / "models.csv")
                write_csv(analysis.stability.agreement(), new / "agreement.csv")
                save_figure(analysis.stability.plot(), new / "stability.png")
            _write_graph(analysis, table, new, advance)
        with stages.measured("writing the report"):
            options = analysis.report_options(folder)
            assert analysis.subject is not None
            write_page(new / "report.html", analysis.subject, options, progress)
        text = json_text(describe(analysis, stages))
        (new / ABOUT).write_text(text + "\n", encoding="utf-8")


def _write_graph(analysis: Analysis, table: pd.DataFrame, new: Path, advance: Advance) -> None:
    """The graph with its scores: by NetworkX, or piece by piece where that would take too much."""
    scores, dataset = analysis.scores, analysis.run.dataset
    if dataset.data.num_edges > IN_ONE_PIECE:
        types = dataset.edge_type_names
        write_graphml_in_pieces(dataset.data, table, types, new / "graph.graphml")
        advance(2)
        return
    graph = to_networkx(
        dataset.data,
        scores,
        predictions=predictions(analysis),
        names=scores.names,
        class_names=dataset.class_names,
    )
    graph = _named(graph, scores.names or (), dataset.edge_type_names)
    for name in ("graph.graphml", "graph.gexf"):
        write_graph(graph, new / name)
        advance(1)


def describe(analysis: Analysis, stages: Stages) -> dict[str, Any]:
    """The content of `run.json`."""
    trust, scores, options = analysis.trust, analysis.scores, analysis.options
    return {
        "made_by": MADE_BY,
        "versions": versions(),
        "seed": analysis.run.seed,
        "options": {**options, "ignore": ",".join(options["ignore"]) or None},
        "inputs": analysis.inputs,
        "graph": asdict(analysis.graph),
        "architecture": analysis.run.architecture,
        "notes": analysis.notes,
        "warnings": analysis.warnings,
        "metrics": analysis.run.metrics,
        "trust": {
            "metric": trust.metric,
            "test": trust.value,
            "baseline": trust.baseline,
            "yardstick": trust.yardstick,
            "tested": trust.tested,
            "weak": trust.weak,
            "reason": trust.reason,
            "accuracy": trust.accuracy,
            "balanced_accuracy": trust.balanced_accuracy,
            "recalls": [asdict(one) for one in trust.recalls],
        },
        "stability": _stability(analysis),
        "method": _method(scores),
        "also": [_method(other) for other in analysis.others],
        "seconds": stages.seconds,
        "computing_seconds": stages.computing,
        "peak_bytes": stages.memory,
    }


def _stability(analysis: Analysis) -> dict[str, Any] | None:
    found = analysis.stability
    if found is None:
        return None
    pairs = found.agreement()
    return {
        "verdict": found.verdict,
        "finding": found.finding,
        "first": found.k,
        "models": [asdict(member) for member in found.members],
        "spearman": float(pairs["spearman"].mean()),
        "shared": float(pairs["shared"].mean()),
    }


def _method(scores: Influence) -> dict[str, Any]:
    return {
        "name": scores.method,
        "called": method_name(scores),
        "options": scores.options,
        "seconds": scores.seconds,
        "details": scores.details,
    }


def _named(graph: Any, names: tuple[str, ...], types: tuple[str, ...] | None) -> Any:
    """The graph with the user's ids for its nodes, and names for the types of its edges."""
    if types:
        for *_, attributes in graph.edges(data=True):
            # Several, where edges of different types join the same two nodes.
            parts = str(attributes.get("type", "")).split(", ")
            attributes["type"] = ", ".join(types[int(part)] for part in parts if part)
    return nx.relabel_nodes(graph, dict(enumerate(names))) if names else graph


def versions() -> dict[str, str]:
    """Of everything that can change a number."""
    packages = ("torch", "torch_geometric", "numpy", "scipy", "pandas", "networkx")
    return {
        "nora": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
