"""Long runs in pieces: finished removals as Parquet files beside a manifest.

A folder is an artefact (`nora.artefact`) that grows: `manifest.json` (the fingerprint of model, graph, task,
method and options) and one `part-*.parquet` file (`node`, `influence`, further measures) per finished shard.
Resuming reads what is there and does the rest; several processes may write to the same folder; folders with
the same fingerprint merge. Where edges are removed, `edges.parquet` lists all edges of the graph, and `node`
is a position in that list.
"""

from __future__ import annotations

import json
import os
import platform
import time
import uuid
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nora.arguments import path_of
from nora.artefact import MANIFEST, SEAL, unsealed, write_manifest
from nora.files import check_regular, read_json, written_atomically
from nora.model import Problem
from nora.model.fingerprint import FORMAT
from nora.results.edge_influence import EdgeInfluence
from nora.results.influence import Influence
from nora.results.tables import UNREADABLE, check_count

KIND, VERSION = "checkpoint", 1
SECONDS_PER_SHARD = 10.0
EDGES = "edges.parquet"
# The lock of the process that distributes the work and writes the results.
DRIVER = ".driver"
# The column of standard errors, beside measures.
STDERR = "stderr"


@dataclass
class Shards:
    """A checkpoint folder that is open for writing."""

    folder: Path
    manifest: dict[str, Any]
    _pending: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    _since: float = field(default_factory=time.monotonic)
    _alone: Any = None

    @staticmethod
    def open(
        folder: Path,
        print_: dict[str, Any],
        problem: Problem,
        columns: Sequence[str] = ("change",),
        edges: pd.DataFrame | None = None,
        alone: bool = False,
    ) -> Shards:
        """Start or continue a run; a folder that belongs to another run is refused.

        Args:
            folder: Where.
            print_: The run's fingerprint.
            problem: The question.
            columns: The measures that every removal has; the first is the influence.
            edges: All edges of the graph, where edges are removed instead of nodes.
            alone: Refuse a folder that another such driver is writing to: both would have the same done.
        """
        manifest = {
            "format": FORMAT,
            "python": ".".join(platform.python_version_tuple()[:2]),
            "fingerprint": print_,
            "num_nodes": problem.num_nodes,
            "task": problem.task.name,
            "node_types": problem.node_index.sizes(),
            "columns": list(columns),
            "largest": _largest(problem),
        }
        if edges is not None:
            manifest |= {"num_edges": len(edges)}
        if (folder / MANIFEST).exists():
            _same_run(read_checkpoint_manifest(folder), manifest, folder)
        else:
            if os.path.lexists(folder) and not folder.is_dir():
                raise NotADirectoryError(f"{folder} is a file; a checkpoint is a folder")
            # A name with a dot is what a killed process may have left half written.
            if folder.exists() and any(folder.glob("[!.]*")):
                raise FileExistsError(
                    f"{folder} is not empty and not a checkpoint; choose another folder"
                )
            write_manifest(folder, KIND, VERSION, manifest)
        if edges is not None and not (folder / EDGES).exists():
            with written_atomically(folder / EDGES) as temporary:
                edges.to_parquet(temporary, index=False)
        return Shards(folder, manifest, _alone=_held(folder) if alone else None)

    @property
    def columns(self) -> list[str]:
        """The columns of a part, beside `node`."""
        return _columns(self.manifest)

    def remaining(self, problem: Problem) -> Problem:
        """The same problem, less the nodes that are finished."""
        return replace(problem, nodes=self.unfinished(problem.nodes))

    def unfinished(self, ids: Tensor) -> Tensor:
        """Those of the nodes, or places of edges, that are not finished."""
        parts = _parts_within(self.folder, self.manifest)
        finished = torch.as_tensor(parts["node"].to_numpy(copy=True))
        return ids[~torch.isin(ids, finished)]

    def add(self, nodes: Tensor, scores: Tensor) -> None:
        """Keep a finished part; it is on disk within a few seconds."""
        self._pending.append((nodes, scores))
        if time.monotonic() - self._since >= SECONDS_PER_SHARD:
            self.flush()

    def flush(self) -> None:
        """Write what is pending as one shard."""
        self._since = time.monotonic()
        if self._pending:
            pending, self._pending = self._pending, []
            self.write(torch.cat([n for n, _ in pending]), torch.cat([s for _, s in pending]))

    def write(self, nodes: Tensor, scores: Tensor) -> None:
        """Write one shard: scores `[n]`, or `[n, columns]`."""
        if nodes.numel():
            values = scores.reshape(len(nodes), -1).t()
            frame = pd.DataFrame(
                {
                    "node": nodes.numpy(),
                    **dict(zip(self.columns, values.numpy(), strict=True)),
                }
            )
            name = f"part-{int(nodes[0]):09d}-{uuid.uuid4().hex[:8]}.parquet"
            with written_atomically(self.folder / name) as temporary:
                frame.to_parquet(temporary, index=False, write_page_checksum=True)

    def scores(self) -> Tensor:
        """Everything finished so far, `[num_nodes]`, NaN elsewhere."""
        return self.values()[:, 0]

    def values(self) -> Tensor:
        """The same for all columns, `[nodes or edges, columns]`."""
        return read_scores([self.folder], self.manifest)


def _held(folder: Path) -> Any:
    """A lock on a folder, for as long as what is returned is there; a killed process has none."""
    try:
        import fcntl
    except ImportError:  # Windows has none
        return None
    handle = (folder / DRIVER).open("a+", encoding="utf-8")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        who = handle.read().strip() or "another process"
        handle.close()
        raise BlockingIOError(
            f"{folder} is being written to by {who}: wait for it, or use another folder and join both with "
            "nora.merge_checkpoints"
        ) from None
    handle.truncate(0)
    handle.write(f"process {os.getpid()} on {platform.node()}")
    handle.flush()
    _LOCKS.add(handle)
    return handle


# A forked process has the driver's files open, and would hold its lock after it is killed.
_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [handle.close() for handle in _LOCKS])


def begun_with(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """The method and options a checkpoint folder was begun with; None when it is not begun."""
    if not (folder / MANIFEST).exists():
        return None
    about = read_checkpoint_manifest(folder)["fingerprint"]
    return str(about.get("method")), dict(about.get("options", {}))


def read_checkpoint_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a checkpoint folder."""
    path = folder / MANIFEST
    if not path.exists():
        raise FileNotFoundError(f"{folder} is not a checkpoint: it has no manifest.json")
    try:
        manifest = read_json(path)
        if manifest.get("kind", KIND) != KIND:
            raise ValueError(f"{folder} is not a checkpoint, but a {manifest['kind']}")
        if not {"fingerprint", "num_nodes", "task"} <= manifest.keys():
            raise ValueError("it lacks a fingerprint")
        if SEAL in manifest:  # the first versions had none
            manifest = unsealed(manifest, "it")
        if not isinstance(manifest["fingerprint"], dict):
            raise ValueError("its fingerprint is not a table")
        check_count(manifest["num_nodes"])
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} is not readable as a checkpoint: {error}") from error
    options = manifest["fingerprint"].get("options")
    if isinstance(options, dict) and options.get("pruning") == "random":
        del options["pruning"]  # an option of before, by its default
    return manifest


def _columns(manifest: dict[str, Any]) -> list[str]:
    """The columns of a part: the influence, then further measures by name."""
    return ["influence", *manifest.get("columns", ["change"])[1:]]


def read_parts(folder: Path, columns: Sequence[str] = ("influence",)) -> pd.DataFrame:
    """All that is finished in a folder: columns `node`, `influence` and further measures."""
    parts = [_read_part(path, columns) for path in sorted(folder.glob("part-*.parquet"))]
    if not parts:
        empty = {name: pd.Series(dtype=float) for name in columns}
        return pd.DataFrame({"node": pd.Series(dtype="int64"), **empty})
    return pd.concat(parts).drop_duplicates("node")


def _read_part(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    from nora.parquet_limits import read_parquet

    try:
        if not path.is_file():  # a pipe would be waited for
            raise ValueError("it is not a file")
        table = read_parquet(path, ["node", *columns], check_pages=True)
        part = table.to_pandas(ignore_metadata=True)
        if part.dtypes["node"].kind != "i" or any(part.dtypes[one].kind != "f" for one in columns):
            raise ValueError("its columns are not whole numbers and scores")
        if bool((part["node"] < 0).any()):
            raise ValueError("it holds a node below 0")
    except UNREADABLE as error:
        raise ValueError(
            f"{path} is not readable: {str(error).rstrip('.')}. Delete it, and its nodes are computed again"
        ) from error
    return part


def _read_edges(path: Path, count: int) -> pd.DataFrame:
    """The edges that a checkpoint of edges is about."""
    from nora.parquet_limits import decoded, read_parquet

    try:
        check_regular(path)
        edges = decoded(read_parquet(path)).to_pandas(ignore_metadata=True)
        if len(edges) != count:
            raise ValueError(f"it holds {len(edges):,} edges, and the manifest {count:,}")
    except UNREADABLE as error:
        raise ValueError(f"{path} is not readable as the edges of a checkpoint: {error}") from error
    return edges


def _parts_within(folder: Path, manifest: dict[str, Any]) -> pd.DataFrame:
    """All that is finished in a folder; refused where it does not fit the manifest."""
    columns = _columns(manifest)
    count = manifest.get("num_edges", manifest["num_nodes"])
    parts = read_parts(folder, columns)
    if len(parts) and int(parts["node"].max()) >= count:
        raise ValueError(
            f"{folder} holds a part of another ranking: node {int(parts['node'].max())} of {count}"
        )
    values, least, most = parts[columns].to_numpy(), -np.inf, np.inf
    if _is_exact(manifest):
        least, most = 0.0, float(manifest.get("largest") or np.inf)
        values = values[:, :1]
        wrong = ~((values >= least) & (values <= most) & np.isfinite(values))
    else:
        wrong = np.isinf(values)
    if wrong.any():
        row = int(wrong.any(axis=1).argmax())
        raise ValueError(
            f"{folder}: the value of {int(parts['node'].iloc[row])} is {values[row][wrong[row]][0]}, "
            f"expected a number from {least:g} to {most:g}: a part was changed or damaged. Delete the "
            "parts, and they are computed again"
        )
    return parts


def _is_exact(manifest: dict[str, Any]) -> bool:
    """Whether a folder holds exact changes rather than estimates."""
    asked = manifest["fingerprint"]
    options = asked.get("options")
    tolerance = options.get("tolerance") if isinstance(options, dict) else None
    measure = manifest.get("columns", ["change"])[0]
    return asked.get("method") in ("exact", "brute") and not tolerance and measure == "change"


def _largest(problem: Problem) -> float | None:
    """The largest possible change; None where predictions are not probabilities, or not known yet."""
    if problem.original is None or problem.task.name not in ("node", "link"):
        return None
    with torch.no_grad():
        items = problem.predict()
    each = items.size(1) if items.dim() > 1 else 1
    # Probabilities of one class among several differ by 2 at most, in L1 norm.
    alone = getattr(problem.task, "mode", "multilabel") == "multilabel"
    rounding = 1 + 1e-4
    return rounding * items.size(0) * (each if alone else max(1, min(2, each)))


def read_scores(folders: Iterable[Path], manifest: dict[str, Any]) -> Tensor:
    """The finished scores of several folders in one tensor `[nodes or edges, columns]`, NaN elsewhere."""
    columns = _columns(manifest)
    count = manifest.get("num_edges", manifest["num_nodes"])
    frame = pd.concat([_parts_within(folder, manifest) for folder in folders])
    values = torch.as_tensor(frame[columns].to_numpy(copy=True))
    scores = torch.full((count, len(columns)), float("nan"), dtype=values.dtype)
    scores[torch.as_tensor(frame["node"].to_numpy(copy=True))] = values
    return scores


def _same_run(found: dict[str, Any], wanted: dict[str, Any], folder: Path) -> None:
    if found.get("format") != wanted.get("format"):
        raise ValueError(
            f"{folder} was started by another version of nora with other fingerprints: it cannot be "
            "continued or merged here. Use another folder"
        )
    old, new = found["fingerprint"], wanted["fingerprint"]
    differs = [key for key in new if old.get(key) != json.loads(json.dumps(new[key]))]
    if differs:
        begun = found.get("python")
        hint = f". It was started with Python {begun}, which compiles code differently"
        raise ValueError(
            f"{folder} belongs to another run: its {' and '.join(differs)} differ. "
            "Use another folder, or repeat the call it was started with"
            + (hint if begun != wanted.get("python") else "")
        )


def merge_checkpoints(folders: Iterable[str | Path]) -> Influence | EdgeInfluence:
    """Join checkpoint folders of the same run, for instance of several processes, into one result.

    Args:
        folders: Folders written by `checkpoint=` of `nora.influence` or `nora.edge_influence`, or by `nora
            rank --checkpoint`.

    Returns:
        The scores of all nodes (or edges) that are finished in any of the folders; NaN for other nodes.

    Raises:
        ValueError: If the folders belong to different models, graphs, tasks or options.

    Example:
        >>> import nora, tempfile
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = [f"{folder}/{part}" for part in (0, 1)]
        ...     for part, path in enumerate(parts):
        ...         nodes = range(part, 34, 2)
        ...         _ = run.influence("brute", nodes=nodes, checkpoint=path, progress=False)
        ...     whole = nora.merge_checkpoints(parts)
        >>> int(whole.scores.isfinite().sum())
        34
    """
    if isinstance(folders, str | Path):
        folders = [folders]
    paths = [path_of(folder, "a checkpoint folder") for folder in folders]
    if not paths:
        raise ValueError("nothing to merge: name at least one checkpoint folder")
    first = read_checkpoint_manifest(paths[0])
    for path in paths[1:]:
        _same_run(read_checkpoint_manifest(path), first, path)
    run = first["fingerprint"]
    values = read_scores(paths, first)
    measure, *more = first.get("columns", ["change"])
    about = {
        "method": run["method"],
        "task": first["task"],
        "options": run["options"],
        "details": {"merged_from": [str(path) for path in paths]},
        "measure": measure,
    }
    if "num_edges" in first:
        edges = _read_edges(paths[0] / EDGES, first["num_edges"])
        return EdgeInfluence.of_scored(edges, values, more, **about)
    columns = {name: values[:, at + 1] for at, name in enumerate(more)}
    return Influence(
        scores=values[:, 0],
        node_types=first.get("node_types"),
        stderr=columns.pop(STDERR, None),
        columns=columns,
        **about,
    )
