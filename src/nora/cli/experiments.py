"""`nora reproduce`: the paper's tables and figures."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from nora.cli.arguments import Force
from nora.cli.display import Json, print_json, print_wide_table, say
from nora.files import check_folder
from nora.outputs import check_file, read_from

# Longer tables are for the files.
SHOWN_ROWS = 40
# Columns that say what a row is about.
KEYS = ("dataset", "model", "task", "cell", "method", "cycle", "compared", "rank", "node", "top")


def reproduce(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="Which table or figure; 'list' names all.")
    ],
    datasets: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Datasets, with commas.")
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Models, with commas.")
    ] = None,
    tasks: Annotated[str | None, typer.Option(metavar="NAMES", help="node, link or both.")] = None,
    cells: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Of those, these cells alone, with commas: cora-gat-link,cora-gcn-node.",
        ),
    ] = None,
    cycles: Annotated[
        int | None,
        typer.Option(min=1, max=5, metavar="N", help="How many of the five cyclic splits."),
    ] = None,
    profile: Annotated[
        str, typer.Option(help="How large: quick (minutes), compact (hours) or paper (a day).")
    ] = "compact",
    protocol: Annotated[
        str,
        typer.Option(
            help="clean (no test links in message passing, random labelled nodes, tuned options) or "
            "published (as the paper's scripts do it, with its options)."
        ),
    ] = "clean",
    out: Annotated[Path, typer.Option(help="Folder for the tables and the chart.")] = Path(
        "results"
    ),
    cache: Annotated[
        Path | None, typer.Option(help="Folder for finished work; a per-user one by default.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLACE",
            help="A method of your own, package.module:function, or a name from 'nora methods', as a row "
            "beside the others; may be given several times.",
        ),
    ] = None,
    share: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, metavar="X", help="Share of nodes methods may learn from."),
    ] = 0.1,
    sample: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="N", help="Of how many random nodes the truth is known (arxiv alone)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of splits, weights and labelled nodes.")] = 0,
    finished: Annotated[
        bool,
        typer.Option(
            "--finished", help="Do no work; tell of the cells that are finished, and which are not."
        ),
    ] = False,
    earlier: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="FILE",
            help="The JSON file of an earlier report with the same settings: its cells count as finished; "
            "may be given several times.",
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The JSON file of the same report with the other protocol, to stand beside this one.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run one of the paper's experiments and put the result beside the paper's figures.

    Everything that is made (trained models, scores, tuned options) is kept under a name made of its
    content: an interrupted experiment goes on where it stopped, and experiments share their work.

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
    from nora.experiments import RECIPES

    if experiment == "list":
        from nora.cli.display import print_entries

        print_entries(RECIPES.listing())
        return
    RECIPES.check(experiment)
    files = tuple(earlier or ())
    inputs = read_from(
        *files, *([beside] if beside else ()), *(file.with_suffix(".parquet") for file in files)
    )
    for ending in (".md", ".json", ".png", ".parquet"):
        check_file(out / f"{experiment}{ending}", force, inputs)

    from nora.datasets import DATASETS, cache_folder
    from nora.models import MODELS

    for text, family in ((datasets, DATASETS), (models, MODELS)):
        for name in _names(text, ()):
            family.check(name)

    from nora.experiments.cells import profile_named
    from nora.experiments.conduct import conduct, only_cells
    from nora.experiments.lab import Lab
    from nora.experiments.protocol import protocol_named

    way = protocol_named(protocol)
    entry, size = RECIPES[experiment], profile_named(profile)
    chosen: dict[str, tuple[str, ...]] = {
        "datasets": _names(datasets, entry.facts.datasets),
        "models": _names(models, entry.facts.models),
        "tasks": _names(tasks, entry.facts.tasks),
    }
    for name in chosen["tasks"]:
        if name not in ("node", "link"):
            raise ValueError(f"--tasks names {name!r}; it takes node, link or node,link")
    if not 0 < share < 1:
        raise ValueError(f"--share must lie between 0 and 1, got {share:g}")
    if method and not entry.facts.takes_methods:
        takers = ", ".join(one.name for one in RECIPES if one.facts.takes_methods)
        raise ValueError(f"{experiment} compares no further methods; --method is for {takers}")
    if sample is not None and entry.facts.sample is None:
        takers = ", ".join(one.name for one in RECIPES if one.facts.sample is not None)
        raise ValueError(f"{experiment} knows the truth of all nodes; --sample is for {takers}")
    if earlier or beside:
        from nora.experiments.earlier import from_parts

        from_parts(experiment)  # or it is refused
    from nora.experiments.stranger import method_named

    own = tuple(dict.fromkeys(method_named(text) for text in method or ()))
    kept = cache or cache_folder() / "experiments"
    check_folder(kept)
    lab = Lab(
        kept,
        size,
        chosen["datasets"],
        chosen["models"],
        chosen["tasks"],
        cycles=cycles or entry.facts.cycles or size.cycles,
        share=share,
        seed=seed,
        methods=own,
        sample=sample,
        protocol=way,
    )
    if cells is not None:
        lab = only_cells(experiment, lab, _names(cells, ()))
    way.check(lab.cells)
    command = ["nora", "reproduce", experiment, "--profile", profile]
    if protocol != "clean":
        command += ["--protocol", protocol]
    for key, value in chosen.items():
        command += [f"--{key}", ",".join(value)]
    if cells is not None:
        command += ["--cells", ",".join(_names(cells, ()))]
    command += ["--cycles", str(lab.cycles), "--share", f"{share:g}", "--seed", str(seed)]
    if sample is not None:
        command += ["--sample", str(sample)]
    for text in method or ():
        command += ["--method", text]
    if finished:
        command.append("--finished")
    for file in files:
        command += ["--with", str(file)]
    if beside is not None:
        command += ["--beside", str(beside)]
    try:
        report = conduct(
            experiment,
            lab,
            out,
            shlex.join(command),
            say=(lambda _: None) if json else (lambda text: typer.echo(text, err=True)),
            finished=finished,
            earlier=files,
            beside=beside,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"finished work is kept in {kept}; the same command goes on from there"
        ) from None
    if json:
        print_json({"experiment": experiment, "out": str(out), "title": report.title})
        return
    say(report.title)
    for heading, table in report.tables:
        if len(table) <= SHOWN_ROWS:
            print_wide_table(table, heading, KEYS)
    endings = [".md", ".json", *([".png"] if report.figure else []), *report.files]
    say(f"Written: {out / experiment}{', '.join(endings)}")


def _names(text: str | None, default: tuple[str, ...]) -> tuple[str, ...]:
    """Names with commas.

    >>> _names("cora, pubmed", ())
    ('cora', 'pubmed')
    """
    if text is None:
        return default
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ValueError("no name is given: give some with commas, e.g. cora,pubmed")
    return names
