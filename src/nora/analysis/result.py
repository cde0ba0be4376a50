"""The results of an analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from nora.analysis.asking import gather
from nora.analysis.output_folder import check_results, page_title
from nora.analysis.stages import Stages
from nora.analysis.summary import GraphSummary
from nora.analysis.writing import write_results
from nora.outputs import read_from
from nora.questions.session import Session
from nora.report.options import ReportOptions
from nora.report.subject import Subject
from nora.results.effect import Effect
from nora.results.exactness import method_name
from nora.results.influence import Influence
from nora.results.stability import Stability
from nora.training.runs import Run
from nora.training.trust import Trust

NAMED_IN_REPR = 5


@dataclass(frozen=True, eq=False, repr=False)
class Analysis:
    """The results of `nora.analyse`.

    Attributes:
        graph: The dataset and notes that were read.
        run: The trained model with its graph, for further questions.
        session: The prepared session, for further questions.
        scores: Every node's influence, with names.
        others: Scores of other methods, for comparison.
        effects: The effects of removing each of the first nodes, in the order of the ranking.
        trust: How good the model is; `trust.weak` is true if its influences mean nothing for the data.
        notes: Findings and decisions, one sentence each.
        warnings: Cautions that the report starts with.
        options: The given options, with the defaults that NORA chose.
        inputs: The files: role, path, size and SHA-256; of a DataFrame rows and columns.
        seconds: Seconds of each stage.
        memory: Peak memory of each stage, in bytes.
        computing: CPU seconds of each stage, all cores together.
        stability: How far the ranking holds for other seeds and architectures, if there are any.
        subject: Everything that the report shows: effects, edges, fragile predictions.

    Example:
        >>> import nora
        >>> import pandas as pd
        >>> club = nora.load_dataset("karate").data
        >>> edges = pd.DataFrame(club.edge_index.t().tolist(), columns=["source", "target"])
        >>> labels = pd.DataFrame({"id": range(34), "label": club.y.tolist()})
        >>> found = nora.analyse(edges, labels=labels, epochs=20, progress=False, on_message=str)
        >>> found.top(3)["rank"].tolist(), found.trust.weak
        ([1, 2, 3], False)
    """

    graph: GraphSummary
    run: Run
    session: Session
    scores: Influence
    others: tuple[Influence, ...]
    effects: tuple[Effect, ...]
    trust: Trust
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    options: Mapping[str, Any]
    inputs: tuple[Mapping[str, Any], ...]
    seconds: Mapping[str, float]
    memory: Mapping[str, int] = field(default_factory=dict)
    computing: Mapping[str, float] = field(default_factory=dict)
    stability: Stability | None = None
    subject: Subject | None = None

    def __repr__(self) -> str:
        best = self.top(NAMED_IN_REPR)
        first = ", ".join(
            f"{name} {influence:.3g}"
            for name, influence in zip(best["name"], best["influence"], strict=True)
        )
        lines = [
            f"Analysis of {self.graph}",
            f"  the model ({self.run.architecture['name']}) {self.trust.finding}",
            f"  most influential ({method_name(self.scores)}): {first}",
            *([f"  {self.stability.finding}"] if self.stability is not None else []),
            *(f"  warning: {text}" for text in self.warnings),
        ]
        return "\n".join(lines)

    def top(self, k: int = 10) -> pd.DataFrame:
        """The `k` most influential nodes, with names."""
        return self.scores.top(k)

    @property
    def asks(self) -> tuple[Session, tuple[Influence, ...]]:
        """The session for further questions, the scores, and the scores of the methods to compare with."""
        return self.session, (self.scores, *self.others)

    def with_subject(self, stages: Stages) -> Analysis:
        """The same with everything a page shows, and the times of all stages."""
        with stages.measured("asking for the page"):
            subject = gather(*self.asks, self.report_options(), stages.progress)
        return replace(
            self,
            subject=subject,
            seconds=stages.seconds,
            memory=stages.memory,
            computing=stages.computing,
        )

    def report_options(self, folder: Path | None = None) -> ReportOptions:
        """Options of the report of these results; `folder` holds the results."""
        run, dataset = self.run, self.run.dataset
        return ReportOptions(
            names=self.scores.names,
            class_names=dataset.class_names,
            labels=dataset.data.y if run.task.name == "node" else None,
            title=None if folder is None else page_title(folder),
            metrics=run.metrics,
            trust=self.trust,
            notes=self.notes,
            warnings=self.warnings,
            seed=run.seed,
            graph=dataset.data,
            model_name=run.architecture["name"],
            run=None if folder is None else str(folder / "run"),
            stability=self.stability,
        )

    def save(self, folder: str | Path, force: bool = False, progress: bool = True) -> Path:
        """Write the page, the tables, the graph for Gephi and the trained run into `folder`.

        The folder is there complete or not at all, and nothing of yours is ever overwritten.

        Args:
            folder: A new or an empty one.
            force: Replace earlier results, and nothing else.
            progress: Show progress bars.

        Returns:
            The folder.
        """
        folder = Path(folder)
        check_results(folder, force, read_from(made_from=self.inputs))
        write_results(self, folder, progress)
        return folder
