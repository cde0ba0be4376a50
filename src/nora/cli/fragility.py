"""`nora fragile`."""

from __future__ import annotations

from typing import Annotated

import typer

from nora.cli.answer import AnswerOptions, asked
from nora.cli.display import records
from nora.cli.parameters import HowMany, RunFolder, TargetOptions
from nora.wording import count, duration


def fragile(
    run: RunFolder,
    by: Annotated[
        str, typer.Option(metavar="nodes|edges", help="What is removed, one at a time.")
    ] = "nodes",
    counting: TargetOptions = TargetOptions(),
    top: HowMany = 20,
    answer: AnswerOptions = AnswerOptions(),
) -> None:
    """Find the predictions that flip when a single node or edge is removed.

    Every node (or edge) is removed, one at a time. The list shows the nodes whose predicted class changes,
    and how many single removals change it.

    \b
    Example:
      nora fragile runs/cora-gcn
      nora fragile runs/cora-gcn --by edges --out flips.csv
      nora fragile runs/cora-gcn --targets 3,4,5
    """
    if by not in ("nodes", "edges"):
        raise ValueError(f"--by is {by!r}; it must be nodes or edges")
    answer.check(run)
    found = asked(run, counting).session.fragile(by=by)
    first, predictions = found.top(top), int(found.counted.sum())
    flipping = int((found.counts[found.counted] > 0).sum())
    document = {
        "run": str(run),
        "by": found.by,
        "removals": found.removals,
        "predictions": predictions,
        "share": found.share,
        "flips": len(found.flips),
        "seconds": found.seconds,
        "top": records(first),
    }
    answer.give(
        found,
        document,
        first[first["flipped_by"] > 0],
        f"{flipping:,} of {count(predictions, 'prediction')} flip by removing a single {by[:-1]} "
        f"({found.removals:,} removed one at a time, {duration(found.seconds)})",
    )
