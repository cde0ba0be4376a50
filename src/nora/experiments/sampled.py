"""Compare methods with the truth of a random sample of nodes, on graphs too large for all nodes.

A tenth of the sample (the lab's share) tunes what is tuned, the rest judges; methods see nothing else of the
truth. Every model is tuned and judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nora.experiments.cache import Step
from nora.experiments.cached_truth import DEFINITION
from nora.experiments.cells import Cell
from nora.experiments.lab import TRUTH, Lab, check_finite, in_file, influence_seconds
from nora.methods import METHODS
from nora.questions.session import Session
from nora.results.influence import Influence
from nora.seeds import shuffled
from nora.training.runs import load_run
from nora.training.splits import few_shot
from nora.tuning.tune import Tuned, tune_problems

# NORA's own estimate: `exact` at this relative error.
ESTIMATE, TOLERANCE = "exact, tolerance 0.03", 0.03


@dataclass(frozen=True)
class Sampled:
    """One trained model of a lab, with the truth of a sample.

    Attributes:
        lab: Where everything is cached.
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

    def seen(self, method: str) -> Tensor:
        """Nodes of the sample that do not count for a method: it was tuned on them, or has them exactly."""
        nodes = self.labelled
        if method != ESTIMATE:
            return nodes
        errors = self.scores(ESTIMATE).stderr
        exact = self.sample[:0] if errors is None else (errors == 0).nonzero().flatten()
        return torch.cat([nodes, exact]).unique()

    def truth(self) -> Influence:
        """The exact influence of the sample, NaN elsewhere."""
        return self.scores(TRUTH)

    def tuned(self, method: str) -> Tuned:
        """A method's options, found from the labelled part of the sample alone."""
        return self._tuned_step(method).get()

    def scores(self, method: str) -> Influence:
        """A method's scores of all nodes (of the sample: the truth, and its estimate)."""
        return self._score_step(method).get()

    def steps(self, methods: Sequence[str]) -> list[Step[Any]]:
        """Train, compute the truth and its estimate, tune and score."""
        train = self.lab.run_step(self.cell, self.cycle)
        steps: list[Step[Any]] = [replace(train, make=partial(_alone, train.make))]
        for method in (TRUTH, ESTIMATE, *methods):
            if method != ESTIMATE and METHODS[method].facts.tunable:
                steps.append(self._tuned_step(method))
            steps.append(self._score_step(method))
        return steps

    def _ask(self, method: str, **options: Any) -> Influence:
        step = self.lab.run_step(self.cell, self.cycle)
        if not step.done():
            step.get()
        asked = _session(step.path).influence(method, progress=self.lab.progress, **options)
        where = f"{self.cell} cycle {self.cycle}"
        return check_finite(asked, method, where, options.get("nodes"))

    def _score_step(self, method: str) -> Step[Influence]:
        title = f"truth-of-{self.size}-seed{self.lab.seed}"
        if method == TRUTH:
            return self.lab.truth_step(
                self.cell,
                self.cycle,
                title=title,
                nodes=self.sample,
                ask=lambda nodes: self._ask(TRUTH, nodes=nodes),
            )
        if method == ESTIMATE:
            facts = {
                **self.lab.score_facts(self.cell, self.cycle, TRUTH),
                "sample": self.size,
                "tolerance": TOLERANCE,
            }
            title = f"{self.cell}-cycle{self.cycle}-estimate-of-{self.size}"
            where: Callable[[], Path] = partial(self.lab.path, "scores", title, facts, ".parquet")
            make = partial(self._ask, TRUTH, nodes=self.sample, tolerance=TOLERANCE)
        else:
            where, make = self._place("scores", method, ".parquet"), partial(self._scored, method)
        label = f"{method} on {self.cell} cycle {self.cycle}"
        return Step(label, where, make, Influence.load, Influence.save, influence_seconds)

    def _scored(self, method: str) -> Influence:
        return self._ask(
            method, **(self.tuned(method).options if METHODS[method].facts.tunable else {})
        )

    def _tuned_step(self, method: str) -> Step[Tuned]:
        return Step(
            f"tune {method} on {self.cell} cycle {self.cycle}",
            self._place("tuned", method, ".json"),
            partial(self._tune, method),
            Tuned.load,
            Tuned.save,
            lambda path: Tuned.load(path).seconds,
        )

    def _tune(self, method: str) -> Tuned:
        nodes = self.labelled
        labels = (nodes, self.truth().scores[nodes])
        problem = _session(self.lab.run_step(self.cell, self.cycle).path).problem(labels=labels)
        return tune_problems([problem], method, trials=self.lab.profile.trials, seed=self.lab.seed)

    def _place(self, kind: str, method: str, suffix: str) -> Callable[[], Path]:
        facts = self.lab.score_facts(self.cell, self.cycle, method)
        if METHODS[method].facts.tunable:
            facts |= {"sample": self.size, "cycles": 1, "truth": DEFINITION}
        title = f"{self.cell}-cycle{self.cycle}-{in_file(method)}-by-sample"
        return partial(self.lab.path, kind, title, facts, suffix)


@lru_cache(maxsize=1)
def _session(run: Path) -> Session:
    """Questions about a cached run, which share the checks of its model and its engine; one at a time."""
    found = load_run(run)
    return Session(found.model, found.data, found.task)


def forget() -> None:
    """Drop the last session, to free its memory."""
    _session.cache_clear()


def _alone(make: Callable[[], Any]) -> Any:
    forget()
    return make()
