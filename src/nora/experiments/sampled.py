"""Graphs too large for the truth of all nodes: methods against the truth of a random sample of them.

A tenth of the sample (the lab's share) tunes what is tuned, the rest judges; methods see nothing else of the
truth. Every model is tuned and judged by itself, and everything is kept in the lab's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nora.experiments.cells import Cell
from nora.experiments.lab import TRUTH, Lab, Step, in_file
from nora.experiments.lasting_truth import DEFINITION, load_truth, save_truth
from nora.methods import METHODS
from nora.questions.session import Session
from nora.results.influence import Influence
from nora.seeds import shuffled
from nora.training.runs import load_run
from nora.training.splits import few_shot
from nora.tuning.tune import Tuned, tune_problems

# NORA's own estimate: `exact` at this relative error.
ESTIMATE, TOLERANCE = "exact, tolerance 0.03", 0.03
TRUTHS = {TRUTH: 0.0, ESTIMATE: TOLERANCE}


@dataclass(frozen=True)
class Sampled:
    """One trained model of a lab, with the truth of a sample.

    Attributes:
        lab: Where everything is kept.
        cell: Which model.
        cycle: Of which cycle.
        size: How many nodes are in the sample.
    """

    lab: Lab
    cell: Cell
    cycle: int
    size: int

    @property
    def sample(self) -> Tensor:
        """The nodes whose truth is known, sorted; a larger sample holds every smaller one."""
        count = int(self.lab.dataset(self.cell.dataset).data.num_nodes or 0)
        return shuffled(count, self.lab.seed)[: self.size].sort().values

    @property
    def labelled(self) -> Tensor:
        """The part of the sample that tunes, sorted."""
        sample = self.sample
        return sample[few_shot(len(sample), self.lab.share, self.lab.seed)]

    # Truth and its estimate

    def _truth_path(self, name: str) -> Path:
        if name == TRUTH:
            title = f"truth-of-{self.size}-seed{self.lab.seed}"
            return self.lab.truth_path(self.cell, self.cycle, title=title)
        facts = {
            **self.lab.score_facts(self.cell, self.cycle, TRUTH),
            "sample": self.size,
            "tolerance": TRUTHS[name],
        }
        title = f"{self.cell}-cycle{self.cycle}-estimate-of-{self.size}"
        return self.lab.path("scores", title, facts, ".parquet")

    def truth(self, name: str = TRUTH) -> Influence:
        """The exact influence of the sample, NaN elsewhere; or its estimate.

        Both are made at once, since they share the engine, which takes longer to make than to ask.
        """
        if not all(self._truth_path(one).exists() for one in TRUTHS):
            forget()
            session = self._session()
            for one in TRUTHS:
                if not self._truth_path(one).exists():
                    self._compute(session, one)
        if name != TRUTH:
            return Influence.load(self._truth_path(name))
        return load_truth(
            self._truth_path(name),
            self.lab.method_code(TRUTH),
            lambda nodes: self._session().influence(TRUTH, nodes=nodes, progress=False),
        )

    def _compute(self, session: Session, name: str) -> None:
        found = session.influence(
            TRUTH, nodes=self.sample, progress=self.lab.progress, tolerance=TRUTHS[name]
        )
        if not found.scores[self.sample].isfinite().all():
            raise ValueError(f"the scores of {name!r} on {self.cell} are not all finite")
        if name == TRUTH:
            save_truth(found, self._truth_path(name), self.lab.method_code(TRUTH))
        else:
            found.save(self._truth_path(name))

    # Methods

    def _facts(self, method: str) -> dict[str, Any]:
        facts = self.lab.score_facts(self.cell, self.cycle, method)
        if METHODS[method].facts.tunable:
            facts |= {"sample": self.size, "cycles": 1, "truth": DEFINITION}
        return facts

    def _path(self, kind: str, method: str, suffix: str) -> Path:
        title = f"{self.cell}-cycle{self.cycle}-{in_file(method)}-by-sample"
        return self.lab.path(kind, title, self._facts(method), suffix)

    def tuned(self, method: str) -> Tuned:
        """A method's options, found from the labelled part of the sample alone."""
        path = self._path("tuned", method, ".json")
        if path.exists():
            return Tuned.load(path)
        nodes = self.labelled
        labels = (nodes, self.truth().scores[nodes])
        problem = self._session().problem(labels=labels)
        found = tune_problems([problem], method, trials=self.lab.profile.trials, seed=self.lab.seed)
        found.save(path)
        return found

    def scores(self, method: str) -> Influence:
        """A method's scores of all nodes, with tuned options where it has any."""
        if method in TRUTHS:
            return self.truth(method)
        path = self._path("scores", method, ".parquet")
        if path.exists():
            return Influence.load(path)
        options = self.tuned(method).options if METHODS[method].facts.tunable else {}
        found = self._session().influence(method, progress=self.lab.progress, **options)
        if not found.scores.isfinite().all():
            raise ValueError(f"the scores of {method!r} on {self.cell} are not all finite")
        found.save(path)
        return found

    def _session(self) -> Session:
        step = self._training()
        if not step.done():
            step.do()
        return _session(step.path)

    def _training(self) -> Step:
        lab = replace(self.lab, cycles=self.cycle + 1)
        return lab.training_steps([self.cell])[self.cycle]

    def seen(self, method: str) -> Tensor:
        """Nodes of the sample that do not count for a method: it was tuned on them, or has them exactly."""
        nodes = self.labelled
        if method != ESTIMATE:
            return nodes
        errors = self.truth(ESTIMATE).stderr
        exact = self.sample[:0] if errors is None else (errors == 0).nonzero().flatten()
        return torch.cat([nodes, exact]).unique()

    # Steps of a plan

    def steps(self, methods: Sequence[str]) -> list[Step]:
        """Train, find the truth and its estimate, tune and score."""
        train = self._training()
        on = f"{self.cell} cycle {self.cycle}"
        steps = [replace(train, do=partial(_alone, train))]
        for name in TRUTHS:
            steps.append(Step(f"{name} on {on}", self._truth_path(name), partial(self.truth, name)))
        for method in methods:
            if METHODS[method].facts.tunable:
                path = self._path("tuned", method, ".json")
                steps.append(Step(f"tune {method} on {on}", path, partial(self.tuned, method)))
            path = self._path("scores", method, ".parquet")
            steps.append(Step(f"{method} on {on}", path, partial(self.scores, method)))
        return steps


@lru_cache(maxsize=1)
def _session(run: Path) -> Session:
    """Questions about a kept run, which share the checks of its model; one at a time is remembered."""
    found = load_run(run)
    return Session(found.model, found.data, found.task)


def forget() -> None:
    """Remember no session: what comes next needs the memory."""
    _session.cache_clear()


def _alone(step: Step) -> Any:
    forget()
    return step.do()
