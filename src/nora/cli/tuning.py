"""`nora tune`: find a method's options from a few nodes whose true influence is known."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nora.cli.display import Json, print_json, print_text
from nora.cli.parameters import RunFolder
from nora.files import check_folder
from nora.outputs import CommandInputs
from nora.wording import duration

if TYPE_CHECKING:
    from nora import Influence, Run

FOLDER = "tuned"


def tune(
    run: RunFolder,
    method: Annotated[str, typer.Option(help="A method with options to tune.")] = "nora",
    share: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, metavar="X", help="Share of the nodes to label, by exact influence."
        ),
    ] = 0.1,
    labels: Annotated[
        Path | None,
        typer.Option(help="Scores that 'nora rank --nodes … --out' wrote, in place of a sample."),
    ] = None,
    trials: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Settings to try; method nora has its own search."),
    ] = 20,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of the sample and of the trials.")
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the options of an earlier tuning.")
    ] = False,
    json: Json = False,
) -> None:
    """Find a method's options from the true influence of a few nodes.

    Computes the exact influence of a random tenth of the nodes (or reads it from --labels), chooses the
    options that agree with it best, and saves both with the run: 'nora rank RUN --method METHOD --tuned' uses
    them.

    \b
    Example:
      nora tune runs/cora-gcn
      nora rank runs/cora-gcn --method nora --tuned
      nora tune runs/cora-gcn --method predict-e --share 0.2 --trials 40
    """
    from nora.methods import METHODS

    METHODS.check(method)
    check_folder(run)
    kept = run / FOLDER / f"{method}.json"
    # The options come last: labels without them are what an interrupted tuning has left.
    if kept.exists() and not force:
        raise FileExistsError(
            f"{kept} exists already: {method} is tuned. Add --force to tune it again"
        )

    import nora
    from nora.tuning.tune import check_tunable

    check_tunable(method)
    trained = nora.load_run(run)
    known = nora.Influence.load(labels) if labels is not None else _sample(trained, share, seed)
    found = nora.tune(
        trained.model, trained.data, known, method, trained.task, trials=trials, seed=seed
    )
    if labels is None or not CommandInputs((labels,)).holds(labels_file(run, method)):
        known.save(labels_file(run, method))
    path = found.save(kept, replace=force)
    if json:
        print_json({"run": str(run), "file": str(path), **asdict(found)})
        return
    options = ", ".join(f"{key}={value}" for key, value in found.options.items())
    print_text(f"{method}: {options}")
    print_text(
        f"Pearson {found.pearson:.3f} on {found.labelled:,} labelled nodes; {found.tried:,} settings "
        f"tried in {duration(found.seconds)}."
    )
    print_text(f"Kept in {path}. Next: nora rank {run} --method {method} --tuned")


def labels_file(run: Path, method: str) -> Path:
    """The file with the labels that a method was tuned with."""
    return run / FOLDER / f"{method}-labels.parquet"


def _sample(trained: Run, share: float, seed: int) -> Influence:
    """The exact influence of a random sample of the nodes."""
    import nora
    from nora.training.splits import few_shot

    nodes = few_shot(int(trained.data.num_nodes or 0), share, seed)
    return nora.influence(trained.model, trained.data, "exact", trained.task, nodes=nodes)
