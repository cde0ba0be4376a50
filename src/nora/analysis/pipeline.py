"""Files in, answer out: read a graph, train a model, score every removal, look at the first."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
from torch import Tensor

from nora.analysis.asking import removals_of_page
from nora.analysis.early_checks import check_files, check_labels_matter
from nora.analysis.forecast import Forecast, forecast, ranking_seconds
from nora.analysis.model_choice import ModelChoice, choose_model
from nora.analysis.options import AskOptions, ExecOptions, ReadOptions, TrainOptions
from nora.analysis.repeats import First, repeated
from nora.analysis.result import Analysis
from nora.analysis.stages import Stages
from nora.analysis.summary import model_notes, summarise_graph
from nora.artefact import sha256_of
from nora.datasets import Dataset
from nora.ingest import Reading, read_graph
from nora.ingest.reading import Source
from nora.limits import memory_limit
from nora.machine import available_memory, held_memory, release_memory
from nora.memory import in_words, parse_bytes
from nora.methods import METHODS
from nora.options import option, takes_options
from nora.questions.each import effects_of_each
from nora.questions.influence import bind_options
from nora.questions.refine import refined
from nora.questions.session import Session
from nora.results.effect import Effect
from nora.results.exactness import method_name
from nora.results.influence import Influence
from nora.results.stability import Stability
from nora.stacklevel import warn
from nora.training.runs import Run
from nora.training.targets import about_targets, kinds_without_labels, target_ids
from nora.training.train import train
from nora.training.trust import Trust, assess

FEWEST_LABELLED, MEGABYTE = 5, 1e6
MUCH, LEAST_ROOM = 1_500_000_000, 100_000_000
logger = logging.getLogger(__name__)


@takes_options
def analyse(
    edges: Source,
    features: Source | None = None,
    labels: Source | None = None,
    *,
    reading: ReadOptions = ReadOptions(),
    training: TrainOptions = TrainOptions(),
    asking: AskOptions = AskOptions(),
    execution: ExecOptions = ExecOptions(),
) -> Analysis:
    """Rank the nodes of your own graph: read it, train a model, score every removal.

    The same as `nora run`: train a model to predict the labels (or, without labels, the edges), and remove
    every node in turn to see how the predictions for all others change. A warning appears if the model is too
    weak to trust its influences.

    Args:
        edges: A file or a pandas DataFrame with the columns `source` and `target`, optionally
            `weight` and `type`; or a `.graphml` or `.gexf` file; or a NetworkX graph. See
            `nora.read_graph`.
        features: The features of the nodes: `id`, then one column each.
        labels: The classes to predict: `id`, `label`; blank is unknown.
        reading: How files are read. Each field of these four groups of options (`nora.analysis.options`) is
            also a keyword; here `directed=`, `encoding=`, `ignore=`, `label_column=`, `source_column=`,
            `target_column=`, `weight_column=`, `type_column=`.
        training: Which models are trained: `model=`, `models=`, `repeats=`, `task=`, `seed=`, `epochs=`,
            `balanced=`.
        asking: The questions: `targets=` (ids, names, a mask, `"labelled"`, or the name of a 0/1
            feature), `method=`, `also=`, `top=`.
        execution: How the work is executed: `memory=`, `progress=`, `on_message=`.

    Returns:
        The results: `.top(k)` returns the first nodes, `.save(folder)` writes the files.

    Example:
        >>> ties = pd.DataFrame({"source": list("aaabbcdddeef"), "target": list("bcdcddefgfgg")})
        >>> analysis = analyse(ties, epochs=5, top=2, progress=False)
        >>> analysis.graph.nodes, len(analysis.effects), analysis.run.task.name
        (7, 2, 'link')
    """
    given = {"edges": edges, "features": features, "labels": labels}
    check_files(**given)
    check_labels_matter(training.task, training.balanced, asking.targets)
    _check_methods(asking)
    log = _Log(execution.on_message, Stages(execution.progress))
    read, inputs = _read(given, reading, execution, log)
    task = _task(read, training.task)
    check_labels_matter(task, training.balanced, asking.targets)
    counted = None if asking.targets is None else target_ids(read.dataset, asking.targets)
    choices = [choose_model(name, read.dataset) for name in training.models or (training.model,)]
    graph = summarise_graph(read, reading.directed)
    log.show(f"Read {Path(edges).name if isinstance(edges, str | Path) else 'edges'}: {graph}.")
    log.note(*read.notes, *_about_counted(read.dataset, task, counted))
    many = training.repeats * len(choices)
    _foresee(read, choices[0], training.epochs, execution.memory, many, log)
    run = replace(_train(read, choices[0], task, training, log), inputs=inputs)
    trust = _assess(run, log)
    session = run.session(targets=counted)
    room, scores, others = _ask(session, asking, execution.memory, log)
    stability = None
    if many > 1:
        method = (asking.method, room)
        first = First(run, trust, scores, read.dataset, counted)
        stability = _repeat(first, choices, training, asking.top, method, log)
    effects = _effects(session, scores, asking.top, log)
    options = {**asdict(reading), **asdict(training), **asdict(asking), "memory": execution.memory}
    found = Analysis(
        graph=graph,
        run=run,
        session=session,
        scores=scores,
        others=others,
        effects=effects,
        trust=trust,
        stability=stability,
        notes=tuple(log.notes),
        warnings=tuple(log.cautions),
        options={
            **options,
            "encoding": read.encoding,
            "task": task,
            "model": choices[0].name,
            "models": [one.name for one in choices],
            "targets": None if counted is None else counted.tolist(),
        },
        inputs=inputs,
        seconds=log.stages.seconds,
    )
    return found.with_subject(log.stages)


class _Log:
    """A log of notes, cautions and the time of every stage."""

    def __init__(self, on_message: Callable[[str], None] | None, stages: Stages) -> None:
        self.show = on_message or (lambda text: logger.info(text.strip()))
        self.stages = stages
        self.notes: list[str] = []
        self.cautions: list[str] = []

    def note(self, *texts: str) -> None:
        """Keep remarks, and show them."""
        self.notes += texts
        for text in texts:
            self.show(f"  · {text}")

    def caution(self, text: str) -> None:
        """Keep what a reader must know first, and warn of it."""
        self.cautions.append(text)
        warn(text, UserWarning)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage, and keep its warnings; they are shown all the same."""
        with self.stages.measured(name), warnings.catch_warnings(record=True) as caught:
            yield
        for one in caught:
            warnings.warn(one.message, one.category, stacklevel=3)
            if issubclass(one.category, UserWarning) and str(one.message) not in self.cautions:
                self.cautions.append(str(one.message))


def _effects(session: Session, scores: Influence, top: int, log: _Log) -> tuple[Effect, ...]:
    """The effects of removing each of the most influential nodes."""
    found = []
    with log.stages.shown("effects", min(top, len(scores))) as advance:
        for effect in effects_of_each(session, scores.top(top)["node"].tolist()):
            found.append(effect)
            advance(1)
    return tuple(found)


def _read(
    given: dict[str, Any], options: ReadOptions, execution: ExecOptions, log: _Log
) -> tuple[Reading, tuple[dict[str, Any], ...]]:
    """The graph, and what identifies its files."""
    size = sum(_bytes(one) for one in given.values()) / MEGABYTE
    with log.stages.shown("reading", size or None) as advance, memory_limit(execution.memory):
        reading = read_graph(
            **given,
            **asdict(options),
            advance=lambda count: advance(count / MEGABYTE),
        )
        return reading, tuple(
            _identity(role, one) for role, one in given.items() if one is not None
        )


def _foresee(
    reading: Reading,
    chosen: ModelChoice,
    epochs: int,
    memory: str | int | None,
    many: int,
    log: _Log,
) -> None:
    """Report what training will take, where it is long; raise where it is too much."""
    if chosen.reason:
        log.note(f"model {chosen.name}: {chosen.reason}")
    dataset = reading.dataset
    shared = chosen.sizes.get("num_bases")
    expected = forecast(dataset.data, chosen.name, epochs, dataset.num_classes or 64, shared)
    _check_memory(expected, memory)
    if expected.long:
        log.show(f"\nThis will take {expected}{f', {many} times' if many > 1 else ''}.")


def _train(
    reading: Reading, chosen: ModelChoice, task: str, options: TrainOptions, log: _Log
) -> Run:
    with log.stages.measured("training"):
        run = train(
            chosen.name,
            reading.dataset,
            task,
            seed=options.seed,
            epochs=options.epochs,
            balanced=options.balanced,
            progress=log.stages.progress,
            **chosen.sizes,
        )
    log.note(*model_notes(run, bool(chosen.reason)))
    return run


def _assess(run: Run, log: _Log) -> Trust:
    trust = assess(run)
    log.show(f"\nThe model ({run.architecture['name']}) {trust.finding}.")
    if trust.recalls:
        log.show(f"  · {trust.about_recalls}")
    if trust.about_missed:
        log.note(trust.about_missed)
    if trust.weak:
        log.caution(trust.caution)
    return trust


def _ask(
    session: Session, asking: AskOptions, memory: str | int | None, log: _Log
) -> tuple[dict[str, Any], Influence, tuple[Influence, ...]]:
    """The limits of a method, every node's influence, and the scores of other methods."""
    # The page asks again what each removal changes: the engine is prepared once, for both.
    session.prepared.expect(session.num_nodes + removals_of_page(session))
    progress = log.stages.progress
    with log.stage("ranking"):
        room = _room(asking.method, memory, log.stages.seconds["training"])
        found = session.influence(asking.method, progress=progress, **room)
        release_memory()  # full passes come next, which take most
        scores = refined(session, found, least=asking.top, progress=progress)
    if "auto" in scores.details:
        log.show(f"auto: {method_name(scores)}, because {scores.details['auto']['reason']}.")
    with log.stage("other methods"):
        others = tuple(session.influence(name, progress=progress) for name in asking.also)
    return room, scores, others


def _repeat(
    first: First,
    choices: Sequence[ModelChoice],
    training: TrainOptions,
    top: int,
    method: tuple[str, dict[str, Any]],
    log: _Log,
) -> Stability:
    """How far the ranking holds for other seeds and architectures."""
    many = training.repeats * len(choices)
    log.show(
        f"\nTraining {many - 1} other model{'s' * (many > 2)}, to see whether the ranking holds:"
    )
    with log.stage("other models"):
        stability = repeated(first, choices, training, top, method, log.stages.progress, log.show)
    log.show(stability.finding)
    if stability.caution:
        log.caution(stability.caution)
    return stability


def _check_memory(expected: Forecast, memory: str | int | None) -> None:
    """Raise when a run will take more than it may, before it does."""
    if memory is not None:
        limit = parse_bytes(memory)
        allowed = f"{option('memory', memory)} allows {in_words(limit)}"
    else:
        limit = (available_memory() or expected.memory) + held_memory()
        allowed = f"{in_words(limit)} is free"
    if expected.memory > limit:
        raise ValueError(
            f"training and ranking would take about {in_words(expected.memory)}, but {allowed}; give fewer "
            "features, a smaller graph or more memory"
        )


def _room(method: str, memory: str | int | None, training: float) -> dict[str, Any]:
    """Limits of a method: memory depends on the graph, time on the training."""
    asked = inspect.signature(METHODS[method].value).parameters
    room: dict[str, Any] = {}
    if "budget" in asked:
        room["budget"] = ranking_seconds(training)
    if "memory" in asked and memory is not None:
        room["memory"] = max(LEAST_ROOM, (parse_bytes(memory) - held_memory()) // 2)
    elif "memory" in asked and held_memory() > MUCH:
        room["memory"] = MUCH // 3
    return room


def _bytes(source: Source | None) -> int:
    """A file's size; 0 for frames and folders."""
    path = Path(source) if isinstance(source, str | Path) else None
    return path.stat().st_size if path is not None and path.is_file() else 0


def _about_counted(dataset: Dataset, task: str, targets: Tensor | None) -> tuple[str, ...]:
    """Which predictions count, where that is not obvious."""
    if targets is not None:
        return (about_targets(targets, dataset),)
    return kinds_without_labels(dataset) if task == "node" else ()


def _check_methods(asking: AskOptions) -> None:
    for name in (asking.method, *asking.also):
        bind_options(METHODS[name], {})
        if asking.targets is not None and not METHODS[name].facts.uses_targets:
            raise ValueError(
                f"method {name!r} does not look at predictions, so {option('targets')} has no meaning for "
                "it; leave one of them out"
            )
        if METHODS[name].facts.labels == "required":
            raise ValueError(
                f"method {name!r} learns from known influences, and there are none yet; save the run of "
                "this call, and pass it to nora.tune"
            )


def _identity(role: str, source: Source) -> dict[str, Any]:
    """The identity of an input; of a file, its name, size and SHA-256."""
    if isinstance(source, pd.DataFrame):
        return {
            "role": role,
            "rows": len(source),
            "columns": [str(name) for name in source.columns],
        }
    if isinstance(source, nx.Graph):
        size = {"nodes": source.number_of_nodes(), "edges": source.number_of_edges()}
        return {"role": role, "networkx": type(source).__name__, **size}
    path = Path(source)
    if path.is_dir():
        return {"role": role, "folder": str(path)}
    return {
        "role": role,
        "file": str(path),
        "bytes": path.stat().st_size,
        "sha256": sha256_of(path),
    }


def _task(reading: Reading, task: str | None) -> str:
    """The task asked for, or the one that the files allow."""
    dataset = reading.dataset
    if task is None:
        task = "node" if dataset.num_classes else "link"
    if task == "link":
        return task
    labelled = int((dataset.data.y >= 0).sum())
    strangers = f". {reading.unmatched}: do the ids match?" if reading.unmatched else ""
    if not dataset.num_classes:
        raise ValueError(
            f"to predict labels there must be some: give {option('labels')}, or {option('task', 'link')}"
        )
    if dataset.num_classes < 2:
        raise ValueError(
            f"all labels are {(dataset.class_names or ('the same',))[0]!r}: a model has nothing to "
            f"learn{strangers or '.'} Give labels of at least two classes, or {option('task', 'link')}"
        )
    if labelled < FEWEST_LABELLED:
        raise ValueError(
            f"{labelled} node{'s are' if labelled > 1 else ' is'} labelled; at least "
            f"{FEWEST_LABELLED} are needed to train and test{strangers}"
        )
    return task
