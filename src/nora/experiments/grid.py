"""The grid of cells of `nora reproduce`, and how it is run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nora.experiments import RECIPES
from nora.options import Options, option, setting
from nora.registry import member_of

if TYPE_CHECKING:
    from nora.experiments.lab import Lab


@dataclass(frozen=True)
class Grid(Options):
    """The cells of an experiment, and what all of them have in common."""

    datasets: str | None = setting(None, "Datasets, separated by commas.", metavar="NAMES")
    models: str | None = setting(None, "Models, separated by commas.", metavar="NAMES")
    tasks: str | None = setting(None, "node, link or both.", metavar="NAMES")
    cells: str | None = setting(
        None,
        "Only these of the cells, separated by commas: cora-gat-link,cora-gcn-node.",
        metavar="NAMES",
    )
    cycles: int | None = setting(
        None, "How many of the five cyclic splits.", metavar="N", least=1, most=5
    )
    profile: str = setting(
        "compact", "How large: quick (minutes), compact (hours) or paper (a day)."
    )
    protocol: str = setting(
        "clean",
        "clean (no test links in message passing, random labelled nodes, tuned options) or published (as the "
        "paper's scripts do it, with its options).",
    )
    share: float = setting(
        0.1, "Share of the nodes that methods may learn from.", metavar="X", least=0.0, most=1.0
    )
    sample: int | None = setting(
        None, "How many random nodes to compute the truth of (arxiv only).", metavar="N", least=2
    )
    seed: int = setting(0, "Seed of splits, weights and labelled nodes.")

    def names(self, experiment: str) -> dict[str, tuple[str, ...]]:
        """Datasets, models and tasks; those of the experiment where none are given."""
        facts = RECIPES[experiment].facts
        return {
            key: split_names(getattr(self, key), getattr(facts, key))
            for key in ("datasets", "models", "tasks")
        }

    def check(self) -> None:
        """Raise for names that do not exist; nothing is loaded for it."""
        from nora.datasets import DATASETS
        from nora.models import MODELS

        for text, family in ((self.datasets, DATASETS), (self.models, MODELS)):
            for name in split_names(text):
                family.check(name)
        for name in split_names(self.tasks):
            if name not in ("node", "link"):
                raise ValueError(
                    f"{option('tasks')} names {name!r}; it takes node, link or node,link"
                )
        if not 0 < self.share < 1:
            raise ValueError(f"{option('share')} must lie between 0 and 1, got {self.share:g}")

    def lab(self, experiment: str, cache: Path, methods: Sequence[str] = ()) -> Lab:
        """The lab for these settings; contradicting settings are rejected.

        Args:
            experiment: The recipe.
            cache: Folder of its cache.
            methods: Custom methods, by their names in `METHODS`.
        """
        from nora.experiments.cells import PROFILES
        from nora.experiments.lab import Lab
        from nora.experiments.protocol import PROTOCOLS
        from nora.experiments.runner import only_cells

        profile = member_of("profile", self.profile, PROFILES)
        protocol = member_of("protocol", self.protocol, PROTOCOLS)
        if self.sample is not None and RECIPES[experiment].facts.sample is None:
            takers = ", ".join(one.name for one in RECIPES if one.facts.sample is not None)
            raise ValueError(
                f"{experiment} knows the truth of all nodes; {option('sample')} is for {takers}"
            )
        names: dict[str, Any] = {**self.names(experiment)}
        lab = Lab(
            cache,
            profile,
            **names,
            cycles=self.cycles or RECIPES[experiment].facts.cycles or profile.cycles,
            share=self.share,
            seed=self.seed,
            methods=methods,
            sample=self.sample,
            protocol=protocol,
        )
        if self.cells is not None:
            lab = only_cells(experiment, lab, split_names(self.cells))
        protocol.check(lab.cells)
        return lab

    def command(self, experiment: str, cycles: int) -> list[str]:
        """The words of the command that asks for the same."""
        words = ["nora", "reproduce", experiment, "--profile", self.profile]
        if self.protocol != "clean":
            words += ["--protocol", self.protocol]
        for key, names in self.names(experiment).items():
            words += [f"--{key}", ",".join(names)]
        if self.cells is not None:
            words += ["--cells", ",".join(split_names(self.cells))]
        words += ["--cycles", str(cycles), "--share", f"{self.share:g}", "--seed", str(self.seed)]
        return words + ([] if self.sample is None else ["--sample", str(self.sample)])


@dataclass(frozen=True)
class Working:
    """How a recipe is run.

    Attributes:
        finished: Do no work; report the cells that are finished.
        earlier: JSON files of earlier reports: their cells count as finished. Cells in the cache come first,
            then those of the files in their order.
        beside: The JSON file of the report made with the other protocol, to stand beside this one.
        progress: Show a progress bar over the whole plan.
        log: Called with a line about every step that is done, and what is left.
    """

    finished: bool = False
    earlier: Sequence[Path] = ()
    beside: Path | None = None
    progress: bool = False
    log: Callable[[str], None] = field(default=lambda _: None)

    @property
    def flags(self) -> list[str]:
        """The words of a command that work in this way."""
        given = [word for file in self.earlier for word in ("--with", str(file))]
        beside = [] if self.beside is None else ["--beside", str(self.beside)]
        return [*(["--finished"] if self.finished else []), *given, *beside]


def shell_command(
    grid: Grid, lab: Lab, experiment: str, working: Working, own: Sequence[str]
) -> str:
    """The command that does the same again, for the record."""
    methods = [word for text in own for word in ("--method", text)]
    return shlex.join([*grid.command(experiment, lab.cycles), *methods, *working.flags])


def split_names(text: str | None, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Names with commas.

    >>> split_names("cora, pubmed")
    ('cora', 'pubmed')
    """
    if text is None:
        return default
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ValueError("no name is given: give some with commas, e.g. cora,pubmed")
    return names
