"""`nora run`: from a person's own files to an answer, in one command."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nora.cli.arguments import parse_options
from nora.cli.display import Json, print_json, print_table, records, say
from nora.cli.results import (
    FILES,
    Answer,
    Times,
    check_results,
    describe,
    input_file,
    write_results,
)
from nora.cli.understood import graph_facts, in_words, what_counts
from nora.ingest.formats import GRAPHS, TABLES, existing

if TYPE_CHECKING:
    from nora.ingest import Reading

SHOWN = 5
FEWEST_LABELLED = 5


def run(
    edges: Annotated[
        Path,
        typer.Option(
            readable=False, help="The edges: .csv, .tsv, .txt, .parquet, .graphml or .gexf."
        ),
    ],
    features: Annotated[
        Path | None,
        typer.Option(readable=False, help="What is known of each node: id, then one column each."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(readable=False, help="The classes to predict: id,label; blank is unknown."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A name from 'nora models'.", show_default="gcn; rgcn for typed edges"),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="node|link",
            help="node: predict labels. link: predict edges.",
            show_default="node if there are labels",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="EDGES-influence")
    ] = None,
    directed: Annotated[
        bool, typer.Option("--directed", help="Edges go from source to target only.")
    ] = False,
    encoding: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Features for nodes without any: auto, degree, onehot, random, random-walk, or "
            "several joined by +.",
        ),
    ] = "auto",
    ignore: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Leave these columns out: names, parted by commas."),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column of --labels or --features, or the node attribute, to predict.",
            show_default="label or class",
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="A name from 'nora methods'.")] = "auto",
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help="Compare with this method; repeatable."),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="Write the effects of the first N nodes.")
    ] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same results.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, metavar="N", help="Most passes in training.")] = 200,
    force: Annotated[bool, typer.Option("--force", help="Replace earlier results.")] = False,
    json: Json = False,
) -> None:
    """Rank the nodes of your own graph: read files, train a model, score every removal, report.

    A model is trained to predict the labels (or, without labels, the edges); then every node is
    removed in turn to see how the predictions for all others change. The folder gets a page, tables,
    the graph for Gephi, and the trained run for further questions.

    Columns are parted by commas, semicolons or tabs. Ids can be any text. Edges need two columns;
    'weight' and 'type' are optional:

    \b
      edges.csv              features.csv           labels.csv
      source,target,weight   id,followers,country   id,label
      alice,bob,2            alice,120,fr           alice,left
      bob,007,1              007,15,de              007,right

    A node without a label, or with a blank one, is predicted but not learnt from. Blank features
    are filled in with the mean, words become 0/1 features, dates (2024-12-31) days. Without features
    they are made from the graph (--encoding). Anything that cannot be understood is refused with its
    line number.

    A warning is given when the model is too weak for its influences to be trusted: when its accuracy
    on held-out nodes is not clearly above that of always answering the most common class.

    \b
    Example:
      nora example demo-data
      nora run --edges demo-data/edges.csv --features demo-data/features.csv \\
               --labels demo-data/labels.csv --out demo-results
      nora run --edges follows.csv --directed --task link --also degree
      nora run --edges network.graphml --model sage --encoding random-walk
    """
    folder = out or Path(f"{edges.stem}-influence")
    if task not in (None, "node", "link"):
        raise ValueError(f"--task is {task!r}; it must be 'node' or 'link'")
    # typer, too, could ask whether files are readable (`readable=True`), but not say why they are not.
    given = {"edges": edges, "features": features, "labels": labels}
    for role, path in given.items():
        if path is not None:
            existing(path, (*TABLES, *GRAPHS) if role == "edges" else TABLES)
    check_results(folder, force)
    # From here on torch is needed, which takes seconds to load.
    _check_methods(method, also or [])
    tell: Callable[[str], None] = (lambda _: None) if json else say

    import nora
    from nora.ingest import read_graph
    from nora.training.trust import assess

    if model is not None:
        nora.models.MODELS[model]
    times, cautions = Times(), []
    with times.stage("reading"):
        reading = read_graph(
            edges,
            features,
            labels,
            directed=directed,
            encoding=encoding,
            ignore=[name.strip() for name in (ignore or "").split(",") if name.strip()],
            label_column=label_column,
        )
        inputs = [input_file(role, path) for role, path in given.items() if path is not None]
    task = _task(reading, task)
    model = model or ("rgcn" if reading.dataset.edge_type_names else "gcn")
    graph = graph_facts(reading, directed)
    tell(f"Read {edges.name}: {in_words(graph)}.")
    for note in reading.notes:
        tell(f"  · {note}")

    with times.stage("training"):
        trained = nora.train(model, reading.dataset, task, seed=seed, epochs=epochs)
    notes = (*reading.notes, *what_counts(trained))
    for note in notes[len(reading.notes) :]:
        tell(f"  · {note}")
    trust = assess(trained)
    tell(f"\nThe model ({model}) {trust.finding}.")
    if trust.weak:
        cautions.append(trust.caution)
        warnings.warn(cautions[0], UserWarning, stacklevel=2)

    names = reading.dataset.node_names
    network, data, asked = trained.model, trained.data, trained.task
    with times.stage("ranking"), _kept(cautions):
        scores = nora.influence(network, data, method, asked)
    if "auto" in scores.details:
        tell(f"auto: {scores.method}, because {scores.details['auto']['reason']}.")
    with times.stage("other methods"), _kept(cautions):
        others = [nora.influence(network, data, name, asked) for name in also or ()]
    with times.stage("effects"):
        first = scores.top(top)["node"].tolist()
        effects = [nora.what_if(network, data, node, asked) for node in first]
    answer = Answer(
        run=trained,
        scores=replace(scores, names=names),
        others=tuple(replace(other, names=names) for other in others),
        effects=tuple(replace(effect, names=names) for effect in effects),
        trust=trust,
        notes=notes,
        warnings=tuple(cautions),
        about={
            "seed": seed,
            "options": {
                "task": task,
                "model": model,
                "directed": directed,
                "encoding": reading.encoding,
                "ignore": ignore,
                "label_column": label_column,
                "method": method,
                "also": also or [],
                "top": top,
                "epochs": epochs,
            },
            "inputs": inputs,
            "graph": graph,
            "architecture": trained.architecture,
        },
    )
    tell("Writing the results …")
    write_results(answer, folder, times)
    _finish(answer, folder, times, json)


def _check_methods(method: str, also: list[str]) -> None:
    from nora.methods import METHODS

    for name in (method, *also):
        parse_options((), name)
        if METHODS[name].facts.get("labels") == "required":
            raise ValueError(
                f"method {name!r} learns from known influences, which there are none of yet; after this "
                "run, see 'nora tune' and 'nora rank --labels'"
            )
    if len({method, *also}) < 1 + len(also):
        raise ValueError("--also names a method twice, or the one that --method names")


def _task(reading: Reading, task: str | None) -> str:
    """The task asked for, or the one that the files allow."""
    dataset = reading.dataset
    if task is None:
        task = "node" if dataset.num_classes else "link"
    if task == "link":
        return task
    labelled = int((dataset.data.y >= 0).sum())
    strangers = f". {reading.unmatched}: do the ids match?" if reading.unmatched else ""
    if not dataset.num_classes:
        raise ValueError("to predict labels there must be some: give --labels, or --task link")
    if dataset.num_classes < 2:
        raise ValueError(
            f"all labels are {(dataset.class_names or ('the same',))[0]!r}: there is nothing to tell "
            f"apart{strangers or '.'} Give labels of at least two classes, or --task link"
        )
    if labelled < FEWEST_LABELLED:
        raise ValueError(
            f"{labelled} node{'s are' if labelled > 1 else ' is'} labelled; at least "
            f"{FEWEST_LABELLED} are needed to train and test{strangers}"
        )
    return task


@contextmanager
def _kept(cautions: list[str]) -> Iterator[None]:
    """Keep warnings for the report, and show them all the same."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for one in caught:
        warnings.warn(one.message, one.category, stacklevel=2)
        if issubclass(one.category, UserWarning) and str(one.message) not in cautions:
            cautions.append(str(one.message))


def _finish(answer: Answer, folder: Path, times: Times, json: bool) -> None:
    """The headline, where the files are, and what to do next."""
    best = answer.scores.top(SHOWN)
    if json:
        print_json({"out": str(folder), **describe(answer, times), "top": records(best)})
        return
    scores = answer.scores
    pruned = scores.options.get("tolerance")
    how = f"{scores.method}, pruned at {pruned:g}" if pruned else scores.method
    columns = ["rank", "name", "influence"]
    took = f"{len(scores):,} nodes in {scores.seconds:.1f} s"
    print_table(best[columns], f"\nThe most influential nodes ({how}; {took})")
    say(f"In {folder}:")
    width = max(map(len, FILES))
    for name, what in FILES.items():
        if not name.endswith(".meta.json"):
            say(f"  {name:<{width}}  {what}")
    name = shlex.quote(best["name"][0])
    place = shlex.quote(str(folder / "run"))
    say("\nNext:")
    say(f"  nora what-if {place} --remove {name}")
    say(f"  nora rank {place} --top 100 --certify")
