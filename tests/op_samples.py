"""torch's own operator samples (`op_db`): operations on arguments of which some have a row per node."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

# Two rows must be left after a removal: sizes 0 and 1 are special, and get a full pass.
FEWEST_NODES = 3
LARGEST_ARGUMENT = 10_000
# Cases of an operation that are run at most: some have thousands that differ little.
MOST_CASES = 40
# Operations that do not check sizes, so that with a row fewer they read or write elsewhere in memory; or
# whose result is whatever the memory holds.
UNCHECKED = (
    "as_strided", "as_strided_copy", "as_strided_scatter", "native_batch_norm", "_native_batch_norm_legit",
    "_batch_norm_with_update", "_segment_reduce", "max_pool2d_with_indices_backward", "empty", "empty_like",
    "lu_unpack", "lu_solve", "linalg.lu_solve", "linalg.ldl_solve", "ormqr", "nn.functional.embedding_bag",
    "nn.functional.ctc_loss", "nn.functional.max_unpool1d", "nn.functional.max_unpool2d",
    "nn.functional.max_unpool3d", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted",
    "resize_", "resize_as_",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    """One operation on one sample.

    Attributes:
        function: The operation.
        arguments: Its arguments, flattened.
        spec: How they are put together again: `(args, kwargs)`.
        axes: The node axis of every argument that has one, by the argument's place.
        place: Which of the results is looked at.
        sized: Whether whole numbers that equal the number of nodes mean the number of nodes.
        label: What it is, for messages.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any]
    spec: Any
    axes: dict[int, int]
    place: int = 0
    sized: bool = False
    label: str = ""

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        at, axis = next(iter(self.axes.items()))
        return int(self.arguments[at].size(axis))

    def rows(self) -> dict[int, Tensor]:
        """The arguments with a row per node, rows first, by their place."""
        return {at: self.arguments[at].movedim(axis, 0) for at, axis in self.axes.items()}

    def result(self, rows: dict[int, Tensor]) -> Tensor:
        """The looked-at result of the operation on these rows."""
        given = list(self.arguments)
        if self.sized:
            nodes = next(iter(rows.values())).size(0)
            given = [nodes if type(a) is int and a == self.num_nodes else a for a in given]
        for at, axis in self.axes.items():
            given[at] = rows[at].movedim(0, axis)
        args, kwargs = tree_unflatten(given, self.spec)
        results = tree_flatten(self.function(*args, **kwargs))[0]
        return [one for one in results if isinstance(one, Tensor)][self.place]

    def operations(self) -> set[str]:
        """The ATen operations that it comes down to, by name."""
        noted: set[str] = set()

        class Noted(TorchDispatchMode):
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                noted.add(func._schema.name.split("::")[1])
                return func(*args, **(kwargs or {}))

        with warnings.catch_warnings(), torch.no_grad(), Noted():
            warnings.simplefilter("ignore")
            self.result(self.rows())
        return {
            name[:-1] if name.endswith("_") and not name.endswith("__") else name for name in noted
        }


def _forms(op: OpInfo) -> dict[str, Callable[..., Any]]:
    """The operation, and its forms that write into a tensor."""
    found: dict[str, Callable[..., Any]] = {"": op.op}
    in_place = op.inplace_variant
    if in_place is not None:

        def on_a_copy(given: Tensor, *args: Any, **kwargs: Any) -> Any:
            return in_place(given.clone(), *args, **kwargs)

        def through_a_view(given: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            both = torch.stack([given, given], dim=-1)
            in_place(both.select(-1, 0), *args, **kwargs)
            return both

        found |= {"in place": on_a_copy, "through a view": through_a_view}
    if op.supports_out:

        def into_given(*args: Any, **kwargs: Any) -> Any:
            return op.op(*args, **kwargs, out=torch.empty_like(op.op(*args, **kwargs)))

        found["with out"] = into_given
    return found


def _samples(op: OpInfo) -> list[SampleInput]:
    """torch's samples of an operation, the same every time; in double where it takes that."""
    dtype = next((d for d in (torch.float64, torch.int64, torch.bool) if d in op.dtypes), None)
    if dtype is None or op.name in UNCHECKED:
        return []
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        # It is called for every sample, and formats a stack for every kind of device.
        quickly = patch.object(torch, "manual_seed", torch.default_generator.manual_seed)
        try:
            with quickly:
                return list(op.sample_inputs("cpu", dtype))
        except Exception:  # samples that need what is not installed
            return []


def _node_axes(arguments: Sequence[Any]) -> list[dict[int, int]]:
    """Which arguments may have a row per node: one, two of a size, or all that are broadcast together."""
    tensors = {
        at: one
        for at, one in enumerate(arguments)
        if isinstance(one, Tensor) and one.layout == torch.strided and not one.is_complex()
    }
    places = [
        (at, axis)
        for at, one in tensors.items()
        for axis, size in enumerate(one.shape)
        if size >= FEWEST_NODES and 0 < one.numel() <= LARGEST_ARGUMENT
    ]
    found = [{at: axis} for at, axis in places]
    for (a, i), (b, j) in combinations(places, 2):
        if a != b and tensors[a].size(i) == tensors[b].size(j):
            found.append({a: i, b: j})
    for first, axis in places:
        back, size = axis - tensors[first].dim(), tensors[first].size(axis)
        fits = [at for at, one in tensors.items() if one.dim() >= -back and one.size(back) == size]
        if len(fits) > 2 and first == fits[0]:
            found.append({at: tensors[at].dim() + back for at in fits})
    return found


def _gives_several(op: OpInfo, sample: SampleInput) -> bool:
    """Whether an operation gives more than one tensor."""
    try:
        found = tree_flatten(op.op(sample.input, *sample.args, **sample.kwargs))[0]
    except Exception:  # a sample that torch itself refuses
        return False
    return sum(isinstance(one, Tensor) for one in found) > 1


def _all_cases(op: OpInfo) -> Iterator[Case]:
    """Every sample in every form, for every choice of arguments that have a row per node."""
    several = False
    for number, sample in enumerate(_samples(op)):
        several = several or _gives_several(op, sample)
        flat, spec = tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        for axes in _node_axes(flat):
            for form, function in _forms(op).items():
                label = f"{op.formatted_name} {form} of sample {number}, rows along {axes}"
                case = Case(function, flat, spec, axes, label=label)
                yield case
                if any(type(a) is int and a == case.num_nodes for a in flat):
                    yield replace(case, sized=True, label=f"{label}, sized")
                if not form and several:
                    yield replace(case, place=1, label=f"{label}, second result")


def cases(op: OpInfo) -> list[Case]:
    """The cases of an operation, or `MOST_CASES` drawn from them, the same every time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = list(_all_cases(op))
    random.Random(op.formatted_name).shuffle(every)
    return every[:MOST_CASES]
