"""`nora who`."""

from __future__ import annotations

from typing import Annotated

import typer

from nora.cli.answer import asked
from nora.cli.display import Json, print_json, print_table, print_text, records
from nora.cli.parameters import MeasureName, RunFolder


def who(
    run: RunFolder,
    node: Annotated[str, typer.Option(metavar="ID", help="Whose prediction: an id or a name.")],
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many to print.")] = 10,
    measure: MeasureName = "change",
    json: Json = False,
) -> None:
    """Show which removals would change this node's prediction most.

    For link runs, the predictions of all pairs of the node count.

    \b
    Example:
      nora who runs/cora-gcn --node 17
      nora who runs/polarised-gcn --node @fenupo --top 3
      nora who runs/cora-gcn --node 17 --measure class:2
    """
    given = asked(run)
    asked_about = given.node(node, f"--node {node!r}")
    found = given.session.influencers(asked_about, top, measure=measure)
    if json:
        document = {"run": str(run), "node": asked_about, "task": given.run.task.name}
        print_json({**document, "measure": measure, "top": records(found)})
        return
    name, by = (
        given.called(asked_about),
        "" if measure == "change" else f", by the measure {measure}",
    )
    if found.empty:
        print_text(f"No other node's removal changes the prediction of {name}{by}.")
        return
    columns = [column for column in found if column != "rank"]
    title = f"Removals that change the prediction of {name} most{by}"
    print_table(found[["rank", *columns]], title)
