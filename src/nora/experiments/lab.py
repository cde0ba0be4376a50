"""The lab of experiments: every result is computed once, and cached under a hash of its content.

A run is named by its dataset, architecture, settings, split and seed; scores by their run and their method's
options; each also by the code that computes it (`nora.experiments.sources`), except the truth, which outlives
it (`nora.experiments.cached_truth`). So an interrupted experiment continues where it stopped, and experiments
share what they have in common. Each of these is a `Step`: `lab.run_step(…)`, `lab.score_step(…)`.

Methods are tuned on the labelled nodes alone. NORA's search costs next to nothing and looks at all
cycles; a method that is tried setting by setting is tuned on the first cycle, for all.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nora import __version__
from nora.datasets import DATASETS, Dataset, load_dataset
from nora.experiments.cache import Step, read_numbers, write_numbers
from nora.experiments.cached_truth import DEFINITION, load_truth, save_truth, truth_facts
from nora.experiments.cells import Cell, Profile
from nora.experiments.protocol import CLEAN, Protocol
from nora.experiments.sources import SCORING, TRAINING, code_digest
from nora.methods import METHODS
from nora.model import build_problem
from nora.model.checks import check_model
from nora.model.fingerprint import digest, graph_fingerprint
from nora.models import MODELS
from nora.questions.influence import influence
from nora.results.influence import Influence
from nora.training.fits import FITS
from nora.training.run_folder import read_facts
from nora.training.runs import Run, about_task, load_run
from nora.training.train import train
from nora.tuning.searches import SEARCHES
from nora.tuning.tune import Tuned, tune_problems

TRUTH = "exact"


@dataclass(frozen=True)
class Lab:
    """Trains, scores and tunes for experiments, each once.

    Attributes:
        cache: Folder for all results.
        profile: How large.
        datasets, models, tasks: What to run over.
        cycles: How many of the five cyclic splits.
        share: Share of the nodes whose true influence methods may see.
        seed: Seed of splits, weights and of the labelled sample.
        progress: Show progress bars inside steps.
        executor: Who computes the true influences, as in `nora.influence`.
        methods: Further methods to compare, by their names in `METHODS`.
        only: Run over these cells alone, of those that datasets, models and tasks make; None for all.
        sample: Of how many nodes the truth is known, in recipes that take a sample; None for theirs.
        protocol: How it is run.
    """

    cache: Path
    profile: Profile
    datasets: Sequence[str]
    models: Sequence[str]
    tasks: Sequence[str]
    cycles: int
    share: float = 0.1
    seed: int = 0
    progress: bool = False
    executor: Any = None
    methods: Sequence[str] = ()
    only: Sequence[Cell] | None = None
    sample: int | None = None
    protocol: Protocol = CLEAN
    _loaded: dict[str, tuple[Dataset, str]] = field(default_factory=dict, repr=False)
    _code: dict[tuple[Any, ...], str] = field(default_factory=dict, repr=False)

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells, in the order of the paper's tables."""
        every = [
            Cell(dataset, model, task)
            for dataset in self.datasets
            for model in self.models
            for task in self.tasks
        ]
        return every if self.only is None else [cell for cell in every if cell in self.only]

    def dataset(self, name: str) -> Dataset:
        """A dataset, loaded once."""
        return self._load(name)[0]

    def _load(self, name: str) -> tuple[Dataset, str]:
        if name not in self._loaded:
            dataset = self.protocol.prepared(load_dataset(name))
            self._loaded[name] = dataset, graph_fingerprint(dataset.data)
        return self._loaded[name]

    def path(self, kind: str, label: str, facts: Mapping[str, Any], suffix: str = "") -> Path:
        """The path of a cached result, named by everything it depends on."""
        text = json.dumps({**facts, "nora": __version__}, sort_keys=True)
        return self.cache / kind / f"{label}-{digest([text])}{suffix}"

    # Code

    def code(self, *things: Any, within: tuple[str, ...] = SCORING) -> str:
        """Digest of the code of these, read once; see `code_digest`."""
        asked = (things, within)
        if asked not in self._code:
            self._code[asked] = code_digest(*things, within=within)
        return self._code[asked]

    def method_code(self, method: str) -> str:
        """Digest of the code that a method's scores depend on, tuning and labels included."""
        entry = METHODS[method]
        # A custom method stands in a package of its own, all of which counts.
        home = method.partition(":")[0] if ":" in method else entry.value
        package = (home if isinstance(home, str) else home.__module__).partition(".")[0]
        within = SCORING if package == "nora" else (*SCORING, package)
        if not _learns(method):
            return self.code(home, within=within)
        search = [SEARCHES[method].value] if entry.facts.own_search else []
        return self.code(home, "nora.tuning.tune", *search, within=within)

    def _training_code(self, cell: Cell) -> str:
        # All ways to fit: which one applies depends on the built model.
        ways = sorted({entry.value.__module__ for entry in FITS})
        model, dataset = MODELS[cell.model].value, DATASETS[cell.dataset].value
        return self.code("nora.training.train", *ways, model, dataset, within=TRAINING)

    # Runs

    def training(self, cell: Cell, hidden: int | None = None) -> dict[str, Any]:
        """Arguments for `nora.train`."""
        return self.protocol.training(cell, self.profile.training(cell, hidden))

    @property
    def caption(self) -> str:
        """How a table was made here, in a sentence or two."""
        return f"{self.profile.caption} {self.protocol.caption}"

    def _run_facts(self, cell: Cell, cycle: int, hidden: int | None) -> dict[str, Any]:
        return {
            "cell": str(cell),
            "graph": self._load(cell.dataset)[1],
            "training": self.training(cell, hidden),
            "split": {"shuffle": self.protocol.shuffle, "messages": self.protocol.message_edges},
            "cycle": cycle,
            "seed": self.seed,
            "code": self._training_code(cell),
        }

    def run_step(self, cell: Cell, cycle: int, hidden: int | None = None) -> Step[Run]:
        """Train the model of a cell and cycle; one that learns both tasks at once is trained once."""
        trained = replace(cell, task="node") if "task" in MODELS[cell.model].facts.needs else cell
        return Step(
            f"train {cell} cycle {cycle}",
            lambda: self.path(
                "runs", f"{trained}-cycle{cycle}", self._run_facts(trained, cycle, hidden)
            ),
            partial(self._train, trained, cycle, hidden),
            load_run,
            _save_run,
            lambda path: float(read_facts(path)[0]["metrics"]["seconds"]),
        )

    def _train(self, cell: Cell, cycle: int, hidden: int | None) -> Run:
        dataset = self.dataset(cell.dataset)
        return train(
            cell.model,
            dataset,
            cell.task,
            cycle=cycle,
            seed=self.seed,
            progress=self.progress,
            split=self.protocol.split(dataset, cell.task, cycle, self.seed),
            **self.training(cell, hidden),
        )

    def run(self, cell: Cell, cycle: int, hidden: int | None = None) -> Run:
        """The trained model of a cell and cycle; `hidden` replaces the profile's size."""
        return about_task(self.run_step(cell, cycle, hidden).get(), cell.task)

    # Truth and scores

    def labelled(self, cell: Cell) -> Tensor:
        """The nodes whose true influence methods may see: the same in all cycles."""
        num_nodes = self.dataset(cell.dataset).data.num_nodes
        return self.protocol.labelled(num_nodes, self.share, self.seed)

    def labels(self, cell: Cell, cycle: int) -> Tensor:
        """True influences `[N]` of the labelled nodes, NaN elsewhere: all that tuning ever sees."""
        mean = self.protocol.predictor_target == "mean"
        truth = self.mean_scores(cell, TRUTH) if mean else self.scores(cell, cycle, TRUTH).scores
        labels = torch.full_like(truth, float("nan"))
        nodes = self.labelled(cell)
        labels[nodes] = truth[nodes]
        return labels

    def score_facts(
        self, cell: Cell, cycle: int, method: str, hidden: int | None = None
    ) -> dict[str, Any]:
        """The facts that a method's scores depend on."""
        facts: dict[str, Any] = {
            "run": self._run_facts(cell, cycle, hidden),
            "method": method,
            "code": self.method_code(method),
        }
        if _learns(method):
            facts |= {"share": self.share, "trials": self.profile.trials, "cycles": self.cycles}
            facts["protocol"] = asdict(self.protocol)
        return facts

    def cell_facts(self, cell: Cell, method: str, **more: Any) -> dict[str, Any]:
        """The facts that a method's results in a cell depend on: all cycles, the nodes it saw, the truth."""
        facts = self.score_facts(cell, 0, method)
        seen = {"share": self.share, "labels": self.protocol.labels}
        return {**facts, "cycles": self.cycles, **seen, "truth": DEFINITION, **more}

    def truth_step(
        self,
        cell: Cell,
        cycle: int,
        hidden: int | None = None,
        *,
        title: str = "truth",
        nodes: Tensor | None = None,
        ask: Callable[[Tensor | None], Influence] | None = None,
    ) -> Step[Influence]:
        """Compute the exact influence of every node on one cycle's model.

        Its place is named by weights, graph and task, which are known once the model is trained.

        Args:
            cell, cycle, hidden: Which model.
            title: A part of its name.
            nodes: Of these nodes alone.
            ask: Computes influences of some nodes, or of all; by default by `nora.influence`.
        """
        train_step, code = self.run_step(cell, cycle, hidden), self.method_code(TRUTH)

        def where() -> Path:
            facts = truth_facts(train_step.path, cell.task)
            name = "untrained" if facts is None else digest([json.dumps(facts, sort_keys=True)])
            return self.cache / "scores" / f"{cell}-cycle{cycle}-{title}-{name}.parquet"

        def compute(some: Tensor | None = nodes) -> Influence:
            if ask is not None:
                return ask(some)
            run = self.run(cell, cycle, hidden)
            settings = {"executor": self.executor, "progress": self.progress, "nodes": some}
            return influence(run.model, run.data, TRUTH, run.task, **settings)

        def checked() -> Influence:
            return check_finite(compute(), TRUTH, f"{cell} cycle {cycle}", nodes)

        return Step(
            f"{TRUTH} on {cell} cycle {cycle}",
            where,
            checked,
            lambda path: load_truth(path, code, compute),
            lambda found, path: save_truth(found, path, code),
            influence_seconds,
            train_step,
        )

    def score_step(
        self, cell: Cell, cycle: int, method: str, hidden: int | None = None
    ) -> Step[Influence]:
        """Score the nodes of one cycle's model, with tuned options where a method has any."""
        if method == TRUTH:
            return self.truth_step(cell, cycle, hidden)
        return Step(
            f"{method} on {cell} cycle {cycle}",
            lambda: self.path(
                "scores",
                f"{cell}-cycle{cycle}-{in_file(method)}",
                self.score_facts(cell, cycle, method, hidden),
                ".parquet",
            ),
            partial(self._scored, cell, cycle, method, hidden),
            Influence.load,
            Influence.save,
            influence_seconds,
        )

    def _scored(self, cell: Cell, cycle: int, method: str, hidden: int | None) -> Influence:
        run = self.run(cell, cycle, hidden)
        options = self.tuned(cell, method).options if _learns(method) else {}
        needs = METHODS[method].facts.labels == "required"
        labels = self.labels(cell, cycle) if needs else None
        settings = {"labels": labels, "progress": self.progress, **options}
        found = influence(run.model, run.data, method, run.task, **settings)
        return check_finite(found, method, f"{cell} cycle {cycle}")

    def scores(self, cell: Cell, cycle: int, method: str, hidden: int | None = None) -> Influence:
        """A method's scores on one cycle's model, with tuned options where it has any."""
        return self.score_step(cell, cycle, method, hidden).get()

    def all_scores(self, cell: Cell, method: str, hidden: int | None = None) -> list[Influence]:
        """A method's scores on every cycle."""
        return [self.scores(cell, cycle, method, hidden) for cycle in range(self.cycles)]

    def mean_scores(self, cell: Cell, method: str, hidden: int | None = None) -> Tensor:
        """A method's scores averaged over the cycles, `[N]`."""
        return torch.stack([s.scores for s in self.all_scores(cell, method, hidden)]).mean(dim=0)

    # Tuning

    def tuned_step(self, cell: Cell, method: str) -> Step[Tuned]:
        """Find a method's options from the labelled nodes alone."""
        title = f"{cell}-{in_file(method)}"
        return Step(
            f"tune {method} on {cell}",
            lambda: self.path("tuned", title, self.score_facts(cell, 0, method), ".json"),
            partial(self._tune, cell, method),
            Tuned.load,
            Tuned.save,
            lambda path: Tuned.load(path).seconds,
        )

    def _tune(self, cell: Cell, method: str) -> Tuned:
        problems = []
        for cycle in range(self.cycles if METHODS[method].facts.own_search else 1):
            run, labels = self.run(cell, cycle), self.labels(cell, cycle)
            problems.append(
                check_model(build_problem(run.model, run.data, run.task, labels=labels))
            )
        trials = self.profile.trials
        return tune_problems(
            problems, method, trials=trials, seed=self.seed, progress=self.progress
        )

    def tuned(self, cell: Cell, method: str) -> Tuned:
        """A method's options, found from the labelled nodes alone, or published."""
        if self.protocol.options == "published":
            return Tuned(method, self.protocol.published_options(cell, method))
        return self.tuned_step(cell, method).get()

    # Plans

    def numbers_step(
        self, label: str, kind: str, title: str, facts: Mapping[str, Any], make: Callable[[], Any]
    ) -> Step[Any]:
        """Compute a JSON document, cached under everything it depends on."""
        place = partial(self.path, kind, title, facts, ".json")
        return Step(label, place, make, read_numbers, write_numbers)

    def training_steps(self, cells: Sequence[Cell], hidden: int | None = None) -> list[Step[Any]]:
        """Train the cells' models."""
        return [
            self.run_step(cell, cycle, hidden) for cell in cells for cycle in range(self.cycles)
        ]

    def scoring_steps(
        self, cells: Sequence[Cell], methods: Sequence[str], hidden: int | None = None
    ) -> list[Step[Any]]:
        """Score the cells' models, tuning first where a method has options to tune."""
        steps: list[Step[Any]] = []
        for cell in cells:
            for method in methods:
                if _learns(method) and self.protocol.options == "tuned":
                    steps.append(self.tuned_step(cell, method))
                cycles = range(self.cycles)
                steps += [self.score_step(cell, cycle, method, hidden) for cycle in cycles]
        return steps

    def plan(self, methods: Sequence[str]) -> list[Step[Any]]:
        """Train, compute the truth, score; cell by cell, so that finished cells are finished early."""
        steps: list[Step[Any]] = []
        for cell in self.cells:
            steps += self.training_steps([cell])
            steps += self.scoring_steps([cell], (TRUTH, *methods))
        return steps


def _save_run(run: Run, path: Path) -> None:
    # Another process may have trained the same in the meantime.
    with contextlib.suppress(FileExistsError):
        run.save(path)


def influence_seconds(path: Path) -> float | None:
    """The seconds that saved scores took."""
    return Influence.load(path).seconds


def check_finite(
    found: Influence, method: str, where: str, nodes: Tensor | None = None
) -> Influence:
    """The scores; raises for NaN: such nodes would not count, and the method would seem better."""
    scores = found.scores if nodes is None else found.scores[nodes]
    if not scores.isfinite().all():
        raise ValueError(f"the scores of {method!r} on {where} are not all finite")
    return found


def in_file(method: str) -> str:
    """A method's name as a part of a file's.

    >>> in_file("my_package:my_method")
    'my_package.my_method'
    """
    return method.replace(":", ".")


def _learns(method: str) -> bool:
    """Whether a method has options that are found from labels."""
    return METHODS[method].facts.tunable
