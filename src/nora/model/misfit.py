"""A model that cannot be run on a graph: what is likely to be wrong, and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

from nora.model.calling import EXTRAS, PAIRS, parameters

if TYPE_CHECKING:
    from nora.model.problem import Problem

# What a model that does not fit its input may raise.
MISFIT = (RuntimeError, LookupError, ValueError, TypeError, AttributeError, AssertionError)
# How torch and PyG complain of a size that does not fit.
SIZES = re.compile(r"shape|size|dimension|mat1|channels|features", re.IGNORECASE)
MISSING = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)")
HOW = "pass forward=lambda model, data: … that says how to call the model"


def message_of(error: Exception) -> str:
    """An error in words; Python shows a missing key without saying that it is missing."""
    if isinstance(error, KeyError):
        return f"there is no {error}"
    return str(error).removesuffix(".") or type(error).__name__


def advice(problem: Problem, error: Exception) -> str:
    """What to do about an error of the model's first pass."""
    model, data = problem.model, problem.data
    for found in (
        _links(problem),
        _no_forward(model),
        _missing_argument(data, error),
        _devices(problem),
        _types(problem),
    ):
        if found:
            return found
    usual = "(x, edge_index)" if isinstance(data, Data) else "(x_dict, edge_index_dict)"
    built = ": was the model built for that many features?" if SIZES.search(str(error)) else "."
    other = f"If it takes other arguments than {usual}, pass forward=lambda model, data: …"
    return f"{_shapes(data)}{built} {other}"


def _links(problem: Problem) -> str:
    """A model that scores pairs, asked about nodes."""
    model = problem.model
    asks = "ask about links with task=nora.LinkPrediction(pairs)"
    if problem.task.predicts == "links":
        return ""
    if PAIRS in parameters(model.forward):
        return f"It scores pairs of nodes (its forward takes {PAIRS}): {asks}"
    if not _has_forward(model) and all(
        callable(getattr(model, name, None)) for name in ("encode", "decode")
    ):
        return f"It has encode and decode, as models of links do, and no forward: {asks}"
    return ""


def _no_forward(model: nn.Module) -> str:
    if _has_forward(model):
        return ""
    return f"The class defines no forward(x, edge_index): define it, or {HOW}"


def _has_forward(model: nn.Module) -> bool:
    return type(model).forward is not nn.Module.forward


def _missing_argument(data: Data | HeteroData, error: Exception) -> str:
    found = MISSING.search(str(error)) if isinstance(error, TypeError) else None
    if found is None:
        return ""
    names = re.findall(r"'(\w+)'", found[1])
    absent = [name for name in names if name in EXTRAS]
    if absent and len(absent) == len(names) and isinstance(data, Data):
        several = "them" if len(absent) > 1 else "it"
        first = f"data.{absent[0]} = …"
        return f"data has no {' and no '.join(absent)}: add {several} ({first}), or {HOW}"
    return f"The call has no {' and no '.join(names)}: {HOW}"


def _devices(problem: Problem) -> str:
    """The model here, the graph there."""
    state = [*problem.model.parameters(), *problem.model.buffers()]
    model = sorted({str(one.device) for one in state})
    data = str(problem.device)
    if not model or model == [data]:
        return ""
    if len(model) > 1:
        return f"Its weights are on several devices ({', '.join(model)}): move it to one, model.to({data!r})"
    return (
        f"Its weights are on {model[0]}, the graph is on {data}: move one, e.g. model.to({data!r})"
    )


def _types(problem: Problem) -> str:
    x = problem.data.x if isinstance(problem.data, Data) else None
    kinds = {one.dtype for one in problem.model.parameters() if one.is_floating_point()}
    if not isinstance(x, Tensor) or len(kinds) != 1 or x.dtype in kinds:
        return ""
    (kind,) = kinds
    return f"{_shapes(problem.data)} and type {x.dtype}, the model's weights are {kind}: use x.to({kind})"


def _shapes(data: Data | HeteroData) -> str:
    """The shape of the node features, in words."""
    if isinstance(data, Data):
        x = data.x
        return f"x has shape {list(x.shape) if isinstance(x, Tensor) else None}"
    found = {
        store._key: list(store.x.shape) if isinstance(store.get("x"), Tensor) else None
        for store in data.node_stores
    }
    return f"x has shapes {found}"
