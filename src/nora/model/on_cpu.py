"""Questions are answered on the CPU: a model or a graph on another device is copied.

The engine computes few rows at a time, for which a CPU is quick, and everything else is tested there too.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from nora.graph.node_index import Graph
from nora.model.calling import decoder_modules
from nora.model.preserve import Snapshot
from nora.model.task import Task
from nora.stacklevel import warn

# Where tensors hold no numbers.
META = "meta"


def on_cpu(model: nn.Module, data: Graph, task: Task) -> tuple[nn.Module, Graph, Task]:
    """The same question on the CPU; with copies, and a warning, if the model or the graph is elsewhere.

    Raises:
        ValueError: If the model cannot be copied, or has no weights yet.
    """
    state = Snapshot(model, *decoder_modules(task))
    tensors = [*state.buffers, *(weight for _, weight in state.parameters)]
    if any(tensor.device.type == META for tensor in tensors):
        raise ValueError(
            f"the weights of the model {type(model).__name__} are on the device 'meta', which holds no "
            "numbers: load them first, model.load_state_dict(…, assign=True)"
        )
    elsewhere = {str(tensor.device) for tensor in tensors if not _is_here(tensor.device)}
    graph = {str(device) for device in _devices(data) if not _is_here(device)}
    if not elsewhere | graph:
        return model, data, task
    warn(
        f"{_owners(elsewhere, graph)} on {', '.join(sorted(elsewhere | graph))}: NORA computes on the CPU, "
        "with a copy",
        UserWarning,
    )
    # Copied straight to the CPU, the model and its bound methods once.
    memo: dict[int, Any] = {}
    for tensor in (*tensors, *getattr(task, "__dict__", {}).values()):
        if isinstance(tensor, Tensor) and not _is_here(tensor.device):
            moved = tensor.detach().cpu()
            if isinstance(tensor, Parameter):
                moved = Parameter(moved, requires_grad=tensor.requires_grad)
            memo[id(tensor)] = moved
    if elsewhere:
        try:
            model, task = copy.deepcopy((model, task), memo)
        except Exception as error:
            raise ValueError(
                f"the model {type(model).__name__} cannot be copied to the CPU ({error}): pass one that is "
                "there, model.cpu()"
            ) from error
        model = model.cpu()  # what Python does not see, as in scripted modules
    return model, copy.copy(data).cpu() if graph else data, task


def _is_here(device: torch.device) -> bool:
    return device.type in ("cpu", META)


def _devices(data: Graph) -> Iterator[torch.device]:
    """The devices of everything in a graph; of a `torch_sparse.SparseTensor`, it is a method."""
    for store in data.stores:
        for value in store.values():
            device = getattr(value, "device", None)
            found = device() if callable(device) else device
            if isinstance(found, torch.device):
                yield found


def _owners(model: set[str], graph: set[str]) -> str:
    both = ["the model"] * bool(model) + ["the graph"] * bool(graph)
    return " and ".join(both) + (" are" if len(both) > 1 else " is")
