"""`nora top`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nora.cli.arguments import Force, Measure, RunFolder, TargetOptions, Top
from nora.cli.display import Json, print_json, print_table, records, say
from nora.cli.prepare import asked_session
from nora.outputs import check_table, read_from
from nora.wording import duration

BUDGET = 60.0


def top(
    run: RunFolder,
    counting: TargetOptions = TargetOptions(),
    top: Top = 20,
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time that it may take.")
    ] = BUDGET,
    measure: Measure = "change",
    out: Annotated[
        Path | None, typer.Option(help="Write them to this .csv or .parquet file.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the most influential nodes with exact scores, and report what is certain.

    Only as many nodes are scored as the first N need: an estimate of all nodes comes first, then exact
    scores of those that may be among them, until that is proved or the budget is spent.

    \b
    Example:
      nora top runs/cora-gcn --top 100
      nora top runs/cora-gcn --top 20 --budget 120 --out top.csv
      nora top runs/cora-gcn --measure flips
    """
    check_table(out, force, read_from(run))

    import nora

    session = asked_session(nora.load_run(run), run, counting)
    found = session.top(min(top, session.num_nodes), budget=budget, measure=measure)
    if out is not None:
        found.save(out, replace=force)
    if json:
        print_json(
            {
                "run": str(run),
                "measure": found.measure,
                "certificate": found.certificate,
                "certified": found.certified,
                "confidence": found.confidence,
                "refined": found.refined,
                "num_nodes": found.num_nodes,
                "rest": found.rest,
                "seconds": found.seconds,
                "out": None if out is None else str(out),
                "top": records(found.to_frame()),
            }
        )
        return
    print_table(found.to_frame(), f"The {len(found.nodes)} most influential nodes")
    say(f"{found.certificate[0].upper()}{found.certificate[1:]} ({duration(found.seconds)}).")
    if out is not None:
        say(f"Written to {out}")
