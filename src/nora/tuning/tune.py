"""Find a method's options from a few nodes whose true influence is known.

Tuning sees the labels and nothing else of the truth: what is not labelled cannot be learned from.
Methods that come with a search of their own (NORA: hundreds of settings from one backward pass) use
it; others are tried setting by setting with optuna, the defaults first.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from nora.arguments import check_whole, path_of
from nora.files import read_json, written_atomically
from nora.graph.node_index import Graph
from nora.methods import METHODS, MethodEntry
from nora.model import Problem, Transform, build_problem
from nora.model.calling import Forward
from nora.model.checks import check_model
from nora.model.known_influences import Labels
from nora.model.task import Task
from nora.progress import progress_bar
from nora.questions.influence import bind_options
from nora.questions.score import collected, method_parts
from nora.results.agreement import pearson
from nora.tuning.searches import SEARCHES

# Below any correlation: what cannot be judged is never chosen before what can.
UNKNOWN = -2.0


@dataclass(frozen=True)
class Tuned:
    """A method with the options that agree best with the labels.

    Attributes:
        method: The method's name.
        options: Its options, as `nora.influence` takes them.
        pearson: Correlation of its scores with the labels; for methods that learn from labels, with held-out
            labels.
        tried: How many settings were tried.
        labelled: How many nodes were labelled.
        seconds: Running time.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> truth = run.influence("exact", nodes=range(12), progress=False)
        >>> tuned = nora.tune(run.model, run.data, truth, "nora", progress=False)
        >>> found = run.influence(tuned.method, progress=False, **tuned.options)
        >>> tuned.method, tuned.labelled, len(found)
        ('nora', 12, 34)
    """

    method: str
    options: dict[str, Any] = field(default_factory=dict)
    pearson: float = float("nan")
    tried: int = 0
    labelled: int = 0
    seconds: float = 0.0

    def save(self, path: str | Path, replace: bool = True) -> Path:
        """Write as JSON. Raises an error if the file exists, unless `replace` is set."""
        path = path_of(path)
        with written_atomically(path, replace) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        return path

    @staticmethod
    def load(path: str | Path) -> Tuned:
        """Load a result written by `save`."""
        path = path_of(path)
        if not path.exists():
            raise FileNotFoundError(f"no such file: {path}; 'nora tune' makes one")
        try:
            kept = read_json(path)
            tuned = Tuned(**kept)
            METHODS.check(tuned.method)
            if "options" not in kept:
                raise ValueError("it names no options")
            bind_options(METHODS[tuned.method], dict(tuned.options))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} holds no tuned settings: {error}") from error
        return tuned


def tune(
    model: nn.Module,
    data: Graph,
    labels: Labels,
    method: str = "nora",
    task: Task | None = None,
    *,
    forward: Forward | None = None,
    transform: Transform | None = None,
    trials: int = 20,
    seed: int = 0,
    progress: bool = True,
) -> Tuned:
    """Find the options with which a method's scores agree best with the labels.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        labels: True influences of some nodes, as in `nora.influence`.
        method: A method with options to tune.
        task: What is predicted; node classification from logits by default.
        forward: As in `nora.influence`.
        transform: As in `nora.influence`.
        trials: How many settings to try; NORA's own search does not need it.
        seed: Seed of the trials, and of methods that have one.
        progress: Show a progress bar.

    Returns:
        The method with its best options.

    Example:
        >>> import nora
        >>> dataset = nora.load_dataset("karate")
        >>> model = nora.train("gcn", dataset, epochs=5, progress=False).model
        >>> known = nora.influence(model, dataset.data, nodes=range(10), progress=False)
        >>> tuned = nora.tune(model, dataset.data, known)
        >>> sorted(tuned.options)
        ['beta', 'k1', 'k2', 'k2_prime', 'k3_prime', 'p', 'weighting']
        >>> scores = nora.influence(model, dataset.data, tuned.method, **tuned.options)
    """
    entry = check_tunable(method)
    problem = build_problem(model, data, task, forward=forward, labels=labels, transform=transform)
    if entry.facts.uses_model:
        problem = check_model(problem)
    return tune_problems([problem], method, trials=trials, seed=seed, progress=progress)


def tune_problems(
    problems: Sequence[Problem],
    method: str,
    *,
    trials: int = 20,
    seed: int = 0,
    progress: bool = False,
) -> Tuned:
    """Tune on several labelled problems at once, e.g. the cycles of one experiment.

    A setting is judged by its scores averaged over the problems.

    Args:
        problems: Checked problems with labels.
        method: The method.
        trials: How many settings to try.
        seed: Seed of the trials.
        progress: Show a progress bar.
    """
    entry = check_tunable(method)
    if not problems:
        raise ValueError("problems is empty: give at least one problem to tune on")
    check_whole("trials", trials, 1)
    check_whole("seed", seed, 0, 2**32 - 1)
    start = time.perf_counter()
    with _evaluating(problems):
        if entry.facts.own_search:
            found = SEARCHES[method].value(problems)
            options, correlation, tried = found.options, found.pearson, found.tried
        else:
            options, correlation = _try_settings(entry, problems, trials, seed, progress)
            tried = trials
    labels = torch.stack([problem.known_influence() for problem in problems]).mean(dim=0)
    return Tuned(
        method=method,
        options=options,
        pearson=correlation,
        tried=tried,
        labelled=int((~labels.isnan()).sum()),
        seconds=time.perf_counter() - start,
    )


def check_tunable(method: str) -> MethodEntry:
    """The method's entry; raise when there is nothing to tune, or nothing to tune with."""
    entry = METHODS[method]
    if not entry.facts.tunable:
        able = [other.name for other in METHODS if other.facts.tunable]
        raise ValueError(
            f"method {method!r} has nothing to tune; these have: {', '.join(sorted(able))}"
        )
    if entry.facts.space and importlib.util.find_spec("optuna") is None:
        raise ImportError(f"tuning {method!r} needs optuna: pip install 'nora-influence[tune]'")
    return entry


@contextmanager
def _evaluating(problems: Sequence[Problem]) -> Iterator[None]:
    with ExitStack() as stack:
        for problem in problems:
            stack.enter_context(problem.evaluating())
        yield


def _try_settings(
    entry: MethodEntry,
    problems: Sequence[Problem],
    trials: int,
    seed: int,
    progress: bool,
) -> tuple[dict[str, Any], float]:
    """Try settings from the method's space with optuna; the defaults come first."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = entry.facts.space
    defaults = bind_options(entry, {})
    fixed = {"seed": seed} if "seed" in defaults else {}
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)
    )
    optuna.logging.set_verbosity(verbosity)
    objective = _objective(entry, problems)
    with progress_bar(f"{entry.name}: settings tried", trials, progress) as advance:
        for trial_number in range(trials):
            if trial_number == 0:
                study.enqueue_trial({key: defaults[key] for key in space})
            trial = study.ask()
            settings = {
                key: trial.suggest_categorical(key, _with(values, defaults[key]))
                for key, values in space.items()
            }
            value = objective({**fixed, **settings})
            study.tell(trial, value)
            advance(1)
    best = float(study.best_value)
    return {**fixed, **study.best_params}, best if best > UNKNOWN else float("nan")


def _with(values: tuple[Any, ...], default: Any) -> tuple[Any, ...]:
    return values if default in values else (*values, default)


def _objective(
    entry: MethodEntry, problems: Sequence[Problem]
) -> Callable[[dict[str, Any]], float]:
    """From options to their value; `UNKNOWN` where all scores are the same."""
    labels = torch.stack([problem.known_influence() for problem in problems]).mean(dim=0)
    known = ~labels.isnan()
    learns = entry.facts.labels == "required"

    def objective(options: dict[str, Any]) -> float:
        bound = bind_options(entry, options)
        values: list[float] = []
        scores: list[Tensor] = []
        for problem in problems:
            asked = replace(problem, nodes=torch.arange(problem.num_nodes))
            table, details = collected(method_parts(entry, asked, bound), asked.num_nodes, 1)
            found = table[:, 0]
            scores.append(found)
            values.append(details.get("held_back_pearson", float("nan")))
        total = torch.stack(scores).sum(dim=0)
        value = fmean(values) if learns else pearson(total[known.cpu()], labels[known])
        return UNKNOWN if value != value else value

    return objective
