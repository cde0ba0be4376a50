"""`nora run`: from a person's own files to an answer, in one command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nora.analysis.early_checks import check_files, check_labels_matter
from nora.analysis.options import AskOptions, ExecOptions, ReadOptions, TrainOptions
from nora.analysis.output_folder import ABOUT, FILES, check_results
from nora.cli.display import Json, print_json, print_table, print_text, records
from nora.cli.parameters import parse_node_targets
from nora.outputs import read_from
from nora.wording import duration

if TYPE_CHECKING:
    from nora import Analysis

SHOWN = 5


def run(
    edges: Annotated[
        Path,
        typer.Option(
            readable=False,
            help="The edges: .csv, .tsv, .txt (also .gz), .xlsx, .parquet, .graphml, .gexf, .mtx, or a "
            "folder.",
        ),
    ],
    features: Annotated[
        Path | None,
        typer.Option(
            readable=False,
            help="The nodes' features: id, then a column per feature; or a list of the non-zero features: "
            "id,feature or id,feature,value; or a matrix (.mtx), a row per node.",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(readable=False, help="The classes to predict: id,label; blank is unknown."),
    ] = None,
    training: TrainOptions = TrainOptions(),
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="EDGES-influence")
    ] = None,
    reading: ReadOptions = ReadOptions(),
    asking: AskOptions = AskOptions(),
    execution: ExecOptions = ExecOptions(),
    force: Annotated[bool, typer.Option("--force", help="Replace earlier results.")] = False,
    json: Json = False,
) -> None:
    """Rank the nodes of your own graph: read files, train a model, score every removal, report.

    A model is trained to predict the labels (or, without labels, the edges); then every node is removed in
    turn to see how the predictions for all others change. NORA writes a folder with a report, tables, the
    graph for Gephi, and the trained run for further questions.

    Columns are separated by commas, semicolons or tabs. Ids can be any text. Edges need two columns;
    'weight' and 'type' are optional:

    \b
      edges.csv              features.csv           labels.csv
      source,target,weight   id,followers,country   id,label
      alice,bob,2            alice,120,fr           alice,left
      bob,007,1              007,15,de              007,right

    The model predicts nodes without a label, but is not trained on them. Blank features get the mean, words
    become 0/1 features, dates (2024-12-31) become days. Without features, NORA makes some from the graph
    (--encoding). Errors name the file and the line.

    A warning appears if the model is too weak to trust its influences: if its accuracy on held-out nodes is
    not clearly above that of always predicting the most common class. The report shows the recall of each
    class; if the model misses a rare class, --balanced may help. Predictions for nodes without labels count
    too; --targets labelled leaves them out.

    \b
    Example:
      nora example demo-data
      nora run --edges demo-data/edges.csv --features demo-data/features.csv \\
               --labels demo-data/labels.csv --out demo-results
      nora run --edges follows.csv --directed --task link --also degree
      nora run --edges kanten.csv --source-column von --target-column nach
      nora run --edges network.graphml --model sage --encoding random-walk
      nora run --edges edges.csv --labels labels.csv --models gcn,sage,gat --repeats 3
    """
    # edges.csv.gz has two endings.
    name = edges.name if edges.is_dir() else edges.name.removesuffix(".gz").rsplit(".", 1)[0]
    folder = out or Path(f"{name}-influence")
    check_labels_matter(training.task, training.balanced, asking.targets)
    # typer, too, could ask whether files are readable (`readable=True`), but not why they are not.
    check_files(edges, features, labels)
    check_results(folder, force, read_from(edges, features, labels))
    # From here on torch is needed, which takes seconds to load.
    import nora

    if (targets := asking.targets) is not None:
        asking = replace(asking, targets=partial(parse_node_targets, targets))

    def show(text: str) -> None:
        if not json:
            print_text(text)

    analysis = nora.analyse(
        edges,
        features,
        labels,
        reading=reading,
        training=training,
        asking=asking,
        execution=replace(execution, on_message=show),
    )
    show("Writing the results …")
    analysis.save(folder, force)
    _finish(analysis, folder, json, targets or ())


def _finish(analysis: Analysis, folder: Path, as_json: bool, targets: Sequence[str]) -> None:
    """The headline, where the files are, and what to do next."""
    best = analysis.top(SHOWN)
    if as_json:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        print_json({"out": str(folder), **about, "top": records(best)})
        return
    scores = analysis.scores
    from nora.results.exactness import accuracy_text, method_name, refinement

    columns = ["rank", "name", "influence"]
    took = f"{len(scores):,} nodes in {duration(scores.seconds)}"
    print_table(best[columns], f"\nThe most influential nodes ({method_name(scores)}; {took})")
    known = refinement(scores)
    if known is not None:
        exactly = f"{len(known['nodes']):,} nodes in all"
        print_text(f"These and others, {exactly}, are computed exactly; the rest is estimated.")
        print_text(f"{accuracy_text(known)}\n")
    if analysis.stability is not None:
        held = analysis.stability
        shown = held.to_frame(held.first)
        shown.insert(0, "name", [held.name(node) for node in held.first])
        kept = ["name", "influence_mean", "influence_spread", f"times_in_top_{held.k}"]
        print_table(
            shown[kept].head(SHOWN), f"By {len(held.members)} models: the ranking {held.verdict}"
        )
    print_text(f"In {folder}:")
    width = max(map(len, FILES))
    for name, what in FILES.items():
        if not name.endswith(".meta.json") and (folder / name).exists():
            print_text(f"  {name:<{width}}  {what}")
    name = shlex.quote(best["name"][0])
    place = shlex.quote(str(folder))
    print_text("\nNext:")
    print_text(f"  nora explore {place}")
    print_text(f"  nora what-if {place} --remove {name}")
    same = "".join(f" --targets {shlex.quote(text)}" for text in targets)
    print_text(f"  nora top {place} --top 100{same}")
