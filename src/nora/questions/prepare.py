"""An engine that is prepared once and kept in a folder, for any process to open."""

from __future__ import annotations

import errno
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nora import __version__
from nora.arguments import path_of
from nora.artefact import MANIFEST, Check, DamagedError
from nora.engine.cost import preparation_cost
from nora.engine.exec.kernels.choice import pick_backend
from nora.engine.prepared import Prepared
from nora.engine.store.array_folder import Reader, write_engine_folder
from nora.engine.store.array_store import ArrayStore, moving
from nora.engine.store.saved import kept_engine, opened_engine
from nora.engine.unsupported import UnsupportedError
from nora.engine.verify import compare_with
from nora.files import check_folder, read_json
from nora.graph.graph_arrays import graph_document, graph_of
from nora.graph.node_index import Graph
from nora.machine import available_memory
from nora.memory import in_words, parse_bytes
from nora.model import Transform
from nora.model.calling import Forward
from nora.model.fingerprint import fingerprint
from nora.model.task import Task
from nora.model.task_arrays import task_document, task_of
from nora.options import option
from nora.progress import progress_bar
from nora.questions.session import Session
from nora.questions.staleness import staleness_of
from nora.wording import listed, short

# Graphs of fewer edges are prepared before a forecast would be made.
FORECAST_EDGES = 1_000_000
# Removals that are compared with the definition, so that opening the engine need not compare any.
VERIFIED = 8
REMEDY = "choose another folder, or add replace=True to replace it"
# Removals that are compared with the model when an engine is opened.
REMOVALS = 2
# What must be the same as when it was prepared.
COMPARED = ("model", "graph", "task")
DESCRIBED = (
    "fingerprint",
    "graph",
    "task",
    "output",
    "by_id",
    "verified",
    "python",
    "model",
    "num_nodes",
)


def prepare(
    model: nn.Module,
    data: Graph,
    folder: str | Path,
    task: Task | None = None,
    *,
    forward: Forward | None = None,
    transform: Transform | None = None,
    key: str | None = None,
    memory: str | float | None = None,
    replace: bool = False,
    progress: bool = True,
) -> Path:
    """Prepare the exact engine and save it to a folder, which `nora.Session.open` opens in about a second.

    The folder contains the graph and everything that is computed once, as memory-mapped arrays that all
    processes of a machine share. It contains neither code nor weights: pass the model when you open it.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        folder: The folder to write; it must not exist yet, unless `replace` is set.
        task: What is predicted; node classification from logits by default.
        forward: `(model, data) -> output` for models not called as `model(x, edge_index)`.
        transform: `data -> data`, applied to the graph, and again without each node.
        key: A version name of your own for parts of the model that cannot be compared between processes.
        memory: Memory limit, such as `"8GB"`. Default: the free memory. NORA first predicts the memory and
            disk space from two small graphs, and raises an error if there is too little of either.
        replace: Replace an existing engine.
        progress: Show progress.

    Returns:
        The folder.

    Raises:
        ValueError: If `exact` does not support the model.

    Example:
        >>> import nora, tempfile
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = nora.prepare(run.model, run.data, f"{place}/engine", progress=False)
        ...     session = nora.Session.open(folder, run.model)
        ...     session.what_if(0).removed
        (0,)
    """
    path = path_of(folder, "folder")
    check_place(path, replace)
    session = Session(model, data, task, forward=forward, transform=transform, once=True)
    _check_fits(session, path, None if memory is None else parse_bytes(memory))
    return keep(session, path, key=key, replace=replace, progress=progress)


def check_place(path: Path, replace: bool, remedy: str = REMEDY) -> None:
    """Raise before any work where the folder could not be written."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file; name a folder")
    if path.exists() and any(path.iterdir()):
        if not replace:
            raise FileExistsError(f"{path} exists already; {remedy}")
        if not (path / MANIFEST).is_file() or "engine" not in read_json(path / MANIFEST):
            raise FileExistsError(f"{path} holds no prepared engine, so it is not replaced")
        own = [file.name for file in path.iterdir() if file.suffix != ".npy"]
        if others := [name for name in own if name != MANIFEST]:
            raise FileExistsError(
                f"{path} holds files of yours ({listed(others, 3)}), so it is not replaced"
            )
    check_folder(path.absolute().parent)


def _check_fits(session: Session, path: Path, memory: int | None) -> None:
    """Raise where preparing would not fit; small graphs always do."""
    problem = session.unchecked
    if problem.edge_index.size(1) < FORECAST_EDGES:
        return
    with problem.evaluating(), torch.no_grad():
        try:
            needs = preparation_cost(problem)
        except (
            Exception
        ):  # whatever the model's own code raises: the checks that follow say it better
            return
    limit = available_memory() if memory is None else memory
    if limit is not None and needs.memory > limit:
        allowed = "is free" if memory is None else "is allowed"
        raise MemoryError(
            f"preparing needs {needs}, and {in_words(limit)} {allowed}: free some, or raise "
            f"{option('memory')}"
        )
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    free = shutil.disk_usage(there).free
    if needs.disk > free:
        raise OSError(
            errno.ENOSPC, f"preparing needs {needs}, and {in_words(free)} are free there", str(path)
        )


def keep(
    session: Session,
    path: Path,
    *,
    key: str | None = None,
    replace: bool = False,
    progress: bool = False,
) -> Path:
    """Prepare a session's engine and write it; see `prepare`."""
    with progress_bar("checking the model", None, progress):
        problem = session.problem()
    prepared, array_store = Prepared(), ArrayStore()
    prepared.array_store, prepared.first_trace = array_store, session.prepared.first_trace
    with problem.evaluating():
        asked = fingerprint(problem, "", {}, key)
        with write_engine_folder(path, replace or path.exists()) as writer:
            try:
                with progress_bar("preparing the engine", None, progress), moving(writer):
                    engine = prepared.engine(problem, removals=problem.num_nodes)
                    facts = prepared.verify(engine, VERIFIED, seed=0)
            except UnsupportedError as reason:
                raise ValueError(
                    f"there is no engine to save: {reason}. Every question would run the model itself"
                ) from reason
            document = {
                "nora": __version__,
                "python": ".".join(platform.python_version_tuple()[:2]),
                "torch": torch.__version__,
                "fingerprint": {name: asked[name] for name in ("model", "graph", "task", "key")},
                "model": type(problem.model).__name__,
                "num_nodes": problem.num_nodes,
                "num_edges": problem.edge_index.size(1),
                "graph": graph_document(problem.data, writer.add),
                "task": task_document(session.given_task, writer.add),
                "output": writer.add(problem.output()),
                "by_id": problem.by_id,
                "verified": facts,
                "engine": kept_engine(engine, array_store, writer),
            }
            writer.finish(document)
    session.prepared, prepared.array_store = prepared, None  # it holds all that was made on the way
    return path


def open_session(
    folder: str | Path,
    model: nn.Module,
    task: Task | None = None,
    *,
    data: Graph | None = None,
    check: Check = "quick",
    key: str | None = None,
    verify: int = REMOVALS,
    **about: Any,
) -> Session:
    """See `Session.open`."""
    path = path_of(folder, "folder")
    reader = Reader(path, check)
    manifest = reader.manifest
    if "engine" not in manifest:
        raise ValueError(f"{path} holds no prepared engine")
    if manifest.get("nora") != __version__:
        raise ValueError(
            f"{path} was prepared by nora {manifest.get('nora')}, and this is {__version__}: prepare it again"
        )
    if missing := [name for name in DESCRIBED if name not in manifest]:
        raise DamagedError(
            f"{path / MANIFEST} lacks {listed(missing, 3)}: prepare the engine again"
        )
    if task is None and manifest["task"] is None:
        raise ValueError(
            f"{path} was prepared for a task with custom code, which is not saved: pass task="
        )

    def give(number: int) -> torch.Tensor:
        return reader.get(number, private=True)

    with _as_written(path):
        task = task_of(manifest["task"], give) if task is None else task
        graph, output = graph_of(manifest["graph"], give), reader.get(manifest["output"])
    # Not that of the caller: the folder's is mapped, and one for all processes.
    session = Session(model, graph, task, once=True, **about)
    problem = changed(session._problem, by_id=bool(manifest["by_id"]), original=output)
    truth = changed(session._problem, by_id=bool(manifest["by_id"]))
    truth = truth if data is None else changed(truth, data=data)
    asked = fingerprint(problem if data is None else changed(problem, data=data), "", {}, key,
                        graph=manifest["fingerprint"].get("graph") if data is None else None)  # fmt: skip
    _same_question(path, manifest, asked)
    functions = pick_backend("auto", problem, problem.num_nodes)
    with _as_written(path):
        with problem.evaluating():
            engine = opened_engine(problem, functions, manifest["engine"], reader)
            if verify:
                compare_with(engine, truth, verify)
        facts = {name: abs(value) for name, value in manifest["verified"].items()}
    session.adopt(problem, Prepared(engine, facts), staleness_of(problem, mapped=True), path)
    return session


@contextmanager
def _as_written(path: Path) -> Iterator[None]:
    """Name the folder where what it holds is not what an engine is made of, or not this model's."""
    try:
        yield
    except UnsupportedError as error:
        raise DamagedError(
            f"{path} does not answer as the model does: {error}. It was changed after it was prepared; "
            "prepare the engine again"
        ) from error
    except DamagedError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise DamagedError(
            f"{path / MANIFEST} does not describe an engine ({short(repr(error), 120)}): prepare the "
            "engine again"
        ) from error


def _same_question(path: Path, manifest: dict[str, Any], asked: dict[str, Any]) -> None:
    kept = manifest["fingerprint"]
    differs = [name for name in COMPARED if kept.get(name) != asked[name]]
    if not differs:
        return
    here = ".".join(platform.python_version_tuple()[:2])
    hint = ""
    if here != manifest["python"]:
        hint = f". It was prepared with Python {manifest['python']}, whose code has other digests"
    which = "model, or the way it is called," if differs[0] == "model" else differs[0]
    raise ValueError(
        f"{path} was prepared for another {which} ({manifest['model']}, {manifest['num_nodes']:,} "
        f"nodes): open it with the one it was prepared for, or prepare it again{hint}"
    )
