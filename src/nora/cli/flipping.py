"""`nora flip`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nora.cli.answer import asked
from nora.cli.display import Json, print_json, print_table, print_text
from nora.cli.parameters import Force, RunFolder
from nora.outputs import check_file, read_from
from nora.wording import count, duration


def flip(
    run: RunFolder,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Whose prediction: an id or a name.")],
    by: Annotated[
        str, typer.Option(metavar="WHAT", help="What to remove: nodes or edges.")
    ] = "nodes",
    to: Annotated[
        str | None, typer.Option(metavar="CLASS", help="The class to flip to; default: any other.")
    ] = None,
    at_most: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many to remove at most.")
    ] = 5,
    pairs: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="How many pairs to try at most.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the removals to this .json file, as edits.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the smallest set of nodes or edges whose removal changes this node's predicted class.

    NORA tries every single removal that can affect the node, then every pair if there are few enough. For
    larger sets it adds the most helpful removals one at a time. The result reports what was tried, and
    whether a smaller set is ruled out.

    \b
    Example:
      nora flip runs/cora-gcn 17
      nora flip runs/cora-gcn 17 --by edges --at-most 3
      nora flip runs/polarised-gcn @fenupo --by edges --to "camp 2" --out edits.json
    """
    if by not in ("nodes", "edges"):
        raise ValueError(f"--by is {by!r}; it must be nodes or edges")
    if out is not None:
        if out.suffix != ".json":
            raise ValueError(f"cannot write edits to {out.name!r}: use a .json name")
        check_file(out, force, read_from(run))

    given = asked(run)
    asked_about = given.node(node, repr(node))
    found = given.session.flip(asked_about, to, by=by, at_most=at_most, pairs=pairs)
    if out is not None and found.size:
        found.save(out)
    if json:
        written = None if out is None or not found.size else str(out)
        print_json({"run": str(run), **found.to_dict(), "out": written})
        return
    name = given.called(asked_about)
    proof = f"{found.proof} ({duration(found.seconds)})"
    if not found.size:
        wanted = "another class" if found.to is None else found.class_name(found.to)
        print_text(f"No removal was found that flips {name} to {wanted}. {proof}")
        return
    start, end = found.class_name(found.from_class), found.class_name(found.to_class)
    title = f"{name}: {start} → {end} without {count(found.size, by[:-1])}"
    print_table(found.to_frame(), title)
    print_text(proof)
    if out is not None:
        print_text(f"The edits are in {out}")
