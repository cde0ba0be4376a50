"""Edits as JSON: tensors as lists, keys that are no text as pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nora.graph.edits import Edits


def told(value: Any) -> Any:
    """A value of an edit as JSON keeps it."""
    if isinstance(value, Tensor | np.ndarray):
        return {"tensor": value.tolist()}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {"named": {key: told(one) for key, one in value.items()}}
        return {"pairs": [[told(key), told(one)] for key, one in value.items()]}
    if isinstance(value, list | tuple):
        return [told(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def read(given: Mapping[str, Any]) -> Edits:
    """What `told` wrote, field by field."""
    known = {one.name for one in fields(Edits)}
    strange = sorted(set(given) - known)
    if strange:
        raise ValueError(f"edits have no {strange[0]!r}; they have {', '.join(sorted(known))}")
    return Edits(**{key: _value(value) for key, value in given.items()})


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"tensor"}:
            return torch.from_numpy(
                np.array(value["tensor"])
            )  # in double precision, as it was written
        if set(value) == {"named"}:
            return {key: _value(one) for key, one in value["named"].items()}
        if set(value) == {"pairs"}:
            return {_value(key): _value(one) for key, one in value["pairs"]}
        raise ValueError(f"edits hold no object with the keys {sorted(value)}")
    if isinstance(value, list):
        made = [_value(one) for one in value]
        return tuple(made) if made and not isinstance(made[0], list | tuple) else made
    return value
