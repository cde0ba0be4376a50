"""Sample reports beside the page that links to them, made again with every build."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

SAMPLES = {
    "polarised": ("polarised", "node"),
    "karate": ("karate", "node"),
    "karate-links": ("karate", "link"),
}


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", add_reports)
    return {"parallel_read_safe": True}


def add_reports(app: Any, error: Exception | None) -> None:
    """Write them into the site, if a site is built."""
    if error is None and app.builder.format == "html":
        write_reports(Path(app.outdir) / "docs" / "gallery")


def write_reports(folder: Path) -> None:
    """One report per sample."""
    import nora

    folder.mkdir(parents=True, exist_ok=True)
    for name, (dataset, task) in SAMPLES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of models trained in a second
            run = nora.train("gcn", dataset, task=task, epochs=60, progress=False)
        scores = run.influence(progress=False)
        nora.write_report(
            folder / f"{name}.html",
            run.model,
            run.data,
            scores,
            run.task,
            class_names=run.dataset.class_names,
        )
