"""TorchScript in a model: what its interpreter reads of a tensor, no Python code sees.

`if x.size(0) > 4` in a scripted function leaves neither an operation nor a comparison behind. So code that
reads sizes or values is refused while a pass is recorded; scripted layers that only compute are followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch

from nora.engine.unsupported import UnsupportedError
from nora.model.lines import current_line

# Nodes of a TorchScript graph that read a size, a length or a value of a tensor.
_READS = {
    "aten::size", "aten::sym_size", "aten::len", "aten::numel", "aten::item", "aten::Int", "aten::Float",
    "aten::Bool", "aten::is_nonzero", "aten::tolist", "prim::tolist", "aten::stride", "aten::equal",
    "aten::allclose", "aten::__contains__",
}  # fmt: skip


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
                    "checked again after an edit; without torch.jit the same code is supported"
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
