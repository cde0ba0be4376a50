"""Many machines: shards as tasks of Ray.

Plain tasks rather than actors: if the worker or machine of a task dies, Ray repeats the task elsewhere, and
machines that join get their share. Each process opens an engine once and keeps it. Extra `[ray]`.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nora.artefact import MANIFEST
from nora.files import folder_written_atomically, read_json
from nora.memory import parse_bytes
from nora.questions.workers import Answered, answer

Engines = Literal["path", "store"]
# Workers' output is not shown; of Ray's own log, warnings are: some are about who may connect.
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
# How long a cluster has to answer at all.
ANSWER_SECONDS = 5.0
# How long the number of CPUs is cached.
LOOKED_UP_SECONDS = 1.0


class RayCluster:
    """A Ray cluster that shares the work of `nora.influence(…, executor=nora.RayCluster())`.

    Args:
        address: `auto` for the running cluster (or the one that this process is connected to), `local` to
            start one that listens on this machine only, or an address such as `10.0.0.1:6379`. A cluster runs
            your model's code, and anyone who can reach it can run code as you.
        engines: How workers get the engine. `path`: the folder has the same path on every machine. `store`:
            Ray's object store copies it to a temporary folder on each machine. Default: `path` on one
            machine, otherwise `store`.
        memory: Memory of one task. Ray starts only as many tasks on a machine as fit.
        retries: How often Ray repeats a shard whose worker died. After that, the shard is divided in two. A
            single removal that still kills its worker is left out.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> with nora.RayCluster("local") as cluster:  # doctest: +SKIP
        ...     scores = run.influence(executor=cluster)
    """

    def __init__(
        self,
        address: str = "auto",
        *,
        engines: Engines | None = None,
        memory: str | float = "1GB",
        retries: int = 2,
    ) -> None:
        if engines not in (None, "path", "store"):
            raise ValueError(f"engines is {engines!r}; it must be 'path' or 'store'")
        if retries < 0:
            raise ValueError(f"retries must not be negative, got {retries}")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == "local":
            _ask_for_a_token()
        self._ray = _ray()
        self.engines, self.memory, self.retries = engines, parse_bytes(memory), retries
        self._started = not self._ray.is_initialized()
        if self._started:
            _connect(self._ray, address)
        elif address not in ("auto", self._ray.get_runtime_context().gcs_address):
            raise ValueError(
                f"this process is connected to another cluster than {address}: call ray.shutdown() first"
            )
        self._cpus, self._looked = 0, 0.0
        self._task = self._ray.remote(num_cpus=1, memory=self.memory)(_answered)
        self._put: dict[bytes, Any] = {}
        self._where: dict[str, Any] = {}
        self._running: dict[Any, Future[Any]] = {}

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """Ray's errors of a worker that has died over a task."""
        errors = self._ray.exceptions
        return errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from the cluster; stop it if it was started by this object."""
        if self._started and self._ray.is_initialized():
            self._ray.shutdown()

    def workers(self) -> int:
        """How many CPUs there are now: machines may join and leave."""
        if time.monotonic() - self._looked > LOOKED_UP_SECONDS:
            self._cpus = int(self._ray.cluster_resources().get("CPU", 0))
            self._looked = time.monotonic()
        return max(self._cpus, 1)

    def dumps(self, value: Any) -> bytes:
        """An object as bytes, functions of a notebook included."""
        return bytes(self._ray.cloudpickle.dumps(value))

    @contextmanager
    def sending(self, folder: Path) -> Iterator[None]:
        """Tasks may be begun for the engine in this folder; those that are no longer needed are cancelled."""
        self._check_fits()
        self._where = self._sent(folder)
        try:
            yield
        finally:
            for ref, future in self._running.items():
                if not future.done():
                    with suppress(Exception):  # what is over need not be ended
                        self._ray.cancel(ref, force=False)
            self._running.clear()
            self._put.clear()
            self._where = {}

    def _check_fits(self) -> None:
        """Raise where a task would wait for ever."""
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        able = [one for one in alive if one.get("CPU", 0) >= 1]
        if not able:
            raise ValueError("the cluster has no CPU: add a machine that has one")
        most = max(one.get("memory", 0) for one in able)
        if most < self.memory:
            raise ValueError(
                f"no machine of the cluster has {self.memory / 1e9:.1f} GB for a task, the largest has "
                f"{most / 1e9:.1f} GB: give a smaller memory=, or add a machine"
            )

    def _sent(self, folder: Path) -> dict[str, Any]:
        """The location of the engine for workers."""
        machines = {node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}
        engines = self.engines or ("path" if len(machines) == 1 else "store")
        where: dict[str, Any] = {
            "path": str(folder),
            "digest": read_json(folder / MANIFEST)["sha256"],
        }
        if engines == "store":
            files = sorted(file for file in folder.iterdir() if file.is_file())
            # In lists, so that Ray brings a worker only what it asks for.
            where["files"] = {
                file.name: [self._ray.put(np.fromfile(file, dtype=np.uint8))] for file in files
            }
        return where

    def begin(
        self, parts: bytes, digest: str, asked: bytes, ids: Tensor, again: bool
    ) -> Future[Answered]:
        """Begin the work on a shard."""
        for sent in (parts, asked):  # once, not with every shard
            if sent not in self._put:
                self._put[sent] = self._ray.put(sent)
        task = self._task.options(max_retries=min(self.retries, 1) if again else self.retries)
        ref = task.remote(self._put[parts], digest, self._where, self._put[asked], ids.numpy())
        future: Future[Answered] = ref.future()
        self._running = {ref_: one for ref_, one in self._running.items() if not one.done()}
        self._running[ref] = future
        return future


def _ray() -> Any:
    import ray
    import ray.cloudpickle

    return ray


def _connect(ray: Any, address: str) -> None:
    """Connect to a cluster, or start one; a failure is an error of one line."""
    if address == "local":
        # Else a task that needs too much memory would be tried for ever.
        os.environ.setdefault("RAY_task_oom_retries", "2")
        with _to_this_machine_only(ray):
            ray.init(
                address="local", include_dashboard=False, _node_ip_address="127.0.0.1", **QUIET
            )
        return
    try:
        _check_answers(_found(address))
        ray.init(address=address, **QUIET)
    except (OSError, RuntimeError, ValueError) as error:
        reason = (
            "no Ray cluster is running here" if address == "auto" else f"no cluster at {address}"
        )
        raise ConnectionError(
            f"{reason}: start one by 'ray start --head', or give 'local' to have one started"
        ) from error


def _ask_for_a_token() -> None:
    """Have a cluster that is started here answer those only who have its token: others could run code on it.

    Ray looks at it when it is imported. Where it was imported before, its own setting stays.
    """
    if "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextmanager
def _to_this_machine_only(ray: Any) -> Iterator[None]:
    """Start a cluster that listens on loopback only: Ray listens to the network, except on desktops."""
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _found(address: str) -> str:
    """The address that Ray finds for `auto`: the last cluster here, which may have ended."""
    if address != "auto":
        return address
    try:
        from ray._private.services import canonicalize_bootstrap_address as resolved
    except ImportError:  # not public: it may be called something else one day
        return address
    return resolved(address) or address


def _check_answers(address: str) -> None:
    """Raise where no cluster answers: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()


def _answered(
    parts: bytes, digest: str, where: dict[str, Any], asked: bytes, ids: np.ndarray
) -> Answered:
    """The task of a worker; see `nora.questions.workers.answer`."""
    folder = _fetched(where) if "files" in where else Path(where["path"])
    if not (folder / MANIFEST).is_file():
        raise FileNotFoundError(
            f"{folder} does not exist on {socket.gethostname()}: put the engine on a shared file system, or "
            "let NORA copy it (engines='store', --engines store)"
        )
    if read_json(folder / MANIFEST)["sha256"] != where["digest"]:
        raise ValueError(f"{folder} on {socket.gethostname()} is another engine than the driver's")
    return answer(parts, digest, folder, asked, torch.from_numpy(ids.copy()))


def _fetched(where: dict[str, Any]) -> Path:
    """The engine's folder on this machine; the first worker here writes it."""
    import ray

    place = Path(tempfile.gettempdir()) / f"nora-engines-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    if place.stat().st_uid != os.getuid():
        raise PermissionError(f"{place} belongs to another user")
    folder = place / where["digest"][:32]
    if not folder.exists():
        with suppress(FileExistsError), folder_written_atomically(folder) as temporary:
            for name, (ref,) in where["files"].items():
                ray.get(ref).tofile(temporary / Path(name).name)
    return folder
