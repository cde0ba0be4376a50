"""`nora what-if`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nora.cli.arguments import Force, parse_edges, parse_nodes
from nora.cli.display import Json, print_json, print_table, records, say
from nora.outputs import check_table, read_from
from nora.wording import listed

if TYPE_CHECKING:
    import pandas as pd

    from nora import Effect


def what_if(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run that 'nora train' made.")],
    remove: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IDS", help="Remove these, together: ids or names, with commas; repeatable."
        ),
    ] = None,
    remove_edge: Annotated[
        list[str] | None,
        typer.Option(metavar="A-B", help="Remove this edge: two ids or names; repeatable."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many changes to print.")] = 10,
    out: Annotated[
        Path | None, typer.Option(help="Write every change to this .csv or .parquet file.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show who changes, by how much and towards which class, had these nodes or edges been removed.

    Everything is removed together: the joint effect of several is not the sum of theirs. In an
    undirected graph an edge goes in both directions.

    \b
    Example:
      nora what-if runs/cora-gcn --remove 1358
      nora what-if runs/cora-gcn --remove 1358,17 --top 50 --out changes.csv
      nora what-if runs/polarised-gcn --remove @fenupo
      nora what-if runs/cora-gcn --remove-edge 1358-306 --remove-edge 3-2544
    """
    check_table(out, force, read_from(run))
    if not remove and not remove_edge:
        raise ValueError("nothing is to be removed: give --remove 17 or --remove-edge 3-17")

    import nora

    trained = nora.load_run(run)
    names = trained.dataset.node_names
    count = int(trained.data.num_nodes or 0)
    effect = trained.session().what_if(
        parse_nodes(remove, names, count) if remove else (),
        remove_edges=parse_edges(remove_edge or (), names, count),
    )
    if out is not None:
        effect.save(out, replace=force)
    most, flipped = effect.top(top), len(effect.flips())
    classes = trained.dataset.class_names
    if json:
        print_json(
            {
                "run": str(run),
                "removed": list(effect.removed),
                "removed_edges": effect.removed_edges,
                "task": effect.task,
                "total": effect.total,
                "changed": int((effect.change > 0).sum()),
                "noticed": effect.noticed,
                "flipped": flipped,
                "class_names": classes,
                "out": None if out is None else str(out),
                "top": records(most),
            }
        )
        return
    print_table(readable(most, classes), _title(effect, flipped))
    if out is not None:
        say(f"Every change in {out}")


def _title(effect: Effect, flipped: int) -> str:
    def name(node: int) -> str:
        return effect.names[node] if effect.names else str(node)

    gone = [name(node) for node in effect.removed]
    gone += [f"the edge {name(a)} – {name(b)}" for a, b in effect.removed_edges]
    from nora.results.effect import NOTICEABLE

    least = "" if effect.predicts == "values" else f" by {NOTICEABLE:g} or more"
    flips = f"; {flipped:,} go {effect.flipping}" if effect.flipping else ""
    return (
        f"Without {listed(gone)}: {effect.noticed:,} {effect.item}s change{least}, "
        f"{effect.total:.4f} in all{flips}"
    )


def readable(changes: pd.DataFrame, classes: tuple[str, ...] | None) -> pd.DataFrame:
    """The frame of an `Effect` for people: pairs by name, classes by name with an arrow between."""
    if "source_name" in changes:
        named = changes.drop(columns=["source", "target"])
        return named.rename(columns={"source_name": "source", "target_name": "target"})
    if "from_class" not in changes:
        return changes
    before, after = (
        changes[column].map(lambda k: classes[k] if classes else f"class {k}")
        for column in ("from_class", "to_class")
    )
    moves = before.where(~changes["flipped"], before + " → " + after)
    return changes.drop(columns=["from_class", "to_class", "flipped"]).assign(prediction=moves)
