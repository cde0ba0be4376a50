"""`nora fragile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nora.cli.arguments import Force, RunFolder, TargetOptions, Top
from nora.cli.display import Json, print_json, print_table, records, say
from nora.cli.prepare import asked_session
from nora.outputs import check_table, read_from
from nora.wording import count, duration


def fragile(
    run: RunFolder,
    by: Annotated[
        str, typer.Option(metavar="nodes|edges", help="What is removed, one at a time.")
    ] = "nodes",
    counting: TargetOptions = TargetOptions(),
    top: Top = 20,
    out: Annotated[
        Path | None, typer.Option(help="Write every flip to this .csv or .parquet file.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the predictions that flip when a single node or edge is removed.

    Every node (or edge) is removed by itself; listed are the nodes whose predicted class changes, with how
    many single removals change it.

    \b
    Example:
      nora fragile runs/cora-gcn
      nora fragile runs/cora-gcn --by edges --out flips.csv
      nora fragile runs/cora-gcn --targets 3,4,5
    """
    if by not in ("nodes", "edges"):
        raise ValueError(f"--by is {by!r}; it must be nodes or edges")
    check_table(out, force, read_from(run))

    import nora

    found = asked_session(nora.load_run(run), run, counting).fragile(by=by)
    if out is not None:
        found.save(out, replace=force)
    first, predictions = found.top(top), int(found.counted.sum())
    if json:
        print_json(
            {
                "run": str(run),
                "by": found.by,
                "removals": found.removals,
                "predictions": predictions,
                "share": found.share,
                "flips": len(found.flips),
                "seconds": found.seconds,
                "out": None if out is None else str(out),
                "top": records(first),
            }
        )
        return
    hang = int((found.counts[found.counted] > 0).sum())
    print_table(
        first[first["flipped_by"] > 0],
        f"{hang:,} of {count(predictions, 'prediction')} hang on a single {by[:-1]} "
        f"({found.removals:,} removed one at a time, {duration(found.seconds)})",
    )
    if out is not None:
        say(f"All {count(len(found.flips), 'flip')} in {out}")
