"""`nora rank` and `nora merge`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nora.cli import certified
from nora.cli.answer import AnswerOptions, asked
from nora.cli.cluster import joined
from nora.cli.display import Json, print_text, records
from nora.cli.parameters import (
    Force,
    HowMany,
    RunFolder,
    TargetOptions,
    parse_nodes,
    parse_options,
    parse_shard,
)
from nora.cli.tuning import FOLDER as TUNED
from nora.cli.tuning import labels_file
from nora.files import check_folder
from nora.options import Options, setting
from nora.wording import duration

if TYPE_CHECKING:
    from nora import EdgeInfluence, Influence, Run, Session


@dataclass(frozen=True)
class ScoreOptions(Options):
    """How `nora rank` scores."""

    method: str = setting("auto", "A name from 'nora methods'.")
    option: tuple[str, ...] = setting(
        (), "An option of the method; repeatable.", metavar="KEY=VALUE"
    )
    tuned: bool = setting(False, "Use the options (and labels) that 'nora tune' saved.")
    paper: bool = setting(False, "Use the options that the paper published for this method.")
    labels: Path | None = setting(
        None, "True influences of some nodes, for methods that learn from them."
    )
    budget: float | None = setting(
        None, "Time that 'auto' or --certify may take; default: 60.", metavar="SECONDS"
    )
    nodes: tuple[str, ...] = setting(
        (), "Score only these: ids or names, separated by commas.", metavar="IDS"
    )
    measure: tuple[str, ...] = setting(
        (),
        "What to sum: change, flips, loss, accuracy, loss:test, class:NAME; repeatable.",
        metavar="NAME",
    )
    by: str | None = setting(None, "A column per group of this attribute, e.g. y.", metavar="NAME")

    def check(self, edges: bool) -> None:
        """Raise if options contradict each other, before torch is loaded."""
        from nora.methods import METHODS

        METHODS.check(self.method)
        if edges and (self.nodes or self.labels or self.tuned or self.paper):
            raise ValueError(
                "--edges scores edges: leave out --nodes, --labels, --tuned and --paper"
            )
        if self.budget is not None and self.method != "auto":
            raise ValueError(f"--budget is for --method auto or --certify, not for {self.method!r}")
        if self.tuned and self.paper:
            raise ValueError("--tuned and --paper both give the method's options: choose one")

    def check_certify(self, edges: bool, work: WorkOptions) -> None:
        """Raise for options that `--certify` does not take."""
        given = (self.nodes, self.option, self.tuned, self.paper, self.labels, work.shard)
        if any(given) or work.checkpoint or self.method != "auto":
            raise ValueError(
                "--certify chooses nodes and method by itself: leave out --nodes, --shard, --checkpoint, "
                "--method, --option, --labels, --tuned and --paper"
            )
        if edges or self.by or len(self.measure) > 1:
            raise ValueError(
                "--certify ranks nodes by one measure: leave out --edges, --by and further --measure"
            )

    def method_options(self, edges: bool) -> tuple[str, dict[str, Any]]:
        """The method, and the options that were given for it."""
        plain = not edges and not self.measure and self.by is None
        auto = self.method == "auto"
        given = parse_options(self.option, "exact" if auto and not plain else self.method)
        # A tolerance for edges implies the method.
        method = "exact" if edges and auto and "tolerance" in given else self.method
        return method, given if self.budget is None else {**given, "budget": self.budget}


@dataclass(frozen=True)
class WorkOptions(Options):
    """How the work of `nora rank` is executed, which does not affect the scores."""

    checkpoint: Path | None = setting(
        None, "Save finished work in this folder; the same command resumes there."
    )
    shard: str | None = setting(
        None, "Only the I-th of N parts, for several processes.", metavar="I/N"
    )
    cluster: str | None = setting(
        None,
        "Share the work with a Ray cluster: its address, 'auto' for the one that is running, or 'local' to "
        "start one here. For exact values.",
        metavar="ADDRESS",
    )
    engines: str | None = setting(
        None,
        "How a cluster's machines get the engine: from the same path, or through Ray's store.",
        metavar="path|store",
    )

    def check(self, out: Path | None) -> None:
        """Raise for invalid options, before torch is loaded."""
        if self.shard is not None:
            parse_shard(self.shard)
            if self.checkpoint is None and out is None:
                raise ValueError(
                    "--shard needs --checkpoint or --out: else its scores would be lost"
                )
        if self.checkpoint is not None:
            check_folder(self.checkpoint)
        if self.engines is not None and self.cluster is None:
            raise ValueError(
                "--engines needs --cluster: it sets how the machines of a cluster get the engine"
            )


@contextmanager
def _kept(checkpoint: Path | None) -> Iterator[None]:
    """Add to an interruption's message where finished work is saved."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None:
            kept = "nothing was written; with --checkpoint FOLDER finished work is kept"
        else:
            kept = f"finished work is kept in {checkpoint}; the same command goes on from there"
        raise KeyboardInterrupt(kept) from None


def rank(
    run: RunFolder,
    scoring: ScoreOptions = ScoreOptions(),
    edges: Annotated[
        bool, typer.Option("--edges", help="Score every edge instead of every node.")
    ] = False,
    certify: Annotated[bool, typer.Option("--certify", help="The same as 'nora top'.")] = False,
    counting: TargetOptions = TargetOptions(),
    work: WorkOptions = WorkOptions(),
    top: HowMany = 20,
    answer: AnswerOptions = AnswerOptions(),
) -> None:
    """Score every node of a run by how much its removal changes the others' predictions.

    --edges scores every edge instead; the two directions of an undirected edge count as one. By default,
    scores sum the change of the predictions. --measure sums something else: how many flip to another class
    (flips), the change of the test loss or accuracy (loss:test, accuracy:test), or that of one class's
    probability (class:NAME).

    A long ranking can be saved to a --checkpoint folder and resumed, or split into --shard parts for several
    processes or machines and joined with 'nora merge'. With --cluster, the machines of a Ray cluster share
    it. A removal that always kills its process is left out; the exit status is then 3.

    \b
    Example:
      nora rank runs/cora-gcn --top 20 --out scores.csv
      nora rank runs/cora-gcn --method nora --option beta=4 --option k1=0.5
      nora rank runs/cora-gcn --method nora --tuned
      nora rank runs/cora-gcn --nodes 1358,17 --targets 3,4,5
      nora rank runs/cora-gcn --edges --top 20 --out edges.csv
      nora rank runs/cora-gcn --measure flips --measure accuracy:test --by y
      nora rank runs/cora-gcn --shard 2/8 --checkpoint parts/2
      nora rank runs/cora-gcn --cluster local --checkpoint parts
    """
    if certify:
        scoring.check_certify(edges, work)
        budget = certified.BUDGET if scoring.budget is None else scoring.budget
        measure = (*scoring.measure, "change")[0]
        certified.top(run, counting, top, budget, measure, answer)
        return
    answer.check(run, scoring.labels)
    scoring.check(edges)
    work.check(answer.out)
    method, given = scoring.method_options(edges)
    about = asked(run, counting)
    question: dict[str, Any] = {
        **_settings(about.run, run, scoring),
        **given,
        "method": method,
        "measure": list(scoring.measure) or "change",
        "by": scoring.by,
        "checkpoint": work.checkpoint,
    }
    scores: Influence | EdgeInfluence
    with _kept(work.checkpoint):
        session = about.session
        with joined(work.cluster, work.engines, work.checkpoint) as executor:
            if edges:
                some = _edges(session, work.shard)
                scores = session.edge_influence(some, executor=executor, **question)
            else:
                question["nodes"] = _nodes(scoring.nodes, work.shard, about.run)
                question["labels"] = _labels(run, scoring)
                scores = session.influence(executor=executor, **question)
    _show(scores, top, answer, {"run": str(run)})


def merge(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="Checkpoint folders of the same ranking."),
    ],
    out: Annotated[Path, typer.Option(help="Write all scores to this .csv or .parquet file.")],
    top: HowMany = 20,
    force: Force = False,
    json: Json = False,
) -> None:
    """Join the checkpoint folders of one ranking, made by several processes or machines.

    Folders from different models, graphs, methods or options are rejected.

    \b
    Example:
      nora rank runs/cora-gcn --shard 1/2 --checkpoint parts/1
      nora rank runs/cora-gcn --shard 2/2 --checkpoint parts/2
      nora merge parts/1 parts/2 --out scores.parquet
    """
    answer = AnswerOptions(out, force, json)
    answer.check(*folders)

    import nora

    scores = nora.merge_checkpoints(folders)
    _show(scores, top, answer, {"merged": [str(folder) for folder in folders]})


def _settings(trained: Run, run: Path, scoring: ScoreOptions) -> Mapping[str, Any]:
    """Options found by tuning or published by the paper; empty if neither is requested."""
    method = scoring.method
    if scoring.tuned:
        import nora

        file = run / TUNED / f"{method}.json"
        found = nora.Tuned.load(file)
        if found.method != method:
            raise ValueError(f"{file} holds settings of {found.method!r}, not of {method!r}")
        return found.options
    if scoring.paper:
        from nora.tuning.published import published_options

        name = trained.architecture["name"]
        return published_options(method, name, trained.dataset.name, trained.task.name)
    return {}


def _labels(run: Path, scoring: ScoreOptions) -> Influence | None:
    """The labels given, or those the method was tuned with when it learns from labels."""
    import nora
    from nora.methods import METHODS

    if scoring.labels is not None:
        return nora.Influence.load(scoring.labels)
    learns = METHODS[scoring.method].facts.labels == "required"
    file = labels_file(run, scoring.method)
    return nora.Influence.load(file) if scoring.tuned and learns else None


def _nodes(nodes: tuple[str, ...], shard: str | None, trained: Run) -> list[int] | None:
    """The nodes to remove: those asked for, or this shard's share of them."""
    count = int(trained.data.num_nodes or 0)
    ids = parse_nodes(nodes, trained.dataset.node_names, count) if nodes else None
    if shard is None:
        return ids
    every = list(range(count)) if ids is None else sorted(set(ids))
    # Every n-th node: ids often go with age or degree, so that blocks would differ in cost.
    part, parts = parse_shard(shard)
    share = every[part - 1 :: parts]
    if not share:
        raise ValueError(f"--shard {shard} is empty: there are {len(every)} nodes")
    return share


def _edges(session: Session, shard: str | None) -> dict[Any, Any] | None:
    """This shard's share of all edges, by type; None for all."""
    if shard is None:
        return None
    part, parts = parse_shard(shard)
    every = session.edges.every()
    share = {kind: pairs[:, part - 1 :: parts] for kind, pairs in every.items()}
    if not any(pairs.size(1) for pairs in share.values()):
        count = sum(pairs.size(1) for pairs in every.values())
        raise ValueError(f"--shard {shard} is empty: there are {count} edges")
    return share


def _show(
    scores: Influence | EdgeInfluence, top: int, answer: AnswerOptions, source: dict[str, Any]
) -> None:
    from nora.results.exactness import method_name

    best, scored = scores.top(top), len(scores.to_frame())
    what = "nodes" if hasattr(scores, "node_types") else "edges"
    document = {
        **source,
        "method": scores.method,
        "task": scores.task,
        "options": scores.options,
        "measure": scores.measure,
        f"num_{what}": len(scores),
        "scored": scored,
        "seconds": scores.seconds,
        "details": scores.details,
        "top": records(best),
    }
    if "auto" in scores.details and not answer.json:
        print_text(f"auto: {method_name(scores)}, because {scores.details['auto']['reason']}.")
    took = f", {duration(scores.seconds)}" if scores.seconds else ""
    columns = [column for column in best if column != "rank"]
    if scores.measure != "change":
        best = best.rename(columns={"influence": scores.measure})
        columns = [scores.measure if one == "influence" else one for one in columns]
    title = f"{method_name(scores)}: {scored:,} of {len(scores):,} {what} scored{took}"
    answer.give(scores, document, best[["rank", *columns]], title)
