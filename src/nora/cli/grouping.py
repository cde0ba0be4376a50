"""`nora group`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nora.cli.arguments import Force, Measure, RunFolder, TargetOptions, parse_nodes
from nora.cli.display import Json, print_json, print_table, records, say
from nora.cli.prepare import asked_session
from nora.outputs import check_table, read_from
from nora.wording import duration


def group(
    run: RunFolder,
    size: Annotated[int, typer.Option(min=1, metavar="N", help="How many nodes.")] = 10,
    candidates: Annotated[
        list[str] | None,
        typer.Option(metavar="IDS", help="Choose among these: ids or names, with commas."),
    ] = None,
    counting: TargetOptions = TargetOptions(),
    measure: Measure = "change",
    recheck: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="How many others to try before a node is accepted."),
    ] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Write the group to this .csv or .parquet file.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the nodes that change the other predictions most when they are removed together.

    Lazy greedy search on exact effects: the most influential node first, then the one that adds most
    to it, and so on. A good group, not a proven best one; never worse than the most influential nodes
    together, which often share their audience.

    \b
    Example:
      nora group runs/cora-gcn --size 10
      nora group runs/cora-gcn --size 5 --targets 3,4,5 --out group.csv
      nora group runs/cora-gcn --size 5 --measure flips
    """
    check_table(out, force, read_from(run))

    import nora

    trained = nora.load_run(run)
    names = trained.dataset.node_names
    count = int(trained.data.num_nodes or 0)
    found = asked_session(trained, run, counting).best_group(
        size,
        measure=measure,
        candidates=None if candidates is None else parse_nodes(candidates, names, count),
        recheck=recheck,
    )
    if out is not None:
        found.save(out, replace=force)
    if json:
        print_json(
            {
                "run": str(run),
                "task": found.task,
                "measure": found.measure,
                "nodes": found.nodes,
                "total": found.total,
                "alone": found.alone,
                "chosen_by": found.chosen_by,
                "evaluations": found.evaluations,
                "seconds": found.seconds,
                "out": None if out is None else str(out),
                "group": records(found.to_frame()),
            }
        )
        return
    changed = "change" if measure == "change" else f"change {measure} of"
    print_table(
        found.to_frame(),
        f"Together these {len(found)} {changed} the others by {found.total:.4f}; the {len(found)} most "
        f"influential by themselves, together, by {found.alone:.4f}",
    )
    say(f"{found.evaluations:,} removals computed in {duration(found.seconds)}")
    if out is not None:
        say(f"The group is in {out}")
