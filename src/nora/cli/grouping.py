"""`nora group`."""

from __future__ import annotations

from typing import Annotated

import typer

from nora.cli.answer import AnswerOptions, asked
from nora.cli.display import records
from nora.cli.parameters import MeasureName, RunFolder, TargetOptions
from nora.wording import duration


def group(
    run: RunFolder,
    size: Annotated[int, typer.Option(min=1, metavar="N", help="How many nodes.")] = 10,
    candidates: Annotated[
        list[str] | None,
        typer.Option(metavar="IDS", help="Choose among these: ids or names, separated by commas."),
    ] = None,
    counting: TargetOptions = TargetOptions(),
    measure: MeasureName = "change",
    recheck: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="How many others to try before a node is accepted."),
    ] = 5,
    answer: AnswerOptions = AnswerOptions(),
) -> None:
    """Find the nodes that change the other predictions most when they are removed together.

    Lazy greedy search on exact effects: the most influential node first, then the one that adds most
    to it, and so on. Together, these nodes change the predictions at least as much as the most influential
    nodes do together. A better group may exist.

    \b
    Example:
      nora group runs/cora-gcn --size 10
      nora group runs/cora-gcn --size 5 --targets 3,4,5 --out group.csv
      nora group runs/cora-gcn --size 5 --measure flips
    """
    answer.check(run)
    given = asked(run, counting)
    found = given.session.best_group(
        size,
        measure=measure,
        candidates=None if candidates is None else given.nodes(*candidates),
        recheck=recheck,
    )
    table = found.to_frame()
    keys = ("task", "measure", "nodes", "total", "alone", "chosen_by", "evaluations", "seconds")
    document = {"run": str(run), **{key: getattr(found, key) for key in keys}}
    changed = "change" if measure == "change" else f"change {measure} of"
    answer.give(
        found,
        {**document, "group": records(table)},
        table,
        f"Together these {len(found)} {changed} the others by {found.total:.4f}; the {len(found)} most "
        f"influential by themselves, together, by {found.alone:.4f}",
        f"{found.evaluations:,} removals computed in {duration(found.seconds)}",
    )
