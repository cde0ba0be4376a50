"""While a pass is recorded: operations in their plain form, none that looks at values only to complain.

What the interpreter of TorchScript reads of a tensor, no Python code sees: `if x.size(0) > 4` in a scripted
function leaves neither an operation nor a comparison behind. So code that reads sizes or values is rejected;
scripted layers that only compute are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
import torch_geometric.backend
import torch_geometric.typing
from torch.overrides import TorchFunctionMode

from nora.engine.trace import composite, torch_sparse  # noqa: F401  which register what stands in
from nora.engine.trace.stand_ins import stand_ins_installed
from nora.engine.unsupported import UnsupportedError
from nora.model.lines import current_line

# Nodes of a TorchScript graph that read a size, a length or a value of a tensor.
_READS = {
    "aten::size", "aten::sym_size", "aten::len", "aten::numel", "aten::item", "aten::Int", "aten::Float",
    "aten::Bool", "aten::is_nonzero", "aten::tolist", "prim::tolist", "aten::stride", "aten::equal",
    "aten::allclose", "aten::__contains__",
}  # fmt: skip


class Rewritten(TorchFunctionMode):
    """Functions that look at values only to complain about them, in a form that does not look."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch._C._nn.one_hot, torch.nn.functional.one_hot):
            tensor = args[0] if args else kwargs["tensor"]
            classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
            if classes > 0:
                every = torch.arange(classes, device=tensor.device)
                return (tensor.unsqueeze(-1) == every).long()
        return func(*args, **kwargs)


def _switches() -> dict[str, bool]:
    """PyG's flags for compiled extensions: off, so that every operation is torch's own."""
    typing = torch_geometric.typing
    return {
        name: value
        for name, value in vars(typing).items()
        if name.startswith("WITH_") and not name.startswith(("WITH_PT", "WITH_WINDOWS")) and value
    }


@contextmanager
def plain_operations() -> Iterator[None]:
    """Only torch's own, elementary operations: no extensions of PyG, no fused attention."""
    typing, found = torch_geometric.typing, _switches()
    # Whether relations are multiplied one by one is a matter of speed, decided by looking at values.
    by_segments = torch_geometric.backend.use_segment_matmul
    fused, mkldnn = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    try:
        for name in found:
            setattr(typing, name, False)
        torch.backends.mha.set_fastpath_enabled(False)
        torch._C._set_mkldnn_enabled(False)
        torch_geometric.backend.use_segment_matmul = False
        math = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
        with math, stand_ins_installed():
            yield
    finally:
        torch._C._set_mkldnn_enabled(mkldnn)
        torch_geometric.backend.use_segment_matmul = by_segments
        torch.backends.mha.set_fastpath_enabled(fused)
        for name, value in found.items():
            setattr(typing, name, value)


@contextmanager
def scripts_checked() -> Iterator[None]:
    """Calls of TorchScript from this thread raise where the interpreter reads sizes or values."""
    kinds: tuple[Any, ...] = (torch._C.ScriptFunction, torch._C.ScriptMethod)
    calls = [kind.__call__ for kind in kinds]
    thread = get_ident()

    def checked(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(script: Any, *args: Any, **kwargs: Any) -> Any:
            if get_ident() == thread and _reads(script.inlined_graph):
                raise UnsupportedError(
                    f"TorchScript at {current_line()} reads sizes or values of tensors, which cannot be "
                    "checked again after an edit; without torch.jit the same code can be followed"
                )
            return call(script, *args, **kwargs)

        return called

    for kind, call in zip(kinds, calls, strict=True):
        kind.__call__ = checked(call)
    try:
        yield
    finally:
        for kind, call in zip(kinds, calls, strict=True):
            kind.__call__ = call


def _reads(block: Any) -> bool:
    """Whether any node of a graph, or of a block inside, reads sizes or values."""
    return any(
        node.kind() in _READS or any(_reads(inner) for inner in node.blocks())
        for node in block.nodes()
    )
