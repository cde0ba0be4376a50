"""The answer of a command: a file, and a table for people or a JSON document for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nora.cli.display import print_json, print_table, print_text
from nora.cli.parameters import TargetOptions, parse_nodes, parse_targets
from nora.options import Options, setting
from nora.outputs import ENGINE, check_table, read_from

if TYPE_CHECKING:
    import pandas as pd

    from nora import Run, Session


@dataclass(frozen=True)
class AnswerOptions(Options):
    """Options of the output: file, JSON, table."""

    out: Path | None = setting(None, "Write the whole result to this .csv or .parquet file.")
    force: bool = setting(False, "Replace existing files; never an input of the run.")
    json: bool = setting(False, "Print one JSON document instead of tables, for programs.")

    def check(self, *inputs: Path | None) -> None:
        """Raise when the file cannot be written, before any long work."""
        check_table(self.out, self.force, read_from(*inputs))

    def give(
        self, found: Any, document: Mapping[str, Any], table: pd.DataFrame, title: str, *notes: str
    ) -> None:
        """Save what was found, and print it.

        Args:
            found: The result, to be saved.
            document: What programs get, besides `out`.
            table: What people get.
            title: The table's heading.
            notes: Lines below the table.
        """
        if self.out is not None:
            found.save(self.out, replace=self.force)
        if self.json:
            print_json({**document, "out": None if self.out is None else str(self.out)})
            return
        print_table(table, title)
        for note in notes:
            print_text(note)
        if self.out is not None:
            print_text(f"Written to {self.out}")


@dataclass(frozen=True)
class RunSession:
    """A run that a command asks about.

    Attributes:
        run: The trained run.
        session: A session of it, with its saved engine if there is one.
    """

    run: Run
    session: Session

    def nodes(self, *texts: str) -> list[int]:
        """Node ids from ids and names."""
        return parse_nodes(texts, self.run.dataset.node_names, self.session.num_nodes)

    def node(self, text: str, given: str) -> int:
        """The id of one node; `given` is the argument, for messages."""
        ids = set(self.nodes(text))
        if len(ids) > 1:
            raise ValueError(f"{given} names {len(ids)} nodes; ask about one at a time")
        return ids.pop()

    def called(self, node: int) -> str:
        """A node's name, or `node 17`."""
        names = self.run.dataset.node_names
        return names[node] if names else f"node {node}"


def asked(folder: Path, counting: TargetOptions | None = None) -> RunSession:
    """A run and its session; which predictions count, and which saved engine is used."""
    import nora

    trained = nora.load_run(folder)
    if counting is None:
        return RunSession(trained, trained.session())
    targets = parse_targets(counting.targets, trained) if counting.targets else None
    engine = counting.engine
    if engine is None and (folder / ENGINE).exists():
        engine = folder / ENGINE
    return RunSession(trained, trained.session(targets=targets, engine=engine))
