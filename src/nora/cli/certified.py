"""`nora top`."""

from __future__ import annotations

from typing import Annotated

import typer

from nora.cli.answer import AnswerOptions, asked
from nora.cli.display import records
from nora.cli.parameters import HowMany, MeasureName, RunFolder, TargetOptions
from nora.wording import duration

BUDGET = 60.0


def top(
    run: RunFolder,
    counting: TargetOptions = TargetOptions(),
    top: HowMany = 20,
    budget: Annotated[float, typer.Option(metavar="SECONDS", help="Time budget.")] = BUDGET,
    measure: MeasureName = "change",
    answer: AnswerOptions = AnswerOptions(),
) -> None:
    """Find the most influential nodes with exact scores, and report what is certain.

    NORA first estimates the scores of all nodes. It then computes exact scores in this order, until the
    top nodes are proven or the budget is spent.

    \b
    Example:
      nora top runs/cora-gcn --top 100
      nora top runs/cora-gcn --top 20 --budget 120 --out top.csv
      nora top runs/cora-gcn --measure flips
    """
    answer.check(run)
    session = asked(run, counting).session
    found = session.top(min(top, session.num_nodes), budget=budget, measure=measure)
    table = found.to_frame()
    keys = (
        "measure",
        "certificate",
        "certified",
        "confidence",
        "refined",
        "num_nodes",
        "rest",
        "seconds",
    )
    document = {"run": str(run), **{key: getattr(found, key) for key in keys}}
    answer.give(
        found,
        {**document, "top": records(table)},
        table,
        f"The {len(found.nodes)} most influential nodes",
        f"{found.certificate} ({duration(found.seconds)})",
    )
