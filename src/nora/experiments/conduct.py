"""Run a recipe: do what its plan still lacks, then write its report as Markdown, JSON and a chart."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from nora import __version__
from nora.experiments import RECIPES, Report
from nora.experiments.lab import Lab
from nora.files import written_atomically
from nora.progress import progress_bar
from nora.results.plots.style import save_figure

# Tables with more rows are for programs.
LONGEST = 200


def conduct(
    name: str,
    lab: Lab,
    out: Path,
    command: str,
    progress: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Carry out one experiment.

    Args:
        name: A name from `nora reproduce --help`.
        lab: Where the work is done and kept.
        out: Folder for `<name>.md`, `<name>.json` and `<name>.png`.
        command: The command that does the same again, for the record.
        progress: Show a progress bar over the whole plan.
        say: Called with a line about every step that had to be done.
    """
    recipe = RECIPES[name].value
    plan = recipe.plan(lab)
    finished = sum(step.done() for step in plan)
    say(f"{name}: {len(plan)} steps, {finished} of them done before")
    with progress_bar(name, len(plan), progress, "{task.fields[metric]}") as advance:
        for step in plan:
            if not step.done():
                advance(0, metric=step.label)
                step.do()
                say(step.label)
            advance(1)
    report = recipe.report(lab)
    write_report(name, report, lab, out, command)
    return report


def write_report(name: str, report: Report, lab: Lab, out: Path, command: str) -> None:
    """Write a report's files; each is complete or not there."""
    about = {
        "command": command,
        "profile": lab.profile.name,
        "cycles": lab.cycles,
        "labelled_share": lab.share,
        "seed": lab.seed,
        "nora": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        **report.facts,
    }
    lines = [f"# {report.title}", "", report.text, ""]
    if report.figure is not None:
        lines += [f"![{report.title}]({name}.png)", ""]
    for heading, table in report.tables:
        shown = (
            markdown(table) if len(table) <= LONGEST else f"{len(table):,} rows: see `{name}.json`."
        )
        lines += [f"## {heading}", "", shown, ""]
    lines += [f"Made by `{command}` (nora {__version__}, profile `{lab.profile.name}`, "]
    lines[-1] += f"{lab.cycles} cycles, {lab.share:.0%} of the nodes labelled, seed {lab.seed})."
    document = {
        "title": report.title,
        "about": about,
        "tables": {heading: _records(table) for heading, table in report.tables},
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    # None takes its place before all are written.
    with ExitStack() as files:
        for ending, content in ((".json", text), (".md", "\n".join(lines))):
            file = files.enter_context(written_atomically(out / f"{name}{ending}"))
            file.write_text(content + "\n", encoding="utf-8")
        if report.figure is not None:
            picture = files.enter_context(written_atomically(out / f"{name}.png"))
            save_figure(report.figure, picture)


def markdown(table: pd.DataFrame) -> str:
    """A frame as a Markdown table; numbers with three digits, unknown ones as a dash.

    >>> print(markdown(pd.DataFrame({"method": ["nora"], "pearson": [0.9]})))
    | method | pearson |
    |---|---:|
    | nora | 0.900 |
    """
    numeric = [kind.kind in "iuf" for kind in table.dtypes]
    rows = [
        "| " + " | ".join(_cell(str(column)) for column in table.columns) + " |",
        "|" + "|".join("---:" if number else "---" for number in numeric) + "|",
    ]
    for row in table.itertuples(index=False):
        rows.append("| " + " | ".join(_cell(value) for value in row) + " |")
    return "\n".join(rows)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        if value != value:
            return "–"
        return f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value).replace("|", "\\|")


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows = json.loads(table.to_json(orient="records", double_precision=6))
    return rows
