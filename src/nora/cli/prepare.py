"""`nora prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nora.cli.display import Json, print_json, print_text
from nora.cli.parameters import Force, RunFolder
from nora.outputs import ENGINE, remedy


def prepare(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to save it; default: RUN/engine.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Memory limit, e.g. 8GB; default: the free memory."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Prepare the exact engine of a run once, and save it to disk.

    Rankings of the run, also by several processes at a time, then open the saved engine instead of preparing
    one. The engine is compared with full passes of the model before it is saved.

    \b
    Example:
      nora prepare runs/cora-gcn
      nora rank runs/cora-gcn --method exact --shard 1/2 --checkpoint parts/1
      nora prepare runs/cora-gcn --out /scratch/engine
      nora rank runs/cora-gcn --engine /scratch/engine
    """
    import nora
    from nora.engine.store.array_folder import Reader
    from nora.questions.prepare import check_place
    from nora.training.run_folder import cover_engine

    folder = run / ENGINE if out is None else out
    check_place(folder, force, remedy())
    trained = nora.load_run(run)
    nora.prepare(trained.model, trained.data, folder, trained.task, memory=memory, replace=force)
    if folder == run / ENGINE:
        cover_engine(run)
    kept = Reader(folder)
    if json:
        print_json({"run": str(run), "out": str(folder), "bytes": kept.bytes})
        return
    print_text(
        f"The engine of {kept.manifest['num_nodes']:,} nodes and {kept.manifest['num_edges']:,} edges is in "
        f"{folder}: {kept.bytes / 1e6:,.1f} MB, compared with {kept.manifest['verified']['verified']} full "
        "passes"
    )
