"""`nora inspect`."""

from __future__ import annotations

from nora.cli.display import Json, print_json, print_text
from nora.cli.parameters import RunFolder


def inspect(run: RunFolder, json: Json = False) -> None:
    """Show how the exact engine compiles a run's model.

    Layers, operations and passes; for an unsupported model, the source lines that block it.

    \b
    Example:
      nora inspect runs/cora-gcn
    """
    import nora

    trained = nora.load_run(run)
    report = nora.explain_engine(trained.model, trained.data, trained.task)
    if json:
        print_json({"run": str(run), **report.to_dict()})
    else:
        print_text(str(report))
