"""Tensors as files of a run, in safetensors: nothing in them can execute."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor


def read_tensors(path: Path, what: str) -> dict[str, Tensor]:
    """Read what `nora.files.write_tensors` wrote; `what` is what the file should hold, e.g. `a graph`."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path.open("rb").close()  # "Permission denied" is not "does not hold a graph"
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} does not hold {what}: {error}") from error
