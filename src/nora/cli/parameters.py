"""Convert typed arguments to those of the API; all checks happen before any long work."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nora.artefact import MANIFEST
from nora.options import Options, setting
from nora.outputs import OLD_RUN
from nora.registry import nearest

if TYPE_CHECKING:
    from nora import Run
    from nora.datasets import Dataset


def trained_run(folder: Path) -> Path:
    """The folder of a trained run: the one that is given, or the one inside the results of `nora run`."""
    inside = folder / "run"
    return inside if any((inside / name).exists() for name in (MANIFEST, OLD_RUN)) else folder


RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="A run of 'nora train', or the results of 'nora run'.",
        callback=trained_run,
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace existing files; never an input of the run.")
]
HowMany = Annotated[int, typer.Option(min=1, metavar="N", help="How many to print.")]
MeasureName = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="What to sum: change, flips, loss, accuracy, loss:test, class:NAME."
    ),
]


@dataclass(frozen=True)
class TargetOptions(Options):
    """Which predictions count, and which engine computes them."""

    targets: tuple[str, ...] = setting(
        (),
        "Count only the change of these nodes' predictions: ids or names, 'labelled', or a 0/1 feature, e.g. "
        "kind=user; for link runs, of these positions in the list of pairs.",
        metavar="IDS",
    )
    engine: Path | None = setting(
        None,
        "An engine saved by 'nora prepare'; default: RUN/engine if it exists.",
        metavar="FOLDER",
    )


def parse_nodes(
    texts: Iterable[str], names: Sequence[str] | None, count: int, what: str = "node"
) -> list[int]:
    """Node ids from ids and names, each alone or several with commas.

    A name may itself hold commas: it is found where the text can be read in one way only, and may be
    quoted as in a CSV file (`"Ryan, Paul",bob`).

    Args:
        texts: What was typed, e.g. `["17,42", "@fenupo"]`.
        names: The nodes' names, when they have any.
        count: How many nodes there are.
        what: What the ids count, for messages.

    Example:
        >>> parse_nodes(["2,0", "ann"], ["ann", "bob", "eve"], 3)
        [2, 0, 0]
        >>> parse_nodes(['Doe, Jo,bob', '"Doe, Jo"'], ["ann", "bob", "Doe, Jo"], 3)
        [2, 1, 2]
    """
    known = {name: node for node, name in enumerate(names or ())}
    ids: list[int] = []
    for text in texts:
        ids += [_node(part, known, count, what) for part in _parts(text, known)]
    if not ids:
        raise ValueError(f"no {what} is named: give ids or names, e.g. 17 or 17,42")
    return ids


def _parts(text: str, known: dict[str, int]) -> list[str]:
    """The text, split at the commas between names, not at those within a name."""
    if text in known:
        return [text]
    pieces = [piece for piece in text.split(",") if piece.strip()]
    if not any("," in name for name in known):
        plain = [piece.strip() for piece in pieces]
    else:
        ways = _readings(text.split(","), known)
        if len(ways) > 1:
            raise ValueError(
                f"{text!r} can be read as {_quoted(ways[0])} or {_quoted(ways[1])}: put names that hold "
                "commas into double quotes"
            )
        plain = ways[0] if ways else [piece.strip() for piece in pieces]
        if not ways and '"' not in text and (close := nearest(text, list(known))):
            raise ValueError(f"no node is named {text!r}.{close}")
    if '"' not in text or all(part in known for part in plain):
        return plain
    try:
        cells = next(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error:
        raise ValueError(f"{text!r} has a quote that is not closed") from None
    return [cell.strip() for cell in cells if cell.strip()]


def _readings(pieces: list[str], known: dict[str, int]) -> list[list[str]]:
    """Up to two ways to join neighbouring pieces so that all are names or numbers."""
    longest = 1 + max(name.count(",") for name in known)
    # From the end: how what follows each piece can be read.
    after: list[list[list[str]]] = [[[]]]
    for start in range(len(pieces) - 1, -1, -1):
        found: list[list[str]] = []
        for end in range(start + 1, min(start + longest, len(pieces)) + 1):
            first = ",".join(pieces[start:end]).strip()
            if first in known or (end == start + 1 and (first.isdecimal() or not first)):
                found += [[first, *rest] if first else rest for rest in after[len(pieces) - end]]
        after.append(found[:2])
    return after[-1]


def _quoted(parts: list[str]) -> str:
    return ", ".join(f'"{part}"' for part in parts)


def _node(text: str, known: dict[str, int], count: int, what: str) -> int:
    if text in known:
        return known[text]
    try:
        # Where names are numbers, a number is a name, never the id of another node.
        node = int("" if any(name.isdecimal() for name in known) else text)
    except ValueError:
        if known:
            raise ValueError(f"no {what} is named {text!r}.{nearest(text, list(known))}") from None
        raise ValueError(
            f"invalid {what} {text!r}: expected an id, as this graph's {what}s have no names"
        ) from None
    if not 0 <= node < count:
        raise ValueError(
            f"{what} {node} is out of range: the graph has {count} {what}s (0 … {count - 1})"
        )
    return node


def parse_edges(
    texts: Iterable[str], names: Sequence[str] | None, count: int
) -> list[tuple[int, int]]:
    """Edges as `A-B` or `A,B`, one per text, each end an id or a name.

    A name may itself contain a hyphen or a comma: the text is split where both sides are nodes, and rejected
    if there are several such positions.

    Args:
        texts: What was typed, e.g. `["3-17", "ann-jean-luc"]`.
        names: The nodes' names, when they have any.
        count: How many nodes there are.

    Example:
        >>> parse_edges(["0-2", "0,1", "jean-luc - ann"], ["ann", "bob", "jean-luc"], 3)
        [(0, 2), (0, 1), (2, 0)]
    """
    known = {name: node for node, name in enumerate(names or ())}
    return [_edge(text, known, count) for text in texts]


def _edge(text: str, known: dict[str, int], count: int) -> tuple[int, int]:
    found: dict[tuple[int, int], tuple[str, str]] = {}
    problems: list[str] = []
    for split in (at for at, letter in enumerate(text) if letter in "-,"):
        ends = text[:split].strip(), text[split + 1 :].strip()
        try:
            found[_node(ends[0], known, count, "node"), _node(ends[1], known, count, "node")] = ends
        except ValueError as problem:
            problems.append(str(problem))
    if len(found) > 1:
        ways = " or ".join(f"{first!r} and {second!r}" for first, second in found.values())
        raise ValueError(f"edge {text!r} can be read as {ways}: give the nodes' ids, e.g. 3-17")
    if found:
        return next(iter(found))
    if not problems:
        raise ValueError(f"edge {text!r} is not of the form A-B, e.g. 3-17 or 3,17")
    why = (
        problems[0] if len(problems) == 1 else "no hyphen or comma has a node on both of its sides"
    )
    raise ValueError(f"edge {text!r}: {why}")


def parse_targets(texts: Iterable[str], trained: Run) -> list[int]:
    """The value of `targets=`: node ids, or for link runs positions in the list of pairs."""
    count = trained.task.num_items(int(trained.data.num_nodes or 0))
    if trained.task.name == "node":
        return parse_node_targets(texts, trained.dataset)
    return parse_nodes(texts, None, count, "pair")


def parse_node_targets(texts: Iterable[str], dataset: Dataset) -> list[int]:
    """Node ids from ids and names, from `labelled`, and from names of 0/1 features."""
    from nora.training.targets import group_of

    count, found = int(dataset.data.num_nodes or 0), []
    for text in texts:
        group = group_of(dataset, text.strip())
        found += (
            parse_nodes([text], dataset.node_names, count, "target") if group is None else group
        )
    return found


def parse_options(texts: Iterable[str], method: str) -> dict[str, Any]:
    """The method's options from `key=value` texts, checked against the method's signature."""
    from nora.methods import METHODS
    from nora.questions.influence import bind_options

    options = dict(_option(text) for text in texts)
    bind_options(METHODS[method], options)
    return options


def _option(text: str) -> tuple[str, Any]:
    """Key and value; a value that reads as JSON is one (`0.5`, `true`), else it is a word.

    >>> _option("tolerance=1e-4"), _option("weighting=own")
    (('tolerance', 0.0001), ('weighting', 'own'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"--option {text!r} is not of the form key=value, e.g. tolerance=1e-4")
    try:
        return key.strip().replace("-", "_"), json.loads(value)
    except json.JSONDecodeError:
        return key.strip().replace("-", "_"), value


def parse_shard(text: str) -> tuple[int, int]:
    """`"2/8"` as `(2, 8)`: the second of eight equal parts.

    >>> parse_shard("2/8")
    (2, 8)
    """
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ValueError(f"--shard {text!r} is not of the form i/n with 1 ≤ i ≤ n, e.g. 2/8")
    return int(part), int(parts)
