"""`nora what-if`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nora.cli.answer import AnswerOptions, asked
from nora.cli.display import records
from nora.cli.feature_rows import read_feature_rows
from nora.cli.parameters import RunFolder, TargetOptions, parse_edges
from nora.wording import count, listed

if TYPE_CHECKING:
    import pandas as pd

    from nora import Effect


def what_if(
    run: RunFolder,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IDS",
            help="Remove these together: ids or names, separated by commas; repeatable.",
        ),
    ] = None,
    remove_edge: Annotated[
        list[str] | None,
        typer.Option(metavar="A-B", help="Remove this edge: two ids or names; repeatable."),
    ] = None,
    add_edge: Annotated[
        list[str] | None,
        typer.Option(metavar="A-B", help="Add this edge: two ids or names; repeatable."),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            "--set",
            metavar="FILE",
            help="Change features: a .csv or .parquet table with a node and its features per row, or "
            "with the columns node, feature, value.",
        ),
    ] = None,
    counting: TargetOptions = TargetOptions(),
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many changes to print.")] = 10,
    answer: AnswerOptions = AnswerOptions(),
) -> None:
    """Show how the predictions change when nodes or edges are removed or added, or features changed.

    All edits are made together: the joint effect of several edits is not the sum of their effects. In an
    undirected graph an edge is removed or added in both directions.

    \b
    Example:
      nora what-if runs/cora-gcn --remove 1358
      nora what-if runs/cora-gcn --remove 1358,17 --top 50 --out changes.csv
      nora what-if runs/polarised-gcn --remove @fenupo
      nora what-if runs/cora-gcn --remove-edge 1358-306 --remove-edge 3-2544
      nora what-if runs/cora-gcn --remove-edge 1358-306 --add-edge 1358-17
      nora what-if runs/cora-gcn --set features.csv
      nora what-if runs/cora-gcn --remove 1358 --targets 3,4,5
    """
    answer.check(run, features)
    if not remove and not remove_edge and not add_edge and features is None:
        raise ValueError(
            "expected at least one edit, got none: give --remove 17, --remove-edge 3-17, --add-edge 3-17 or "
            "--set features.csv"
        )

    given = asked(run, counting)
    dataset = given.run.dataset
    names, count = dataset.node_names, given.session.num_nodes
    effect = given.session.what_if(
        given.nodes(*remove) if remove else (),
        remove_edges=parse_edges(remove_edge or (), names, count),
        add_edges=parse_edges(add_edge or (), names, count),
        features=None
        if features is None
        else read_feature_rows(features, dataset.data.x, names, count),
    )
    most = effect.top(top)
    document = {
        "run": str(run),
        **_facts(effect),
        "class_names": dataset.class_names,
        "top": records(most),
    }
    table = readable(most, dataset.class_names)
    answer.give(effect, document, table, _title(effect, document["flipped"]))


def _facts(effect: Effect) -> dict[str, Any]:
    """What programs get of an effect."""
    return {
        "removed": list(effect.removed),
        "removed_edges": effect.removed_edges,
        "added_edges": effect.added_edges,
        "changed_features": list(effect.changed_features),
        "task": effect.task,
        "total": effect.total,
        "changed": effect.noticed,
        "noticed": effect.noticed,
        "flipped": len(effect.flips()),
    }


def _title(effect: Effect, flipped: int) -> str:
    def name(node: int) -> str:
        return effect.names[node] if effect.names else str(node)

    removed = [name(node) for node in effect.removed]
    removed += [f"the edge {name(a)} – {name(b)}" for a, b in effect.removed_edges]
    added = [f"the edge {name(a)} – {name(b)}" for a, b in effect.added_edges]
    added += [f"changed features of {name(node)}" for node in effect.changed_features]
    without = [f"without {listed(removed)}"] if removed else []
    edits = " and ".join(without + ([f"with {listed(added)}"] if added else []))
    from nora.results.effect import NOTICEABLE

    least = "" if effect.predicts == "values" else f" by {NOTICEABLE:g} or more"
    flips = f"; {count(flipped, 'flips', 'flip')} {effect.flipping}" if effect.flipping else ""
    change = "changes" if effect.noticed == 1 else "change"
    return (
        f"{edits[0].upper()}{edits[1:]}: {count(effect.noticed, effect.item)} {change}{least}, "
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
    hidden = [name for name in changes if str(name).startswith(("from_class", "to_class"))]
    return changes.drop(columns=[*hidden, "flipped"]).assign(prediction=moves)
