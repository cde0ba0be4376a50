"""Tensors as files of a run, in safetensors: nothing in them can execute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from nora.files import written_atomically


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write named tensors to `path`."""
    from safetensors.torch import save_file

    # Copies: safetensors refuses tensors that share their memory.
    copies = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
    # By itself, safetensors writes files that nobody else can read.
    with written_atomically(path) as temporary:
        save_file(copies, temporary)


def read_tensors(path: Path, what: str) -> dict[str, Tensor]:
    """Read what `write_tensors` wrote; `what` is what the file should hold, e.g. `a graph`."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path.open("rb").close()  # "Permission denied" is not "does not hold a graph"
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} does not hold {what}: {error}") from error
