"""One pass of a model as a trace: every tensor operation in order, with the line it was asked for on.

The trace is what the model *did*, below its Python code: modules in closures, hooks, scripted parts and
layers without a rule all come down to the same few hundred operations of torch. Statements in
place become operations that give a new value, for the tensor itself and for everything that shares its
memory. No values are kept, so that a pass over a large graph costs what the pass itself costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from nora.engine.trace.aliasing import Link, put_back, schema_facts
from nora.engine.trace.plain_ops import plain_operations, scripts_checked
from nora.engine.trace.simplify import simplified
from nora.engine.trace.size_log import SizeLog, plain_number, sizes_noted
from nora.engine.trace.trace import Call, Ref, TooLongError, Trace, TracedOp, leaves, mapped
from nora.model.lines import Line, current_line

aten = torch.ops.aten
# A model that runs more operations than this loops over nodes or edges in Python.
MOST_OPERATIONS = 50_000
# Switches of the whole process are set while a pass is recorded: two overlapping recordings could not both
# restore them.
_ONE_AT_A_TIME = RLock()


@dataclass
class _Memory:
    """A piece of memory: its first tensor's number, and how often it was written to."""

    ref: StorageWeakRef
    root: int
    dtype: torch.dtype
    geometry: tuple[Any, ...]
    version: int = 0


class _Known(NamedTuple):
    """A tensor's number, valid while its memory has this version, and how it is a view of the first."""

    id: int
    version: int
    chain: tuple[Link, ...]


class _Recorder(TorchDispatchMode):
    """Writes every operation on the trace."""

    def __init__(self, inputs: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.trace = Trace()
        self._known: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._memory: dict[int, _Memory] = {}
        self.line = Line("", 0, "")
        for name, tensor in inputs.items():
            if tensor in self._known:
                self.trace.inputs[name] = self._known[tensor].id
            else:
                self.trace.inputs[name] = self._root(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.line = current_line()
        if len(self.trace.ops) >= MOST_OPERATIONS:
            raise TooLongError(f"more than {MOST_OPERATIONS:,} operations at {self.line}")
        given_args, given_kwargs = self.refs(args), self.refs(kwargs)
        facts = schema_facts(func)
        if facts.turn is not None:
            shape = tuple(args[0].shape)
            out = func(*args, **kwargs)
            self._turn(facts.turn, args[0], given_args, given_kwargs, shape)
            return out
        out = func(*args, **kwargs)
        if facts.written:
            self._write(func, args, kwargs, given_args, given_kwargs, facts.written)
        else:
            self._read(func, args, given_args, given_kwargs, out, facts.is_view)
        return out

    def refs(self, argument: Any) -> Any:
        """Arguments with tensors replaced by their numbers."""
        return mapped(self._ref, argument)

    def _ref(self, leaf: Any) -> Any:
        return Ref(self.number(leaf)) if isinstance(leaf, Tensor) else plain_number(leaf)

    def number(self, tensor: Tensor) -> int:
        """A tensor's number; what is not known yet was there before the pass."""
        known = self._known.get(tensor)
        memory = self._memory_of(tensor)
        if known is None and memory is not None and memory.geometry == _geometry(tensor):
            known = _Known(memory.root, memory.version, ())  # another handle on the same tensor
            self._known[tensor] = known
        if known is None:
            number = self._root(tensor)
            self.trace.consts[number] = tensor.detach()
            return number
        if memory is not None and known.version != memory.version:
            # What it shares memory with was written to: look through the same window again.
            number = memory.root
            for link in known.chain:
                number = self._emit(
                    link.func, (Ref(number), *link.args), link.kwargs, link.after, memory.dtype,
                    link.place,
                )  # fmt: skip
            known = _Known(number, memory.version, known.chain)
            self._known[tensor] = known
        return known.id

    def known_number(self, tensor: Tensor) -> int | None:
        """A tensor's number, if it is on the trace."""
        known = self._known.get(tensor)
        if known is not None:
            return int(known.id)
        memory = self._memory_of(tensor)
        if memory is not None and memory.geometry == _geometry(tensor):
            return memory.root  # another handle on the same tensor
        return None

    def _next(self) -> int:
        self.trace.count += 1
        return self.trace.count - 1

    def _memory_of(self, tensor: Tensor) -> _Memory | None:
        if tensor.layout != torch.strided:
            return None
        found = self._memory.get(tensor.untyped_storage()._cdata)
        return None if found is None or found.ref.expired() else found

    def _root(self, tensor: Tensor, number: int | None = None) -> int:
        """Enter a tensor with memory of its own."""
        number = self._next() if number is None else number
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            self._memory[storage._cdata] = _Memory(
                StorageWeakRef(storage), number, tensor.dtype, _geometry(tensor)
            )
        self._known[tensor] = _Known(number, 0, ())
        return number

    def _emit(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        shape: tuple[int, ...],
        dtype: torch.dtype,
        place: int | None = None,
        problem: str = "",
    ) -> int:
        """An operation that no code called by name; one of its results."""
        number = self._next()
        outs: tuple[int | None, ...] = (number,)
        shapes: tuple[tuple[int, ...], ...] = (shape,)
        dtypes: tuple[torch.dtype | None, ...] = (dtype,)
        if place is not None:
            outs = (*[None] * place, number)
            shapes = (*[()] * place, shape)
            dtypes = (*[None] * place, dtype)
        self.trace.ops.append(
            TracedOp(func, args, kwargs, outs, shapes, dtypes, self.line, problem=problem)
        )
        return number

    def _append(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outs: Sequence[int | None],
        results: Sequence[Any],
        **more: Any,
    ) -> None:
        """Write an operation on the trace, with the shapes and types of its results."""
        tensors = [one if isinstance(one, Tensor) else None for one in results]
        shapes = tuple(() if t is None else tuple(t.shape) for t in tensors)
        dtypes = tuple(None if t is None else t.dtype for t in tensors)
        op = TracedOp(func, args, kwargs, tuple(outs), shapes, dtypes, self.line, **more)
        self.trace.ops.append(op)

    def _read(
        self,
        func: Any,
        args: tuple[Any, ...],
        given_args: tuple[Any, ...],
        given_kwargs: dict[str, Any],
        out: Any,
        is_view: bool,
    ) -> None:
        """An operation that writes to nothing: new tensors, or windows on old ones."""
        results = list(leaves(out))
        if func is aten.lift_fresh.default:
            self._known[out] = self._known[args[0]]
            return
        outs: list[int | None] = []
        for place, leaf in enumerate(results):
            if not isinstance(leaf, Tensor):
                outs.append(None)
                continue
            known = self._known.get(args[0]) if is_view and isinstance(args[0], Tensor) else None
            memory = self._memory_of(leaf)
            if known is None or memory is None or leaf is args[0]:
                if leaf in self._known and is_view:
                    outs.append(self._known[leaf].id)
                    continue
                outs.append(self._root(leaf))
                continue
            number = self._next()
            several = place if isinstance(out, list | tuple) else None
            link = Link(
                func, given_args[1:], given_kwargs, several, tuple(args[0].shape), tuple(leaf.shape)
            )
            self._known[leaf] = _Known(number, memory.version, (*known.chain, link))
            outs.append(number)
        value = out if len(results) == 1 and not isinstance(results[0], Tensor) else None
        self._append(func, given_args, given_kwargs, outs, results, result=value)

    def _write(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given_args: tuple[Any, ...],
        given_kwargs: dict[str, Any],
        written: tuple[tuple[int, str], ...],
    ) -> None:
        """An operation in place: a new value for what it wrote to, and for what that is a part of."""
        plain = _without_writing(func)
        targets: list[Any] = [
            args[place] if place < len(args) else kwargs.get(name) for place, name in written
        ]
        if not all(isinstance(target, Tensor) for target in targets):
            targets = [t for t in leaves(targets) if isinstance(t, Tensor)]
            plain = None
        problem = "" if plain is not None else "writes in a way that cannot be followed"
        if plain is not None and any(name == "out" for _, name in written):
            given_kwargs = {key: value for key, value in given_kwargs.items() if key != "out"}
        numbers = [self._next() for _ in targets]
        self._append(plain or func, given_args, given_kwargs, numbers, targets, problem=problem)
        for target, number in zip(targets, numbers, strict=True):
            self._renew(target, number)

    def _turn(
        self,
        func: Any,
        tensor: Tensor,
        given_args: tuple[Any, ...],
        given_kwargs: dict[str, Any],
        before: tuple[int, ...],
    ) -> None:
        """A tensor that has become another window on its own memory: nothing is written."""
        known, number = self._known[tensor], self._next()
        link = Link(func, given_args[1:], given_kwargs, None, before, tuple(tensor.shape))
        self._known[tensor] = _Known(number, known.version, (*known.chain, link))
        self._append(func, given_args, given_kwargs, [number], [tensor])

    def _renew(self, tensor: Tensor, number: int) -> None:
        memory, known = self._memory_of(tensor), self._known.get(tensor)
        if memory is None or known is None:
            self._root(tensor, number)
            return
        wholes = [memory.root]  # the values that are looked through, from the first to the last
        for link in known.chain[:-1]:
            wholes.append(
                self._emit(
                    link.func, (Ref(wholes[-1]), *link.args), link.kwargs, link.after, memory.dtype,
                    link.place,
                )
            )  # fmt: skip
        current = number
        for link, whole in zip(reversed(known.chain), reversed(wholes), strict=False):
            current = put_back(link, whole, current, memory.dtype, self._emit)
        memory.root, memory.version = current, memory.version + 1
        self._known[tensor] = _Known(number, memory.version, known.chain)


def _geometry(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


@cache
def _without_writing(func: Any) -> Any:
    """The operation's form that gives a new tensor; None where there is none."""
    name = func._schema.name.split("::")[1]
    if func.namespace != "aten":
        return None
    if name.endswith("_") and not name.endswith("__"):
        name = {"_index_put_impl_": "index_put"}.get(name, name[:-1])
    packet = getattr(aten, name, None)
    wanted = _signature(func)
    for overload in () if packet is None else packet.overloads():
        found = getattr(packet, overload)
        writes = any(a.alias_info is not None for a in found._schema.arguments)
        if not writes and _signature(found) == wanted:
            return found
    return getattr(packet, "default", None) if name == "index_put" else None


def _signature(func: Any) -> list[tuple[str, str]]:
    """Names and types of an operation's arguments, but for what is written to by name."""
    return [
        (a.name, str(a.type)) for a in func._schema.arguments if not (a.is_out or a.name == "out")
    ]


def _casts() -> bool:
    """Whether operations take other types than their arguments have: the lowering of a module does not."""
    return any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda"))


def record(
    run: Callable[[], Any],
    inputs: Mapping[str, Tensor],
    watched: Mapping[str, nn.Module] | None = None,
) -> Trace:
    """The trace of `run()`.

    Args:
        run: The pass; it reads `inputs` from wherever it likes.
        inputs: The tensors that are given, by name.
        watched: Modules whose calls are noted, by name.

    Example:
        >>> x = torch.ones(3, 2)
        >>> [op.name for op in record(lambda: x.relu().add_(1), {"x": x}).ops]
        ['relu', 'add']
    """
    recorder = _Recorder(inputs)
    trace = recorder.trace
    open_calls: list[tuple[nn.Module, bool, int, Any, Any]] = []
    handles = []

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        with torch.utils._python_dispatch._disable_current_modes():
            start, given = len(trace.ops), (recorder.refs(args), recorder.refs(dict(kwargs)))
            open_calls.append((module, _casts(), start, *given))

    def after(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
            with torch.utils._python_dispatch._disable_current_modes():
                while open_calls:
                    found, casts, start, given, named = open_calls.pop()
                    if found is module:
                        refs = recorder.refs(out)
                        call = Call(module, name, start, len(trace.ops), given, named, refs)
                        trace.calls += [] if casts else [call]
                        return

        return hook

    for name, module in (watched or {}).items():
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after(name), with_kwargs=True, prepend=True))
    try:
        log = SizeLog(recorder.known_number, lambda: len(trace.ops))
        with (
            _ONE_AT_A_TIME,
            torch.no_grad(),
            plain_operations(),
            scripts_checked(),
            sizes_noted(log) as sized,
            recorder,
        ):
            out = run()
        trace.comparisons = log.found
        trace.caught = sized.raised
        with torch.no_grad():
            trace.output = recorder.refs(out)
    finally:
        for handle in handles:
            handle.remove()
    return simplified(trace)
