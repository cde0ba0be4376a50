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
from nora.experiments.both_protocols import other_protocol, with_other
from nora.experiments.cells import Cell
from nora.experiments.earlier import TAKEN, Earlier, Taken, from_parts, read_earlier, take_over
from nora.experiments.lab import Lab, Step
from nora.experiments.parts import frames_of, joined, records
from nora.experiments.provenance import provenance, seconds_of, told
from nora.files import written_atomically
from nora.progress import progress_bar
from nora.registry import nearest
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
    earlier: Sequence[Path] = (),
    beside: Path | None = None,
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
        earlier: JSON files of earlier reports: their cells count as finished. What lies in the cache
            comes first, then the files in their order.
        beside: The JSON file of the report made with the other protocol, to stand beside this one.
    """
    recipe = RECIPES[name].value
    other = None if beside is None else other_protocol(name, lab, beside)
    files = [read_earlier(name, lab, path) for path in earlier]
    whole, taken, missing = lab, Taken(), list[Cell]()
    if finished or files:
        whole, lab, taken, missing = divided(name, lab, files, finished)
    if files:
        say(f"{name}: {len(taken.cells)} cells are taken over from earlier reports")
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
    report = recipe.report(lab) if not taken.cells else _report_with(name, whole, lab, taken)
    if other is not None:
        report = with_other(report, lab, other)
    if missing:
        names = ", ".join(str(cell) for cell in missing)
        text = f"{report.text} Not finished, and not counted: {names}."
        facts = {**report.facts, "missing": [str(cell) for cell in missing]}
        report = replace(report, text=text, facts=facts)
    about = {"experiment": name, **provenance(lab, recipe.plan(lab), command), **report.facts}
    if taken.cells:
        about[TAKEN] = list(taken.about)
    write_report(name, report, about, out)
    return report


def divided(
    name: str, lab: Lab, files: Sequence[Earlier], finished: bool
) -> tuple[Lab, Lab, Taken, list[Cell]]:
    """Who tells of which cells.

    Args:
        name: The recipe.
        lab: With all cells that are asked for.
        files: Earlier reports.
        finished: No cell is to be worked on.

    Returns:
        The same with all cells that the report tells of; with those that come from the cache alone; cells of
        earlier reports; and the cells that neither has, where no cell is to be worked on.
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
        also = ", or in what was written earlier" if files else ""
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
            f"{name} puts cells together, so it cannot tell of some of them; name those that are "
            "finished with --datasets, --models and --tasks"
        )


def _report_with(name: str, whole: Lab, own: Lab, taken: Taken) -> Report:
    """The report of all cells: those of a lab, and those of earlier reports."""
    recipe = from_parts(name)
    parts = recipe.parts(whole)
    several = [*([frames_of(own, parts)] if own.cells else []), *taken.frames]
    return recipe.report_from(whole, joined(several, parts, whole.cells))


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
        if not known:
            return f" ({len(left)} left)"
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
        "tables": {heading: records(table) for heading, table in (*report.tables, *report.raw)},
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
