"""While a pass is recorded: operations in their plain form, none that looks at values only to complain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch_geometric.backend
import torch_geometric.typing
from torch.overrides import TorchFunctionMode

from nora.engine.trace import composite, torch_sparse  # noqa: F401  which register what stands in
from nora.engine.trace.stand_ins import stand_ins_installed


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
