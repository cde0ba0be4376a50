"""Run a recipe: do the steps that are not cached, then write its report as Markdown, JSON and chart."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from nora.experiments import RECIPES
from nora.experiments.both_protocols import other_protocol, with_other
from nora.experiments.cache import Step
from nora.experiments.cells import Cell
from nora.experiments.earlier import (
    TAKEN,
    Earlier,
    Taken,
    check_takes_cells,
    read_earlier,
    take_over,
)
from nora.experiments.grid import Working
from nora.experiments.lab import Lab
from nora.experiments.parts import frames_of, joined_rows, rows_of_table
from nora.experiments.recipe import Report
from nora.experiments.table_provenance import provenance, provenance_text
from nora.files import written_atomically
from nora.progress import progress_bar
from nora.registry import nearest
from nora.results.plots.style import save_figure
from nora.wording import duration, fixed


def run_recipe(
    name: str, lab: Lab, out: Path, working: Working | None = None, command: str = ""
) -> Report:
    """Run one experiment.

    Args:
        name: A name from `nora reproduce list`.
        lab: Where the work is done and cached.
        out: Folder for `<name>.md`, `<name>.json` and `<name>.png`.
        working: How it is run.
        command: The command that does the same again, for the record.
    """
    working = working or Working()
    recipe = RECIPES[name].value
    other = None if working.beside is None else other_protocol(name, lab, working.beside)
    files = [read_earlier(name, lab, path) for path in working.earlier]
    whole, taken, missing = lab, Taken(), list[Cell]()
    if working.finished or files:
        whole, lab, taken, missing = _divided(name, lab, files, working.finished)
    if files:
        working.log(f"{name}: {len(taken.cells)} cells are taken over from earlier reports")
    plan = recipe.plan(lab)
    do_steps(name, plan, working)
    report = recipe.report(lab) if not taken.cells else _report_with(name, whole, lab, taken)
    if other is not None:
        report = with_other(report, lab, other)
    if missing:
        names = [str(cell) for cell in missing]
        text = f"{report.text} Not finished, and not counted: {', '.join(names)}."
        report = replace(report, text=text, facts={**report.facts, "missing": names})
    about = {"experiment": name, **provenance(lab, plan, command), **report.facts}
    if taken.cells:
        about[TAKEN] = list(taken.about)
    write_files(name, report, about, out)
    return report


def do_steps(name: str, plan: Sequence[Step[Any]], working: Working) -> None:
    """Do the steps of a plan that are not done, with what is left and about how long after each."""
    waiting = [step for step in plan if not step.done()]
    working.log(f"{name}: {len(plan)} steps, {len(plan) - len(waiting)} of them done before")
    pace: dict[str, list[float]] = {}
    for step in plan:
        if (seconds := step.took()) is not None:
            pace.setdefault(step.kind, []).append(seconds)
    with progress_bar(name, len(waiting), working.progress, "{task.fields[metric]}") as advance:
        for number, step in enumerate(waiting, start=1):
            advance(0, metric=step.label)
            start = time.perf_counter()
            if not step.done():  # another step may have needed it
                step.get()
            seconds = time.perf_counter() - start
            pace.setdefault(step.kind, []).append(seconds)
            left = _left(pace, waiting[number:])
            working.log(f"[{number}/{len(waiting)}] {step.label}: {duration(seconds)}{left}")
            advance(1)


def _left(pace: dict[str, list[float]], steps: Sequence[Step[Any]]) -> str:
    """How many steps are left, and about how long they take, from the seconds of their kinds."""
    if not steps:
        return ""
    known = [fmean(pace[one.kind]) for one in steps if one.kind in pace]
    if not known:
        return f" ({len(steps)} left)"
    least = "at least" if len(known) < len(steps) else "about"
    return f" ({len(steps)} left, {least} {duration(sum(known))})"


def _divided(
    name: str, lab: Lab, files: Sequence[Earlier], finished: bool
) -> tuple[Lab, Lab, Taken, list[Cell]]:
    """Divide the cells into new ones and those taken from earlier reports.

    Args:
        name: The recipe.
        lab: With all cells that are asked for.
        files: Earlier reports.
        finished: No cell is to be worked on.

    Returns:
        The lab with all cells of the report; that with the cells that come from the cache; cells of earlier
        reports; and the cells that neither has, where no cell is to be worked on.
    """
    _check_cell_by_cell(name)
    plan = RECIPES[name].value.plan
    done = [
        cell for cell in lab.cells if all(step.done() for step in plan(replace(lab, only=(cell,))))
    ]
    taken = take_over([cell for cell in lab.cells if cell not in done], files)
    missing = [cell for cell in lab.cells if cell not in (*done, *taken.cells)]
    if not finished:
        done, missing = [*done, *missing], []
    elif not done and not taken.cells:
        also = ", or in the earlier reports" if files else ""
        raise ValueError(f"none of {len(lab.cells)} cells is finished in {lab.cache}{also}")
    whole = replace(lab, only=(*done, *taken.cells))
    return whole, replace(lab, only=tuple(done)), taken, missing


def only_cells(name: str, lab: Lab, names: Sequence[str]) -> Lab:
    """The same with some cells alone, by their names."""
    _check_cell_by_cell(name)
    known = {str(cell): cell for cell in lab.cells}
    for one in names:
        if one not in known:
            raise ValueError(
                f"there is no cell {one!r} here.{nearest(one, list(known))} A cell is named by its "
                "dataset, model and task, all of which must be asked for"
            )
    return replace(lab, only=tuple(known[one] for one in names))


def _check_cell_by_cell(name: str) -> None:
    if not RECIPES[name].facts.cell_by_cell:
        raise ValueError(
            f"{name} puts cells together, so it cannot report some of them; name those that are "
            "finished with --datasets, --models and --tasks"
        )


def _report_with(name: str, whole: Lab, own: Lab, taken: Taken) -> Report:
    """The report of all cells: those of a lab, and those of earlier reports."""
    recipe, parts = RECIPES[name].value, check_takes_cells(name)(whole)
    several = [*([frames_of(own, parts)] if own.cells else []), *taken.frames]
    return recipe.report(whole, joined_rows(several, parts, whole.cells))


def write_files(name: str, report: Report, about: dict[str, Any], out: Path) -> None:
    """Write a report's files; each is complete or not there."""
    lines = [f"# {report.title}", "", report.text, ""]
    if report.figure is not None:
        lines += [f"![{report.title}]({name}.png)", ""]
    for heading, table in report.tables:
        lines += [f"## {heading}", "", markdown(table), ""]
    for heading, table in report.raw:
        lines += [f"{heading}: {len(table):,} rows in `{name}.json`.", ""]
    lines.append(provenance_text(about))
    document = {
        "title": report.title,
        "about": about,
        "tables": {
            heading: rows_of_table(table) for heading, table in (*report.tables, *report.raw)
        },
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
    rows: list[Any] = [table.columns, *table.itertuples(index=False)]
    lines = [
        "| " + " | ".join(fixed(one).replace("|", "\\|") for one in row) + " |" for row in rows
    ]
    numeric = (kind.kind in "iuf" for kind in table.dtypes)
    lines.insert(1, "|" + "|".join("---:" if number else "---" for number in numeric) + "|")
    return "\n".join(lines)
