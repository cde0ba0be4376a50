"""Files in, answer out: read a graph, train a model, score every removal, look at the first."""

from __future__ import annotations

import hashlib
import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from nora.analysis.asking import removals_of_page
from nora.analysis.checks import check_files, check_models, check_task
from nora.analysis.forecast import Forecast, forecast, ranking_seconds
from nora.analysis.model_choice import ModelChoice, choose_model
from nora.analysis.repeats import repeated
from nora.analysis.result import Analysis
from nora.analysis.stages import Stages
from nora.analysis.summary import model_notes, summarise_graph
from nora.arguments import check_seed, check_whole
from nora.ingest import Reading, read_graph
from nora.ingest.reading import Source
from nora.limits import memory_limit
from nora.machine import available_memory, held_memory, release_memory
from nora.memory import in_words, parse_bytes
from nora.methods import METHODS
from nora.models import MODELS
from nora.options import option
from nora.questions.each import effects_of_each
from nora.questions.influence import bind_options
from nora.questions.refine import refined
from nora.results.exactness import method_name
from nora.training.train import train
from nora.training.trust import assess

FEWEST_LABELLED, MEGABYTE = 5, 1e6
MUCH, LEAST_ROOM = 1_500_000_000, 100_000_000
log = logging.getLogger(__name__)


def analyse(
    edges: Source,
    features: Source | None = None,
    labels: Source | None = None,
    *,
    model: str | None = None,
    models: str | Sequence[str] = (),
    repeats: int = 1,
    task: str | None = None,
    directed: bool = False,
    encoding: str = "auto",
    ignore: str | Sequence[str] = (),
    label_column: str | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    weight_column: str | None = None,
    type_column: str | None = None,
    method: str = "auto",
    also: str | Sequence[str] = (),
    top: int = 10,
    seed: int = 0,
    epochs: int = 200,
    memory: str | int | None = None,
    progress: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Analysis:
    """Rank the nodes of your own graph: read it, train a model, score every removal.

    What `nora run` does. A model is trained to predict the labels (or, without labels, the edges);
    then every node is removed in turn to see how the predictions for all others change. Where the
    model is too weak for its influences to be trusted, a warning is given.

    Args:
        edges: A file or a pandas DataFrame with the columns `source` and `target`, optionally
            `weight` and `type`; or a `.graphml` or `.gexf` file. See `nora.read_graph`.
        features: What is known of each node: `id`, then one column each.
        labels: The classes to predict: `id`, `label`; blank is unknown.
        model: A name from `nora models`; by default, and for `auto`, `rgcn` for typed edges where that
            fits, else `gcn`: the choice is told with its reason.
        models: Several architectures in place of `model`: the first is told of, the others are compared.
        repeats: How many models of each architecture are trained, with seeds that follow `seed`. With more
            than one model, `Analysis.stability` tells how far the ranking holds for the others.
        task: `node` (predict labels) or `link` (predict edges); by default `node` if there are labels.
        directed: Edges go from source to target only.
        encoding: Features for nodes without any: `auto`, `degree`, `onehot`, `random`, `random-walk`,
            or several joined by `+`.
        ignore: Columns to leave out.
        label_column: The column of `labels` or `features`, or the node attribute, to predict.
        source_column: The column of `edges` that holds the source, where it is not called so; with
            `target_column`.
        target_column: The column of `edges` that holds the target.
        weight_column: The column of `edges` that holds the weight.
        type_column: The column of `edges` that holds the type.
        method: A name from `nora methods`.
        also: Other methods to compare with.
        top: Of how many of the first nodes the effects are kept.
        seed: The same seed gives the same results.
        epochs: Most passes in training.
        memory: The most it may take, e.g. `"4GB"`; what would take more is refused before it starts.
        progress: Show progress bars.
        tell: Called with each message on the way; by default they go to the logger `nora.analysis`.

    Returns:
        Everything that was found; `.top(k)` for the first nodes, `.save(folder)` for the files.

    Example:
        >>> ties = pd.DataFrame({"source": list("aaabbcdddeef"), "target": list("bcdcddefgfgg")})
        >>> analysis = analyse(ties, epochs=5, top=2, progress=False)
        >>> analysis.graph.nodes, len(analysis.effects), analysis.run.task.name
        (7, 2, 'link')
    """
    tell = tell or (lambda text: log.info(text.strip()))
    ignore, also, models = _several(ignore), _several(also), _several(models)
    check_task(task)
    check_seed(seed)
    check_whole("epochs", epochs, 1)
    given = {"edges": edges, "features": features, "labels": labels}
    check_files(**given)
    _check_methods(method, also)
    check_models(model, models)
    check_whole("repeats", repeats, 1)
    for name in (model, *models):
        if name not in (None, "auto"):
            MODELS[name]
    check_whole("top", top, 1)

    stages, cautions = Stages(progress), []
    size = sum(_bytes(one) for one in given.values()) / MEGABYTE
    with stages.shown("reading", size or None) as advance, memory_limit(memory):
        reading = read_graph(
            edges,
            features,
            labels,
            directed=directed,
            encoding=encoding,
            ignore=ignore,
            label_column=label_column,
            source_column=source_column,
            target_column=target_column,
            weight_column=weight_column,
            type_column=type_column,
            advance=lambda count: advance(count / MEGABYTE),
        )
        inputs = tuple(_identity(role, one) for role, one in given.items() if one is not None)
    task = _task(reading, task)
    choices = [choose_model(name, reading.dataset) for name in models or (model,)]
    chosen = choices[0]
    model = chosen.name
    graph = summarise_graph(reading, directed)
    tell(f"Read {'edges' if isinstance(edges, pd.DataFrame) else Path(edges).name}: {graph}.")
    for note in reading.notes:
        tell(f"  · {note}")
    if chosen.reason:
        tell(f"  · model {model}: {chosen.reason}")
    expected = forecast(
        reading.dataset.data,
        model,
        epochs,
        reading.dataset.num_classes or 64,
        chosen.sizes.get("num_bases"),
    )
    _check_memory(expected, memory)
    many = repeats * len(choices)
    if expected.long:
        tell(f"\nThis will take {expected}{f', {many} times' if many > 1 else ''}.")

    with stages.measured("training"):
        run = train(
            model,
            reading.dataset,
            task,
            seed=seed,
            epochs=epochs,
            progress=progress,
            **chosen.sizes,
        )
    run = replace(run, inputs=inputs)
    notes = (*reading.notes, *_about_choice(chosen), *model_notes(run, bool(chosen.reason)))
    shown = len(reading.notes) + len(_about_choice(chosen))
    for note in notes[shown:]:
        tell(f"  · {note}")
    trust = assess(run)
    tell(f"\nThe model ({model}) {trust.finding}.")
    if trust.weak:
        cautions.append(trust.caution)
        warnings.warn(cautions[0], UserWarning, stacklevel=2)

    session = run.session()
    # The page asks again what each removal changes: the engine is prepared once, for both.
    session.prepared.expect(session.num_nodes + removals_of_page(session))
    with stages.measured("ranking"), _kept(cautions):
        room = _room(method, memory, stages.seconds["training"])
        found = session.influence(method, progress=progress, **room)
        release_memory()  # full passes come next, which take most
        scores = refined(session, found, least=top, progress=progress)
    if "auto" in scores.details:
        tell(f"auto: {method_name(scores)}, because {scores.details['auto']['reason']}.")
    with stages.measured("other methods"), _kept(cautions):
        others = tuple(session.influence(name, progress=progress) for name in also)
    stability = None
    if many > 1:
        tell(
            f"\nTraining {many - 1} other model{'s' * (many > 2)}, to see whether the ranking holds:"
        )
        with stages.measured("other models"), _kept(cautions):
            stability = repeated(
                run,
                trust,
                scores,
                reading.dataset,
                choices,
                repeats,
                top,
                method=method,
                options=room,
                epochs=epochs,
                progress=progress,
                tell=tell,
            )
        tell(stability.finding)
        if stability.caution:
            cautions.append(stability.caution)
            warnings.warn(stability.caution, UserWarning, stacklevel=2)
    first = scores.top(top)["node"].tolist()
    effects = []
    with stages.shown("effects", len(first)) as advance:
        for effect in effects_of_each(session, first):
            effects.append(effect)
            advance(1)
    return Analysis(
        graph=graph,
        run=run,
        session=session,
        scores=scores,
        others=others,
        effects=tuple(effects),
        trust=trust,
        stability=stability,
        notes=notes,
        warnings=tuple(cautions),
        options={
            "task": task,
            "model": model,
            "models": [one.name for one in choices],
            "repeats": repeats,
            "directed": directed,
            "encoding": reading.encoding,
            "ignore": ignore,
            "label_column": label_column,
            "method": method,
            "also": also,
            "top": top,
            "epochs": epochs,
            "memory": memory,
        },
        inputs=inputs,
        seconds=stages.seconds,
        memory=stages.memory,
        computing=stages.computing,
    )


def _about_choice(chosen: ModelChoice) -> tuple[str, ...]:
    return (f"model {chosen.name}: {chosen.reason}",) if chosen.reason else ()


def _check_memory(expected: Forecast, memory: str | int | None) -> None:
    """Raise when a run will take more than it may, before it does."""
    if memory is not None:
        limit, allowed = parse_bytes(memory), f"{option('memory', memory)} allows no more"
    else:
        limit, allowed = (
            (available_memory() or expected.memory) + held_memory(),
            "there is not so much",
        )
    if expected.memory > limit:
        raise ValueError(
            f"training and ranking would take about {in_words(expected.memory)}, and {allowed} than "
            f"{in_words(limit)}; give fewer features or a smaller graph, or more memory"
        )


def _room(method: str, memory: str | int | None, training: float) -> dict[str, Any]:
    """What a method may take, where it asks: less memory where a graph takes much, time as training did."""
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


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, as several.

    >>> _several("bio"), _several(["bio", "url"])
    (('bio',), ('bio', 'url'))
    """
    return (given,) if isinstance(given, str) else tuple(given)


def _check_methods(method: str, also: Sequence[str]) -> None:
    for name in (method, *also):
        bind_options(METHODS[name], {})
        if METHODS[name].facts.labels == "required":
            raise ValueError(
                f"method {name!r} learns from known influences, which there are none of yet; save the "
                "run that comes of this, and see nora.tune"
            )
    if len({method, *also}) < 1 + len(also):
        raise ValueError(
            f"{option('also')} names a method twice, or the one that {option('method')} names"
        )


def _identity(role: str, source: Source) -> dict[str, Any]:
    """What identifies a file that was read."""
    if isinstance(source, pd.DataFrame):
        return {
            "role": role,
            "rows": len(source),
            "columns": [str(name) for name in source.columns],
        }
    path = Path(source)
    if path.is_dir():
        return {"role": role, "folder": str(path)}
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"role": role, "file": str(path), "bytes": path.stat().st_size, "sha256": digest}


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
            f"all labels are {(dataset.class_names or ('the same',))[0]!r}: there is nothing to tell "
            f"apart{strangers or '.'} Give labels of at least two classes, or {option('task', 'link')}"
        )
    if labelled < FEWEST_LABELLED:
        raise ValueError(
            f"{labelled} node{'s are' if labelled > 1 else ' is'} labelled; at least "
            f"{FEWEST_LABELLED} are needed to train and test{strangers}"
        )
    return task


@contextmanager
def _kept(cautions: list[str]) -> Iterator[None]:
    """Keep warnings for the report, and show them all the same."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for one in caught:
        warnings.warn(one.message, one.category, stacklevel=2)
        if issubclass(one.category, UserWarning) and str(one.message) not in cautions:
            cautions.append(str(one.message))
