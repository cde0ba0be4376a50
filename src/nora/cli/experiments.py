"""`nora reproduce`: the paper's tables and figures."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nora.cli.display import Json, print_json, print_text, print_wide_table
from nora.cli.parameters import Force
from nora.experiments import RECIPES
from nora.experiments.grid import Grid, Working, shell_command
from nora.files import check_folder
from nora.outputs import check_file, read_from

if TYPE_CHECKING:
    from nora.experiments.recipe import Report

# Longer tables are for the files.
SHOWN_ROWS = 40
# Columns that say what a row is about.
KEYS = ("dataset", "model", "task", "cell", "method", "cycle", "compared", "rank", "node", "top")


Out = Annotated[Path, typer.Option(help="Folder for the tables and the chart.")]
Cache = Annotated[
    Path | None, typer.Option(help="Folder for finished work; default: one per user.")
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PLACE",
        help="A custom method, package.module:function, or a name from 'nora methods', as a row "
        "beside the others; repeatable.",
    ),
]
Finished = Annotated[
    bool,
    typer.Option(
        "--finished", help="Compute nothing; report the finished cells, and name the others."
    ),
]
EarlierReports = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="FILE",
        help="The JSON file of an earlier report with the same settings: its cells count as finished; "
        "repeatable.",
    ),
]
Beside = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The JSON file of the same report with the other protocol, to show beside this one.",
    ),
]


def reproduce(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="Which table or figure; 'list' names all.")
    ],
    grid: Grid = Grid(),
    out: Out = Path("results"),
    cache: Cache = None,
    method: Methods = None,
    finished: Finished = False,
    earlier: EarlierReports = None,
    beside: Beside = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run one of the paper's experiments and put the result beside the paper's figures.

    Everything that is computed (trained models, scores, tuned options) is cached, so an interrupted
    experiment continues where it stopped, and experiments share their work.

    \b
    Example:
      nora reproduce list
      nora reproduce citation --datasets cora --models gcn --profile quick
      nora reproduce stability --datasets cora,citeseer
      nora reproduce citation --profile paper --finished --out results/paper
      nora reproduce citation --profile paper --protocol published --out results/published
      nora reproduce citation --cells cora-gat-link,cora-gcnii-link --out part
      nora reproduce citation --finished --with part/citation.json --out whole
      nora reproduce citation --datasets cora --method my_package:my_method
    """
    if experiment == "list":
        from nora.cli.display import print_entries

        print_entries(RECIPES.listing())
        return
    RECIPES.check(experiment)
    files = tuple(earlier or ())
    _check_output(experiment, out, force, (*files, *([beside] if beside else ())))
    grid.check()
    _check_accepts(experiment, method, earlier, beside)

    from nora.datasets import cache_folder
    from nora.experiments.custom_method import method_named
    from nora.experiments.runner import run_recipe

    own = tuple(dict.fromkeys(method_named(text) for text in method or ()))
    place = cache or cache_folder() / "experiments"
    check_folder(place)
    lab = grid.lab(experiment, place, own)
    log = (lambda _: None) if json else partial(typer.echo, err=True)
    working = Working(finished, files, beside, progress=True, log=log)
    command = shell_command(grid, lab, experiment, working, method or ())
    try:
        report = run_recipe(experiment, lab, out, working, command)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"finished work is kept in {place}; the same command continues from there"
        ) from None
    if json:
        print_json({"experiment": experiment, "out": str(out), "title": report.title})
    else:
        _print(report, out / experiment)


def _check_output(experiment: str, out: Path, force: bool, reads: tuple[Path, ...]) -> None:
    """Raise unless the report's files can be written without losing anything."""
    inputs = read_from(*reads, *(file.with_suffix(".parquet") for file in reads))
    for ending in (".md", ".json", ".png", ".parquet"):
        check_file(out / f"{experiment}{ending}", force, inputs)


def _check_accepts(
    experiment: str, method: list[str] | None, earlier: list[Path] | None, beside: Path | None
) -> None:
    """Raise for custom methods and earlier reports where the experiment takes none."""
    if method and not RECIPES[experiment].facts.takes_methods:
        takers = ", ".join(one.name for one in RECIPES if one.facts.takes_methods)
        raise ValueError(f"{experiment} compares no further methods; --method is for {takers}")
    if earlier or beside:
        from nora.experiments.earlier import check_takes_cells

        check_takes_cells(experiment)


def _print(report: Report, path: Path) -> None:
    print_text(report.title)
    for heading, table in report.tables:
        if len(table) <= SHOWN_ROWS:
            print_wide_table(table, heading, KEYS)
    endings = [".md", ".json", *([".png"] if report.figure else []), *report.files]
    print_text(f"Written: {path}{', '.join(endings)}")
