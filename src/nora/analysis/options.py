"""Options of `nora.analyse` and `nora run`: defaults, checks and help texts.

Importing it does not load torch, so that invalid options are rejected at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from nora.methods import METHODS
from nora.models import MODELS
from nora.options import Options, option, setting


@dataclass(frozen=True)
class ReadOptions(Options):
    """How files are read."""

    directed: bool = setting(False, "Edges go from source to target only.")
    encoding: str = setting(
        "auto",
        "Features for nodes without any: auto, degree, onehot, random, random-walk, or several joined by +.",
        metavar="NAME",
    )
    ignore: tuple[str, ...] = setting(
        (), "Leave these columns out: names, separated by commas.", metavar="COLUMNS", commas=True
    )
    label_column: str | None = setting(
        None,
        "The column of the labels or features, or the node attribute, to predict.",
        metavar="NAME",
        shown="label or class",
    )
    source_column: str | None = setting(
        None,
        "The column of the edges that holds the source.",
        metavar="NAME",
        shown="source",
    )
    target_column: str | None = setting(
        None, "The column that holds the target.", metavar="NAME", shown="target"
    )
    weight_column: str | None = setting(
        None, "The column that holds the weight.", metavar="NAME", shown="weight"
    )
    type_column: str | None = setting(
        None, "The column that holds the type of the edge.", metavar="NAME", shown="type"
    )


@dataclass(frozen=True)
class TrainOptions(Options):
    """Which models are trained, and how."""

    model: str | None = setting(
        None, "A name from 'nora models'.", shown="auto: rgcn for typed edges, else gcn"
    )
    models: tuple[str, ...] = setting(
        (),
        "Several architectures, separated by commas; the first is shown, the others are compared with it.",
        metavar="NAMES",
        commas=True,
    )
    repeats: int = setting(
        1,
        "Train this many models of each architecture, to see whether the ranking holds.",
        metavar="N",
        least=1,
    )
    task: str | None = setting(
        None,
        "node: predict labels. link: predict edges.",
        metavar="node|link",
        choices=("node", "link"),
        shown="node if there are labels",
    )
    seed: int = setting(0, "The same seed gives the same results.", least=0)
    epochs: int = setting(200, "Maximum number of epochs.", metavar="N", least=1)
    balanced: bool = setting(False, "Every class counts the same in training, however rare it is.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is not None and self.models:
            raise ValueError(
                f"{option('model')} names one architecture and {option('models')} several: give one of "
                "them"
            )
        if len(set(self.models)) < len(self.models):
            raise ValueError(
                f"{option('models')} names one twice: {', '.join(self.models)}; for other seeds give "
                f"{option('repeats')}"
            )
        for name in (self.model, *self.models):
            if name not in (None, "auto"):
                MODELS.check(name)


@dataclass(frozen=True)
class AskOptions(Options):
    """Options of the questions about the trained model."""

    targets: list[str] | Any = setting(
        None,
        "Count only the change of these nodes' predictions: ids, 'labelled', or a 0/1 feature, e.g. "
        "kind=user; repeatable.",
        metavar="IDS",
    )
    method: str = setting("auto", "A name from 'nora methods'.")
    also: tuple[str, ...] = setting(
        (), "Compare with this method; repeatable.", metavar="METHOD", commas=True
    )
    top: int = setting(10, "Write the effects of the first N nodes.", metavar="N", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (self.method, *self.also):
            METHODS.check(name)
        if len({self.method, *self.also}) < 1 + len(self.also):
            raise ValueError(
                f"{option('also')} names a method twice, or the one that {option('method')} names"
            )


@dataclass(frozen=True)
class ExecOptions(Options):
    """How the work is executed.

    `progress` shows progress bars, and `on_message` is called with each message; by default messages go to
    the logger `nora.analysis`.
    """

    memory: str | int | None = setting(
        None, "Memory limit, e.g. 4GB; work that needs more is rejected.", metavar="SIZE"
    )
    progress: bool = True
    on_message: Callable[[str], None] | None = None
    formerly: ClassVar[Mapping[str, str]] = {"tell": "on_message"}
