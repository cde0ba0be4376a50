"""`nora rank` and `nora merge`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nora.cli.arguments import (
    Force,
    RunFolder,
    Targets,
    parse_nodes,
    parse_options,
    parse_shard,
    parse_targets,
)
from nora.cli.cluster import joined
from nora.cli.display import Json, print_json, print_table, records, say
from nora.cli.prepare import Engine, session_of
from nora.cli.tuning import FOLDER as TUNED
from nora.cli.tuning import labels_file
from nora.files import check_folder
from nora.outputs import check_table, read_from
from nora.wording import duration

if TYPE_CHECKING:
    from nora import EdgeInfluence, Influence, Run, Session

Top = Annotated[int, typer.Option(min=1, metavar="N", help="How many to print.")]


def rank(
    run: RunFolder,
    method: Annotated[str, typer.Option(help="A name from 'nora methods'.")] = "auto",
    top: Top = 20,
    out: Annotated[
        Path | None, typer.Option(help="Write all scores to this .csv or .parquet file.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the method; repeatable."),
    ] = None,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Use the options (and labels) 'nora tune' has found.")
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Use the options the paper published for this method.")
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(help="True influences of some nodes, for methods that learn from them."),
    ] = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Score only as many nodes as the top N needs, and say what is certain.",
        ),
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Time that 'auto' or --certify may take; 60 if unsaid."
        ),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(metavar="IDS", help="Score only these: ids or names, with commas."),
    ] = None,
    edges: Annotated[
        bool, typer.Option("--edges", help="Score every edge instead of every node.")
    ] = False,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What to sum: change, flips, loss, accuracy, loss:test, class:NAME; repeatable.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A column per group of this attribute, e.g. y."),
    ] = None,
    targets: Targets = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep finished work in this folder; the same command resumes there."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Only the I-th of N parts, for several processes."),
    ] = None,
    engine: Engine = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Share the work with a Ray cluster: its address, 'auto' for the one that is running, or "
            "'local' to start one here. For exact values.",
        ),
    ] = None,
    engines: Annotated[
        str | None,
        typer.Option(
            metavar="path|store",
            help="How a cluster's machines get the engine: from the same path, or through Ray's store.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Score every node of a run by how much its removal changes the others' predictions.

    With --edges every edge is scored instead, in undirected graphs both directions as one. What is
    summed is the change of the predictions, or another --measure: how many go to another class
    (flips), how the loss or accuracy of the test nodes changes (loss:test, accuracy:test), how one
    class gains or loses (class:NAME).

    A long ranking can be kept in a --checkpoint folder and resumed, or cut into --shard parts for
    several processes or machines and joined with 'nora merge'. With --cluster the machines of a Ray cluster
    share it; what ends whatever works on it is left out, and the exit status is 3.

    \b
    Example:
      nora rank runs/cora-gcn --top 20 --out scores.csv
      nora rank runs/cora-gcn --method nora --option beta=4 --option k1=0.5
      nora rank runs/cora-gcn --method nora --tuned
      nora rank runs/cora-gcn --top 100 --certify --budget 120
      nora rank runs/cora-gcn --nodes 1358,17 --targets 3,4,5
      nora rank runs/cora-gcn --edges --top 20 --out edges.csv
      nora rank runs/cora-gcn --measure flips --measure accuracy:test --by y
      nora rank runs/cora-gcn --shard 2/8 --checkpoint parts/2
      nora rank runs/cora-gcn --cluster local --checkpoint parts
    """
    from nora.methods import METHODS

    METHODS.check(method)
    check_table(out, force, read_from(run, labels))
    if certify and (
        nodes or shard or checkpoint or method != "auto" or tuned or paper or option or labels
    ):
        raise ValueError(
            "--certify chooses nodes and method by itself: leave out --nodes, --shard, --checkpoint, "
            "--method, --option, --labels, --tuned and --paper"
        )
    if certify and (edges or by or len(measure or ()) > 1):
        raise ValueError(
            "--certify is of nodes, by one measure: leave out --edges, --by and further --measure"
        )
    if edges and (nodes or labels or tuned or paper):
        raise ValueError(
            "--edges is of edges, by removing them: leave out --nodes, --labels, --tuned and --paper"
        )
    if budget is not None and not certify and method != "auto":
        raise ValueError(f"--budget is for --method auto or --certify, not for {method!r}")
    part = None if shard is None else parse_shard(shard)
    if part and checkpoint is None and out is None:
        raise ValueError("--shard needs --checkpoint or --out: else its scores would be lost")
    if checkpoint is not None:
        check_folder(checkpoint)
    if engines is not None and cluster is None:
        raise ValueError("--engines says how the machines of a --cluster get the engine")

    import nora

    plain = not edges and not measure and by is None
    given = parse_options(option or (), "exact" if method == "auto" and not plain else method)
    if edges and method == "auto" and "tolerance" in given:
        method = "exact"  # who says what to leave out has chosen
    if budget is not None:
        given["budget"] = budget
    trained = nora.load_run(run)
    if certify:
        seconds, what_of = 60.0 if budget is None else budget, (measure or ["change"])[0]
        _certify(trained, run, engine, top, seconds, targets, what_of, out, force, json)
        return
    options = {**_settings(trained, run, method, tuned, paper), **given}
    try:
        counted = None if targets is None else parse_targets(targets, trained)
        session = session_of(trained, run, engine, counted)
        what: dict[str, Any] = {"measure": measure or "change", "by": by, "checkpoint": checkpoint}
        scores: Influence | EdgeInfluence
        with joined(cluster, engines, checkpoint) as executor:
            what["executor"] = executor
            if edges:
                some = None if part is None else _share_of_edges(session, part)
                scores = session.edge_influence(some, method=method, **what, **options)
            else:
                scores = session.influence(
                    method,
                    labels=_labels(run, method, tuned, labels),
                    nodes=_wanted(nodes, part, trained),
                    **what,
                    **options,
                )
    except KeyboardInterrupt:
        if checkpoint is None:
            raise KeyboardInterrupt(
                "nothing was written; with --checkpoint FOLDER finished work is kept"
            ) from None
        raise KeyboardInterrupt(
            f"finished work is kept in {checkpoint}; the same command goes on from there"
        ) from None
    _report(scores, top, out, force, json, {"run": str(run)})


def _certify(
    trained: Run,
    run: Path,
    engine: Path | None,
    k: int,
    budget: float,
    targets: list[str] | None,
    measure: str,
    out: Path | None,
    force: bool,
    json: bool,
) -> None:
    """The top `k` with exact scores and a certificate."""
    counted = None if targets is None else parse_targets(targets, trained)
    session = session_of(trained, run, engine, counted)
    found = session.top(min(k, session.num_nodes), budget=budget, measure=measure)
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


def merge(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="Checkpoint folders of the same ranking."),
    ],
    out: Annotated[Path, typer.Option(help="Write all scores to this .csv or .parquet file.")],
    top: Top = 20,
    force: Force = False,
    json: Json = False,
) -> None:
    """Join the checkpoint folders of one ranking, made by several processes or machines.

    Folders from different models, graphs, methods or options are refused.

    \b
    Example:
      nora rank runs/cora-gcn --shard 1/2 --checkpoint parts/1
      nora rank runs/cora-gcn --shard 2/2 --checkpoint parts/2
      nora merge parts/1 parts/2 --out scores.parquet
    """
    check_table(out, force, read_from(*folders))

    import nora

    scores = nora.merge_checkpoints(folders)
    _report(scores, top, out, force, json, {"merged": [str(folder) for folder in folders]})


def _settings(trained: Run, run: Path, method: str, tuned: bool, paper: bool) -> dict[str, Any]:
    """Options found by tuning, or published by the paper; none when neither is asked for."""
    if tuned and paper:
        raise ValueError("--tuned and --paper both give the method's options: choose one")
    if tuned:
        import nora

        file = run / TUNED / f"{method}.json"
        found = nora.Tuned.load(file)
        if found.method != method:
            raise ValueError(f"{file} holds settings of {found.method!r}, not of {method!r}")
        return found.options
    if paper:
        from nora.tuning.published import published_options

        name = trained.architecture["name"]
        return published_options(method, name, trained.dataset.name, trained.task.name)
    return {}


def _labels(run: Path, method: str, tuned: bool, path: Path | None) -> Influence | None:
    """The labels given, or those the method was tuned with when it learns from labels."""
    import nora
    from nora.methods import METHODS

    if path is not None:
        return nora.Influence.load(path)
    learns = METHODS[method].facts.labels == "required"
    return nora.Influence.load(labels_file(run, method)) if tuned and learns else None


def _wanted(
    nodes: list[str] | None, part: tuple[int, int] | None, trained: Run
) -> list[int] | None:
    """The nodes to remove: those asked for, or this shard's share of them."""
    count = int(trained.data.num_nodes or 0)
    ids = None if nodes is None else parse_nodes(nodes, trained.dataset.node_names, count)
    if part is None:
        return ids
    every = list(range(count)) if ids is None else sorted(set(ids))
    # Every n-th node: ids often go with age or degree, so that blocks would differ in cost.
    share = every[part[0] - 1 :: part[1]]
    if not share:
        raise ValueError(f"--shard {part[0]}/{part[1]} is empty: there are {len(every)} nodes")
    return share


def _share_of_edges(session: Session, part: tuple[int, int]) -> dict[Any, Any]:
    """This shard's share of all edges, by type."""
    every = session.edges.every()
    share = {kind: pairs[:, part[0] - 1 :: part[1]] for kind, pairs in every.items()}
    if not any(pairs.size(1) for pairs in share.values()):
        count = sum(pairs.size(1) for pairs in every.values())
        raise ValueError(f"--shard {part[0]}/{part[1]} is empty: there are {count} edges")
    return share


def _report(
    scores: Influence | EdgeInfluence,
    top: int,
    out: Path | None,
    force: bool,
    json: bool,
    source: dict[str, Any],
) -> None:
    if out is not None:
        scores.save(out, replace=force)
    best, scored = scores.top(top), len(scores.to_frame())
    what = "nodes" if hasattr(scores, "node_types") else "edges"
    if json:
        print_json(
            {
                **source,
                "method": scores.method,
                "task": scores.task,
                "options": scores.options,
                "measure": scores.measure,
                f"num_{what}": len(scores),
                "scored": scored,
                "seconds": scores.seconds,
                "details": scores.details,
                "out": None if out is None else str(out),
                "top": records(best),
            }
        )
        return
    from nora.results.exactness import method_name

    if "auto" in scores.details:
        say(f"auto: {method_name(scores)}, because {scores.details['auto']['reason']}.")
    took = f", {duration(scores.seconds)}" if scores.seconds else ""
    columns = [column for column in best if column != "rank"]
    if scores.measure != "change":
        best = best.rename(columns={"influence": scores.measure})
        columns = [scores.measure if one == "influence" else one for one in columns]
    print_table(
        best[["rank", *columns]],
        f"{method_name(scores)}: {scored:,} of {len(scores):,} {what} scored{took}",
    )
    if out is not None:
        say(f"All {scored:,} scores in {out}")
