"""The one place where an analysis asks about its model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nora.report.page import write_report

if TYPE_CHECKING:
    from nora.analysis.result import Analysis


def write_page(analysis: Analysis, path: Path, folder: Path, progress: bool) -> None:
    """Write the report that is to be found in `folder`."""
    run, dataset = analysis.run, analysis.run.dataset
    write_report(
        path,
        run.model,
        run.data,
        (analysis.scores, *analysis.others),
        run.task,
        names=analysis.scores.names,
        class_names=dataset.class_names,
        labels=dataset.data.y if run.task.name == "node" else None,
        title=page_title(folder),
        metrics=run.metrics,
        trust=analysis.trust,
        notes=analysis.notes,
        warnings=analysis.warnings,
        seed=run.seed,
        graph=dataset.data,
        model_name=run.architecture["name"],
        run=str(folder / "run"),
        session=analysis.session,
        stability=analysis.stability,
        progress=progress,
    )


def page_title(folder: Path) -> str | None:
    """What the data are called, by the folder's name where that says something.

    >>> page_title(Path("trade-influence")), page_title(Path("results"))
    ('trade', None)
    """
    name = folder.absolute().name.removesuffix("-influence")
    if name.lower() in ("edges", "graph", "nora", "out", "output", "result", "results"):
        return None
    return name
