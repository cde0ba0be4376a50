"""Options of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nora.options import Options, setting

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from nora.results.stability import Stability
    from nora.training.trust import Trust


@dataclass(frozen=True)
class ReportOptions(Options):
    """Options of a report: which parts it shows, and how much of each."""

    names: Sequence[str] | None = setting(None, "The nodes' names; those of the scores by default.")
    class_names: Sequence[str] | None = setting(None, "The classes' names.")
    labels: Tensor | Sequence[int] | None = setting(
        None, "Known classes `[num_nodes]`, −1 where unknown; `data.y` by default."
    )
    title: str | None = setting(None, "What the data are called, below the headline.")
    metrics: Mapping[str, Any] | None = setting(
        None,
        "How good the model is, e.g. `run.metrics`; `baseline` is what could be had without a model.",
    )
    notes: tuple[str, ...] = setting((), "Remarks for the end of the page.")
    warnings: tuple[str, ...] = setting(
        (), "What a reader must know first, e.g. that a surrogate model is weak."
    )
    effects: int | None = setting(
        None,
        "Of how many of the first nodes the page shows what their removal would change; as many as fit a "
        "page of 5 MB by default.",
        least=0,
    )
    edges: int = setting(
        100,
        "How many of the most influential edges the page lists. Where removing each would take long, those "
        "at the most influential nodes are removed, with a note.",
        least=0,
    )
    seed: int = setting(0, "Seed of the graph's layout.")
    graph: Data | None = setting(
        None,
        "The whole graph, where `data` has a part of its edges only, e.g. those that a model of links was "
        "trained on: for degrees, PageRank, the number of edges and the drawing.",
    )
    model_name: str | None = setting(None, "What the model is called, e.g. `gcn`.")
    run: str | None = setting(
        None, "The folder of the trained run, for the commands that the page suggests."
    )
    trust: Trust | None = setting(
        None,
        "The verdict on the model (`nora.training.trust.assess(run)`); of `metrics` by default.",
    )
    stability: Stability | None = setting(
        None,
        "Influences of other models trained on the same data: how far the ranking holds for them.",
    )
