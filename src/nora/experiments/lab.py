"""Where experiments do their work: everything is made once and kept under a name made of its content.

A run is named by its dataset, architecture, settings, split and seed; scores by their run and their method's
options; each also by the code that makes it (`nora.experiments.sources`), except the truth, which outlives
it (`nora.experiments.lasting_truth`). What is there is loaded, what is not is made and written at once, so
that an interrupted experiment goes on where it stopped and experiments share what they have in common.

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
from nora.experiments.cells import Cell, Profile
from nora.experiments.lasting_truth import DEFINITION, load_truth, save_truth, truth_facts
from nora.experiments.protocol import CLEAN, Protocol
from nora.experiments.sources import SCORING, TRAINING, code_digest
from nora.methods import METHODS
from nora.model import Problem, build_problem
from nora.model.checks import check_model
from nora.model.fingerprint import digest, graph_fingerprint
from nora.models import MODELS
from nora.questions.influence import influence
from nora.results.influence import Influence
from nora.training.fits import FITS
from nora.training.runs import Run, about_task, load_run
from nora.training.train import train
from nora.tuning.searches import SEARCHES
from nora.tuning.tune import Tuned, tune_problems

TRUTH = "exact"


@dataclass(frozen=True)
class Step:
    """One piece of work of an experiment's plan, and where what comes of it is kept."""

    label: str
    path: Path
    do: Callable[[], Any]

    def done(self) -> bool:
        """Whether it has been done."""
        return self.path.exists()

    @property
    def kind(self) -> str:
        """What is done, whatever it is done on: steps of a kind take about as long.

        >>> Step("tune mask on cora-gcn-node", Path("a"), print).kind
        'tune mask'
        """
        return self.label.partition(" on ")[0] if " on " in self.label else self.label.split()[0]


@dataclass(frozen=True)
class Lab:
    """Trains, scores and tunes for experiments, each thing once.

    Attributes:
        cache: Folder for everything that is made.
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
        """Where something is kept: named by everything it depends on."""
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
        # A method of somebody else's stands in a package of theirs, all of which may have a say.
        home = method.partition(":")[0] if ":" in method else entry.value
        package = (home if isinstance(home, str) else home.__module__).partition(".")[0]
        within = SCORING if package == "nora" else (*SCORING, package)
        if not _learns(method):
            return self.code(home, within=within)
        search = [SEARCHES[method].value] if entry.facts.own_search else []
        return self.code(home, "nora.tuning.tune", *search, within=within)

    def _training_code(self, cell: Cell) -> str:
        # Every way to fit: which one a model takes is found by looking at the model.
        ways = sorted({entry.value.__module__ for entry in FITS})
        model, dataset = MODELS[cell.model].value, DATASETS[cell.dataset].value
        return self.code("nora.training.train", *ways, model, dataset, within=TRAINING)

    # Runs

    def training(self, cell: Cell, hidden: int | None = None) -> dict[str, Any]:
        """Arguments for `nora.train`."""
        return self.protocol.training(cell, self.profile.training(cell, hidden))

    @property
    def caption(self) -> str:
        """What a table made here must say of itself."""
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

    def _run_path(self, cell: Cell, cycle: int, hidden: int | None) -> Path:
        cell = _trained_as(cell)
        facts = self._run_facts(cell, cycle, hidden)
        return self.path("runs", f"{cell}-cycle{cycle}", facts)

    def run(self, cell: Cell, cycle: int, hidden: int | None = None) -> Run:
        """The trained model of a cell and cycle; `hidden` takes the place of the profile's size."""
        if _trained_as(cell) != cell:
            return about_task(self.run(_trained_as(cell), cycle, hidden), cell.task)
        path = self._run_path(cell, cycle, hidden)
        if path.exists():
            return load_run(path)
        dataset = self.dataset(cell.dataset)
        made = train(
            cell.model,
            dataset,
            cell.task,
            cycle=cycle,
            seed=self.seed,
            progress=self.progress,
            split=self.protocol.split(dataset, cell.task, cycle, self.seed),
            **self.training(cell, hidden),
        )
        # Another process may have made the same in the meantime.
        with contextlib.suppress(FileExistsError):
            made.save(path)
        return made

    # Scores

    def _problem(self, cell: Cell, cycle: int, labels: Tensor | None = None) -> Problem:
        run = self.run(cell, cycle)
        return check_model(build_problem(run.model, run.data, run.task, labels=labels))

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
        """What a method's scores depend on."""
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
        """What is known about a method in a cell depends on: all cycles, which nodes it saw, the truth."""
        facts = self.score_facts(cell, 0, method)
        seen = {"share": self.share, "labels": self.protocol.labels}
        return {**facts, "cycles": self.cycles, **seen, "truth": DEFINITION, **more}

    def _score_path(self, cell: Cell, cycle: int, method: str, hidden: int | None = None) -> Path:
        if method == TRUTH:
            return self.truth_path(cell, cycle, hidden)
        facts = self.score_facts(cell, cycle, method, hidden)
        return self.path("scores", f"{cell}-cycle{cycle}-{in_file(method)}", facts, ".parquet")

    def truth_path(
        self, cell: Cell, cycle: int, hidden: int | None = None, title: str = "truth"
    ) -> Path:
        """Where a truth is kept: named by its weights, graph and task, which are known once it is trained."""
        facts = truth_facts(self._run_path(cell, cycle, hidden), cell.task)
        name = "untrained" if facts is None else digest([json.dumps(facts, sort_keys=True)])
        return self.cache / "scores" / f"{cell}-cycle{cycle}-{title}-{name}.parquet"

    def _truth(self, cell: Cell, cycle: int, hidden: int | None = None) -> Influence:
        """The exact influence of every node on one cycle's model."""
        code = self.method_code(TRUTH)

        def compute(nodes: Tensor | None = None) -> Influence:
            run = self.run(cell, cycle, hidden)
            settings = {"executor": self.executor, "progress": self.progress, "nodes": nodes}
            return influence(run.model, run.data, TRUTH, run.task, **settings)

        if not self._run_path(cell, cycle, hidden).exists():
            self.run(cell, cycle, hidden)
        path = self.truth_path(cell, cycle, hidden)
        if path.exists():
            return load_truth(path, code, compute)
        found = compute()
        _check_finite(found, TRUTH, cell, cycle)
        save_truth(found, path, code)
        return found

    def scores(self, cell: Cell, cycle: int, method: str, hidden: int | None = None) -> Influence:
        """A method's scores on one cycle's model, with tuned options where it has any."""
        if method == TRUTH:
            return self._truth(cell, cycle, hidden)
        path = self._score_path(cell, cycle, method, hidden)
        if path.exists():
            return Influence.load(path)
        run = self.run(cell, cycle, hidden)
        options = self.tuned(cell, method).options if _learns(method) else {}
        needs = METHODS[method].facts.labels == "required"
        found = influence(
            run.model,
            run.data,
            method,
            run.task,
            labels=self.labels(cell, cycle) if needs else None,
            progress=self.progress,
            **options,
        )
        _check_finite(found, method, cell, cycle)
        found.save(path)
        return found

    def all_scores(self, cell: Cell, method: str, hidden: int | None = None) -> list[Influence]:
        """A method's scores on every cycle."""
        return [self.scores(cell, cycle, method, hidden) for cycle in range(self.cycles)]

    def mean_scores(self, cell: Cell, method: str, hidden: int | None = None) -> Tensor:
        """A method's scores averaged over the cycles, `[N]`."""
        return torch.stack([s.scores for s in self.all_scores(cell, method, hidden)]).mean(dim=0)

    def _tuned_path(self, cell: Cell, method: str) -> Path:
        facts = self.score_facts(cell, 0, method)
        return self.path("tuned", f"{cell}-{in_file(method)}", facts, ".json")

    def tuned(self, cell: Cell, method: str) -> Tuned:
        """A method's options, found from the labelled nodes alone, or published."""
        if self.protocol.options == "published":
            return Tuned(method, self.protocol.published_options(cell, method))
        path = self._tuned_path(cell, method)
        if path.exists():
            return Tuned.load(path)
        cycles = range(self.cycles if METHODS[method].facts.own_search else 1)
        problems = [self._problem(cell, cycle, self.labels(cell, cycle)) for cycle in cycles]
        found = tune_problems(
            problems, method, trials=self.profile.trials, seed=self.seed, progress=self.progress
        )
        found.save(path)
        return found

    # Steps of a plan

    def training_steps(self, cells: Sequence[Cell], hidden: int | None = None) -> list[Step]:
        """Train the cells' models."""
        return [
            Step(
                f"train {cell} cycle {cycle}",
                self._run_path(cell, cycle, hidden),
                partial(self.run, cell, cycle, hidden),
            )
            for cell in cells
            for cycle in range(self.cycles)
        ]

    def scoring_steps(
        self, cells: Sequence[Cell], methods: Sequence[str], hidden: int | None = None
    ) -> list[Step]:
        """Score the cells' models, tuning first where a method has options to tune."""
        steps = []
        for cell in cells:
            for method in methods:
                if _learns(method) and self.protocol.options == "tuned":
                    steps.append(
                        Step(
                            f"tune {method} on {cell}",
                            self._tuned_path(cell, method),
                            partial(self.tuned, cell, method),
                        )
                    )
                steps += [
                    Step(
                        f"{method} on {cell} cycle {cycle}",
                        self._score_path(cell, cycle, method, hidden),
                        partial(self.scores, cell, cycle, method, hidden),
                    )
                    for cycle in range(self.cycles)
                ]
        return steps


def _trained_as(cell: Cell) -> Cell:
    """The cell whose run this one shares: a model that learns both tasks at once is trained once."""
    both = "task" in MODELS[cell.model].facts.needs
    return replace(cell, task="node") if both else cell


def _check_finite(found: Influence, method: str, cell: Cell, cycle: int) -> None:
    """Raise for scores that are NaN: their nodes would not count, and the method would seem better."""
    if not found.scores.isfinite().all():
        raise ValueError(f"the scores of {method!r} on {cell} cycle {cycle} are not all finite")


def in_file(method: str) -> str:
    """A method's name as a part of a file's.

    >>> in_file("my_package:my_method")
    'my_package.my_method'
    """
    return method.replace(":", ".")


def _learns(method: str) -> bool:
    """Whether a method has options that are found from labels."""
    return METHODS[method].facts.tunable
