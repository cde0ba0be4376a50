"""Leave things as found: the caller's model and random state, whatever happens in between."""

from __future__ import annotations

import copy
import operator
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore Python's, NumPy's and torch's random state on leaving."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run with every random generator seeded, and restore them on leaving."""
    with random_state_kept():
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        yield


@contextmanager
def another_random_state() -> Iterator[None]:
    """Run from another random state than the current one, and restore it on leaving."""
    with seeded((torch.initial_seed() + 1) % 2**63):
        yield


@contextmanager
def evaluating(*models: Any) -> Iterator[None]:
    """Every model in eval mode without cached normalisations; all of it is restored on leaving.

    A model's own `eval()` is called, since users override it. `GCNConv(cached=True)` and its kin keep
    the normalisation of the first graph they saw, which would be stale on `G−r`: their caches are
    emptied, here and after every pass (`ForwardPasses`). Within a pass they stay on: a layer that is called
    twice may mean what it has kept. Compiled parts run as they were written. What a forward pass
    sets on its module or writes into its buffers is restored too. Other objects than modules are ignored.
    """
    found = Snapshot(*models)
    copies = [(buffer, buffer.detach().clone()) for buffer in found.buffers]
    with random_state_kept(), _uncompiled():
        try:
            for model in models:
                if isinstance(model, nn.Module):
                    _to_eval(model)
            for module in found.modules:
                caches = [key for key in vars(module) if key.startswith("_cached_")]
                for key in caches:
                    setattr(module, key, None)
                # A cache under another name cannot be emptied, only switched off.
                if not caches and isinstance(vars(module).get("cached"), bool):
                    setattr(module, "cached", False)  # noqa: B010  (not every module has it)
            yield
        finally:
            found.restore()
            for buffer, copied in copies:
                _put_back(buffer, copied)


def _uncompiled() -> AbstractContextManager[Any]:
    """Compiled functions run as they were written; a new graph size would compile them again."""
    # Its import takes seconds, and whatever is compiled has imported it.
    compiled = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


def _to_eval(model: nn.Module) -> None:
    try:
        model.eval()
    except NotImplementedError:
        # A model made by torch.export has no other mode.
        return


def _put_back(tensor: Tensor, copied: Tensor) -> None:
    """Write a tensor's earlier values into it, where they have changed."""
    if tensor.layout == torch.strided and torch.equal(tensor, copied):
        return
    with torch.no_grad():
        tensor.copy_(copied)


_PLAIN = (bool, int, float, str, type(None))
_CONTAINERS = (dict, list, set)


class Snapshot:
    """Attributes of modules, and containers among them, as they are now, to be restored.

    Attributes:
        modules: All modules of the models.
        parameters: Their parameters, with their names.
        buffers: Their buffers, and tensors that are plain attributes.
    """

    def __init__(self, *models: Any) -> None:
        whole = [model for model in models if isinstance(model, nn.Module)]
        self.modules = list({id(m): m for model in whole for m in model.modules()}.values())
        self.parameters = [pair for model in whole for pair in model.named_parameters()]
        self._needs_grad = [p.requires_grad for _, p in self.parameters]
        self._training = [module.training for module in self.modules]
        self._attributes = [dict(vars(module)) for module in self.modules]
        self._containers: list[tuple[Any, Any]] = []
        tensors = {id(b): b for model in whole for b in model.buffers()}
        seen: set[int] = set()
        for attributes in self._attributes:
            self._look(attributes.values(), seen, tensors)
        own = {id(parameter) for _, parameter in self.parameters}
        self.buffers = [tensor for at, tensor in tensors.items() if at not in own]

    def _look(self, values: Iterable[Any], seen: set[int], tensors: dict[int, Tensor]) -> None:
        """Note containers, and tensors that are not parameters."""
        for value in values:
            # Once per pass and attribute: most are plain, or empty hooks.
            if value.__class__ in _PLAIN:
                continue
            if isinstance(value, Tensor):
                tensors[id(value)] = value
            elif isinstance(value, _CONTAINERS) and id(value) not in seen:
                seen.add(id(value))
                self._containers.append((value, _contents(value) if value else ()))
                # A container that long holds data, not state.
                if len(value) <= 1000:
                    self._look(value.values() if isinstance(value, dict) else value, seen, tensors)

    def restore(self) -> None:
        """Put back what has changed since."""
        for module, attributes, training in zip(
            self.modules, self._attributes, self._training, strict=True
        ):
            _refill(vars(module), attributes)
            # A scripted module keeps its mode elsewhere.
            if module.training != training:
                module.training = training
        for container, contents in self._containers:
            if container or contents:
                _refill(container, contents)
        for (_, parameter), flag in zip(self.parameters, self._needs_grad, strict=True):
            if parameter.requires_grad != flag:
                parameter.requires_grad_(flag)


def _contents(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _refill(container: Any, contents: Any) -> None:
    """Give a container its earlier contents, where they have changed."""
    now = _contents(container)
    if len(now) == len(contents):
        if isinstance(now, dict):
            same = now.keys() == contents.keys()
            now, before = now.values(), contents.values()
        else:
            same, before = True, contents
        if same and all(map(operator.is_, now, before)):
            return
    container.clear()
    container.extend(contents) if isinstance(container, list) else container.update(contents)


class ForwardPasses:
    """Forward passes of one model, each from the state in which the model was found.

    A statistic that a model keeps on first use, or a counter in a buffer, must not differ between one
    pass and many. Tensors are copied only where a model was seen to write into them: the first pass
    gets copies of everything.
    """

    def __init__(self) -> None:
        self._first = True
        self._writes_data = False
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}
        # What the first pass has taken.
        self.seconds = 0.0
        # Attributes that earlier passes left on modules, and that every pass starts without.
        self.caches: list[Cache] = []

    def run(
        self, call: Callable[..., Any], model: nn.Module, data: Data | HeteroData, *others: Any
    ) -> Any:
        """`call(model, data)`, with `data` and the model left as found.

        Args:
            call: The forward call.
            model: The model.
            data: The graph; the model gets a copy of the object, and its tensors or copies of them.
            *others: What else may be a module that the call runs.
        """
        given = copy.copy(data)
        tensors = [
            (store, key, value)
            for store in given.stores
            for key, value in store.items()
            if isinstance(value, Tensor)
        ]
        if self._first or self._writes_data:
            for store, key, value in tensors:
                store[key] = _copied(value)
            tensors = [(store, key, store[key]) for store, key, _ in tensors]
        versions = [_version(value) for _, _, value in tensors]
        with self.state_kept(model, *others):
            for cache in self.caches:
                cache.clear()
            start = time.perf_counter()
            output = call(model, given)
            self.seconds = self.seconds or time.perf_counter() - start
        if versions != [_version(value) for _, _, value in tensors]:
            self._writes_data = True
        self._first = False
        return output

    @contextmanager
    def state_kept(self, *models: Any) -> Iterator[None]:
        """A context in which code starts from the models' state, which is restored afterwards."""
        found = Snapshot(*models)
        for buffer in found.buffers:
            if id(buffer) not in self._copies:
                self._copies[id(buffer)] = buffer, buffer.detach().clone()
        buffers = [(buffer, _version(buffer)) for buffer in found.buffers]
        weights = [(name, weight, _version(weight)) for name, weight in found.parameters]
        copies = [weight.detach().clone() for _, weight, _ in weights] if self._first else []
        try:
            yield
        finally:
            found.restore()
            for buffer, version in buffers:
                if _version(buffer) != version:
                    _put_back(buffer, self._copies[id(buffer)][1])
            for (_, weight, version), copied in zip(weights, copies, strict=False):
                if _version(weight) != version:
                    _put_back(weight, copied)
        written = [name for name, weight, version in weights if _version(weight) != version]
        if written:
            raise ValueError(
                f"the model {type(models[0]).__name__} writes into its parameter {written[0]!r} in "
                "forward: every pass changes the model. Compute with a copy there "
                f"(self.{written[0]}.clone())"
            )


@dataclass(frozen=True, eq=False)
class Cache:
    """An attribute that a pass makes where it is missing.

    Attributes:
        module: The module that holds it.
        name: Its name.
        before: What it is before it is made: None, an empty container, or `MISSING` for no attribute at all.
    """

    module: nn.Module
    name: str
    before: Any

    MISSING: ClassVar[Any] = object()

    @staticmethod
    def ways(module: nn.Module, name: str) -> Iterator[Cache]:
        """What the attribute may have been before it was made."""
        value = getattr(module, name)
        if isinstance(value, dict | list | set):
            yield Cache(module, name, type(value)())
        yield Cache(module, name, None)
        yield Cache(module, name, Cache.MISSING)

    def clear(self) -> None:
        """Empty it."""
        if self.before is Cache.MISSING:
            delattr(self.module, self.name)
        else:
            setattr(self.module, self.name, copy.copy(self.before))

    @property
    def is_made(self) -> bool:
        """Whether a pass has made it."""
        value = getattr(self.module, self.name, None)
        return value is not None and not (isinstance(value, dict | list | set) and not value)


def _copied(tensor: Tensor) -> Tensor:
    if tensor.requires_grad:
        # A gradient still finds its way to the tensor itself.
        return tensor.clone() if torch.is_grad_enabled() else tensor.clone().requires_grad_()
    return tensor.clone()


def _version(tensor: Tensor) -> int | None:
    """A number that grows with every write into the tensor; None where torch keeps none."""
    return None if tensor.is_inference() else tensor._version


@dataclass(frozen=True)
class CheckedRemoval:
    """The model's output after one node's removal, and the seconds of the pass."""

    output: Tensor
    seconds: float
