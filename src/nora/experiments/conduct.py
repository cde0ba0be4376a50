"""Run a recipe: do what its plan still lacks, then write its report as Markdown, JSON and a chart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from nora.experiments import RECIPES, Report
from nora.experiments.cells import Cell
from nora.experiments.lab import Lab, Step
from nora.experiments.provenance import provenance, seconds_of, told
from nora.files import written_atomically
from nora.progress import progress_bar
from nora.results.plots.style import save_figure
from nora.wording import duration, fixed


def conduct(
    name: str,
    lab: Lab,
    out: Path,
    command: str,
    progress: bool = True,
    say: Callable[[str], None] = lambda _: None,
    finished: bool = False,
) -> Report:
    """Carry out one experiment.

    Args:
        name: A name from `nora reproduce --help`.
        lab: Where the work is done and kept.
        out: Folder for `<name>.md`, `<name>.json` and `<name>.png`.
        command: The command that does the same again, for the record.
        progress: Show a progress bar over the whole plan.
        say: Called with a line about every step that had to be done, and what is left.
        finished: Do nothing, and tell of the cells that are finished.
    """
    recipe = RECIPES[name].value
    missing: list[Cell] = []
    if finished:
        lab, missing = only_finished(name, lab)
    plan = recipe.plan(lab)
    waiting = [step for step in plan if not step.done()]
    say(f"{name}: {len(plan)} steps, {len(plan) - len(waiting)} of them done before")
    pace = Pace(plan)
    with progress_bar(name, len(waiting), progress, "{task.fields[metric]}") as advance:
        for number, step in enumerate(waiting, start=1):
            advance(0, metric=step.label)
            start = time.perf_counter()
            if not step.done():  # another step may have needed it
                step.do()
            seconds = time.perf_counter() - start
            left = pace.after(step, seconds, waiting[number:])
            say(f"[{number}/{len(waiting)}] {step.label}: {duration(seconds)}{left}")
            advance(1)
    report = recipe.report(lab)
    if missing:
        names = ", ".join(str(cell) for cell in missing)
        text = f"{report.text} Not finished, and not counted: {names}."
        facts = {**report.facts, "missing": [str(cell) for cell in missing]}
        report = replace(report, text=text, facts=facts)
    about = {**provenance(lab, plan, command), **report.facts}
    write_report(name, report, about, out)
    return report


def only_finished(name: str, lab: Lab) -> tuple[Lab, list[Cell]]:
    """The same with finished cells alone, and the cells that are not."""
    if not RECIPES[name].facts.cell_by_cell:
        raise ValueError(
            f"{name} puts cells together, so it cannot tell of some of them; name those that are "
            "finished with --datasets, --models and --tasks"
        )
    plan = RECIPES[name].value.plan
    done = [
        cell for cell in lab.cells if all(step.done() for step in plan(replace(lab, only=(cell,))))
    ]
    if not done:
        raise ValueError(f"none of {len(lab.cells)} cells is finished in {lab.cache}")
    return replace(lab, only=tuple(done)), [cell for cell in lab.cells if cell not in done]


class Pace:
    """How long steps take, by their kind: from those found done, and those done since."""

    def __init__(self, plan: Sequence[Step]) -> None:
        self._seconds: dict[str, list[float]] = {}
        for step in plan:
            if (seconds := seconds_of(step.path)) is not None:
                self._seconds.setdefault(step.kind, []).append(seconds)

    def after(self, step: Step, seconds: float, left: Sequence[Step]) -> str:
        """What is left after a step: how many, and about how long."""
        self._seconds.setdefault(step.kind, []).append(seconds)
        if not left:
            return ""
        known = [fmean(self._seconds[one.kind]) for one in left if one.kind in self._seconds]
        least = "at least" if len(known) < len(left) else "about"
        return f" ({len(left)} left, {least} {duration(sum(known))})"


def write_report(name: str, report: Report, about: dict[str, Any], out: Path) -> None:
    """Write a report's files; each is complete or not there."""
    lines = [f"# {report.title}", "", report.text, ""]
    if report.figure is not None:
        lines += [f"![{report.title}]({name}.png)", ""]
    for heading, table in report.tables:
        lines += [f"## {heading}", "", markdown(table), ""]
    for heading, table in report.raw:
        lines += [f"{heading}: {len(table):,} rows in `{name}.json`.", ""]
    lines.append(told(about))
    document = {
        "title": report.title,
        "about": about,
        "tables": {heading: _records(table) for heading, table in (*report.tables, *report.raw)},
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
        for ending, write in report.files.items():
            write(files.enter_context(written_atomically(out / f"{name}{ending}")), about)


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
    return fixed(value).replace("|", "\\|")


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows = json.loads(table.to_json(orient="records", double_precision=6))
    return rows
