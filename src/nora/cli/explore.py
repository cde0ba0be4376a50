"""`nora explore`: a run, live in the browser."""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nora.cli.display import print_text
from nora.cli.parameters import trained_run

if TYPE_CHECKING:
    from nora import Influence, Run
    from nora.explorer.serving import Explorer


def explore(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="A run of 'nora train', or the results of 'nora run'.",
            show_default=False,
        ),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="The small social network of 'nora demo'.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Where to listen; 0: any free port.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser.")
    ] = True,
) -> None:
    """Explore a run in the browser: click a node, see which predictions its removal changes.

    Nodes and edges can be removed, added and restored; the page shows which predictions flip, the effect of
    each edit alone and of all together, and exports pictures, tables and programs. It is served to this
    machine only, at an address with a token, and loads nothing from elsewhere. Ctrl-C stops it.
    Needs: pip install 'nora-influence\\[explore]'.

    \b
    Example:
      nora explore --demo
      nora explore runs/cora-gcn
      nora explore results --port 8765 --no-browser
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise ImportError(
            "the explorer needs starlette and uvicorn: pip install 'nora-influence[explore]'"
        )
    if demo and run is not None:
        raise ValueError(f"give either a run or --demo, not both: nora explore {run}")
    if not demo and run is None:
        raise ValueError("give a run to explore, e.g. nora explore runs/cora-gcn, or --demo")

    import nora
    from nora.explorer.origin import DEMO, of_folder

    trained, scores, title = _demo() if run is None else _read(run)
    targets = None if run is None else _targets(run)
    if targets is not None:
        print_text(
            f"Only the change of the predictions for {len(targets):,} nodes counts, as in {run}."
        )
    print_text("Preparing …")
    explorer = nora.explore(
        trained.model,
        trained.data,
        trained.task,
        scores=scores,
        names=trained.dataset.node_names,
        class_names=trained.dataset.class_names,
        labels=trained.dataset.data.y if trained.task.name == "node" else None,
        targets=targets,
        feature_names=trained.dataset.feature_names,
        title=title,
        port=port,
        browser=False,
        run=DEMO if run is None else of_folder(str(run)),
    )
    print(f"Explorer: {explorer.url}", flush=True)
    print_text("Ctrl-C stops it; Enter shows another address (each works once).")
    if browser and not explorer.open():
        print_text("No browser could be opened: copy the address into one on this machine.")
    if sys.stdin.isatty():
        threading.Thread(target=_offer, args=(explorer,), daemon=True).start()
    explorer.wait()


def _offer(explorer: Explorer) -> None:
    """Another address for every Enter."""
    for _ in sys.stdin:
        if explorer.running:
            print(f"Explorer: {explorer.url}", flush=True)


def _demo() -> tuple[Run, None, str]:
    import nora

    return nora.train("gcn", "polarised"), None, "A polarised network"


def _read(given: Path) -> tuple[Run, Influence | None, str]:
    """A run, and the scores beside it, where they are."""
    import nora
    from nora.analysis.output_folder import page_title

    folder = trained_run(given)
    trained = nora.load_run(folder)
    if folder == given:
        return trained, None, given.absolute().name
    title = page_title(given) or ""
    table = given / "scores.parquet"
    if not table.exists():
        return trained, None, title
    return trained, nora.Influence.load(table), title


def _targets(results: Path) -> list[int] | None:
    """The nodes whose predictions counted in the results of `nora run`; None for all."""
    from nora.analysis.output_folder import ABOUT
    from nora.files import read_json

    if trained_run(results) == results or not (results / ABOUT).exists():
        return None
    return read_json(results / ABOUT).get("options", {}).get("targets")
