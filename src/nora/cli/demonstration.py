"""`nora demo`: the whole way, from data to a picture, on a network that comes with the package."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nora.cli.display import Json, print_json, print_table, print_text, records
from nora.cli.parameters import Force, parse_options
from nora.cli.what_if import readable
from nora.outputs import check_file, check_table
from nora.wording import count, duration

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from nora import Effect, Influence, Run

SHOWN = 10
SCORES, FIGURE = "scores.csv", "influence.png"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the scores and the figure.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and the training.")] = 0,
    method: Annotated[str, typer.Option(help="A name from 'nora methods'.")] = "exact",
    force: Force = False,
    json: Json = False,
) -> None:
    """See it work: the most influential accounts of a small polarised social network.

    Trains a GCN to place 1,000 generated accounts in one of two camps, ranks all accounts by
    influence, removes the first to see which accounts change camp, and draws the picture.

    \b
    Example:
      nora demo
      nora demo --method nora --out demo-nora
    """
    from nora.methods import METHODS

    METHODS.check(method)
    check_table(out / SCORES, force)
    check_file(out / FIGURE, force)
    parse_options((), method)
    found = _findings(seed, method)
    files = _write(found, out, force)
    best = found.best()
    flips = found.effect.flips()
    if json:
        print_json(
            {
                "dataset": found.run.dataset.name,
                "method": method,
                "metrics": found.run.metrics,
                "seconds": found.scores.seconds,
                "top": records(best),
                "removed": list(found.effect.removed),
                "total": found.effect.total,
                "flips": records(flips),
                "files": {kind: str(path) for kind, path in files.items()},
            }
        )
        return
    accuracy = found.run.metrics["test_accuracy"]
    print_text(
        f"A GCN places {len(found.scores):,} accounts in two camps (test accuracy {accuracy:.0%})."
    )
    print_text(f"Method {method!r} scored every removal in {duration(found.scores.seconds)}.\n")
    print_table(best, "The most influential accounts")
    first = best["name"][0]
    if len(flips):
        moved = readable(flips, found.run.dataset.class_names)
        print_table(
            moved.head(SHOWN), f"Without {first}, {count(len(flips), 'account')} would change camp"
        )
    else:
        print_text(f"Without {first}, no account would change camp.\n")
    print_text(f"Scores in {files['scores']}, picture in {files['figure']}")
    print_text(f"Explore it in the browser: {_as_called()} explore --demo")


def _as_called() -> str:
    """How to call this `nora`: by its path where the shell would find another one, or none."""
    called = Path(sys.argv[0])
    if called.stem != "nora":
        return "python -m nora"
    found = shutil.which("nora")
    return "nora" if found and Path(found).resolve() == called.resolve() else str(called)


@dataclass(frozen=True)
class _Findings:
    """The results that the demo shows."""

    run: Run
    scores: Influence
    degree: Tensor
    effect: Effect

    @property
    def predicted(self) -> Tensor:
        """Every account's predicted camp `[N]`."""
        return self.effect.before.argmax(dim=-1)

    def best(self) -> pd.DataFrame:
        """The most influential accounts with name, degree, predicted camp and influence."""
        camps = self.run.dataset.class_names or ()
        best = self.scores.top(SHOWN)
        nodes = best["node"].tolist()
        return best.assign(
            degree=self.degree[nodes].long().numpy(),
            camp=[camps[int(self.predicted[node])] for node in nodes],
        )[["rank", "node", "name", "degree", "camp", "influence"]]


def _findings(seed: int, method: str) -> _Findings:
    import nora

    run = nora.train("gcn", "polarised", seed=seed)
    session = run.session()
    scores = session.influence(method)
    degree = session.influence("degree", progress=False).scores
    first = int(scores.top(1)["node"][0])
    return _Findings(run, scores, degree, session.what_if(first))


def _write(found: _Findings, folder: Path, force: bool) -> dict[str, Path]:
    from nora.results.plots.overview import influence_figure
    from nora.results.plots.style import save_figure

    dataset = found.run.dataset
    figure = influence_figure(
        found.scores, found.degree, found.run.data.edge_index, found.predicted, dataset.class_names
    )
    return {
        "scores": found.scores.save(folder / SCORES, replace=force),
        "figure": save_figure(figure, folder / FIGURE, replace=force),
    }
