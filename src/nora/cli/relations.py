"""`nora who`."""

from __future__ import annotations

from typing import Annotated

import typer

from nora.cli.arguments import Measure, RunFolder, parse_nodes
from nora.cli.display import Json, print_json, print_table, records, say


def who(
    run: RunFolder,
    node: Annotated[str, typer.Option(metavar="ID", help="Whose prediction: an id or a name.")],
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many to print.")] = 10,
    measure: Measure = "change",
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
    import nora

    trained = nora.load_run(run)
    names = trained.dataset.node_names
    asked = parse_nodes([node], names, int(trained.data.num_nodes or 0))
    if len(set(asked)) > 1:
        raise ValueError(f"--node {node!r} names {len(asked)} nodes; ask about one at a time")
    found = trained.session().influencers(asked[0], top, measure=measure)
    if json:
        print_json(
            {
                "run": str(run),
                "node": asked[0],
                "task": trained.task.name,
                "measure": measure,
                "top": records(found),
            }
        )
        return
    whom = names[asked[0]] if names else f"node {asked[0]}"
    by = "" if measure == "change" else f", by the measure {measure}"
    if found.empty:
        say(f"No other node's removal changes the prediction of {whom}{by}.")
        return
    columns = [column for column in found if column != "rank"]
    title = f"Removals that change the prediction of {whom} most{by}"
    print_table(found[["rank", *columns]], title)
