"""A model that cannot be run on a graph: what is likely to be wrong, and what to do."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

from nora.model.calling import EXTRAS, PAIRS, parameters, transformed
from nora.model.lines import Line, is_own_file

if TYPE_CHECKING:
    from nora.model.problem import Problem

# What a model that does not fit its input may raise.
MISFIT = (RuntimeError, LookupError, ValueError, TypeError, AttributeError, AssertionError)
# How torch complains of a feature width that a layer was not built for, with the widths as groups.
WIDTHS = (
    re.compile(r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and \d+x\d+\)"),
    re.compile(r"size mismatch, got input \(\d+\), mat \(\d+x(\d+)\)"),
    re.compile(
        r"tensor a \((\d+)\) must match .* tensor b \((\d+)\) at non-singleton dimension [1-9]"
    ),
    re.compile(r"normalized_shape=.*got input of size\[.*?(\d+)\]"),
    re.compile(r"running_mean should contain (\d+) elements"),
)
MISSING = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)")
HOW = "pass forward=lambda model, data: … that says how to call the model"


def message_of(error: Exception) -> str:
    """An error in words; Python shows a missing key without saying that it is missing."""
    if isinstance(error, KeyError):
        return f"there is no {error}"
    return str(error).removesuffix(".") or type(error).__name__


def transform_failure(error: Exception) -> str:
    """An error of the user's transform in words, with the line that raised it; empty for any other error."""
    steps = [(frame.f_code, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    start = next(
        (k for k, (code, _) in enumerate(steps) if code is transformed.__code__), len(steps)
    )
    lines = [Line(code.co_filename, number, code.co_name) for code, number in steps[start + 1 :]]
    own = [line for line in lines if is_own_file(line.file)] or lines
    return f"transform failed at {own[-1]}: {message_of(error)}" if own else ""


def advice(problem: Problem, error: Exception) -> str:
    """Advice for an error of the model's first pass."""
    model, data = problem.model, problem.seen(problem.data.clone())
    for found in (
        _links(problem),
        _no_forward(model),
        _arguments(model, data, error),
        _types(problem),
    ):
        if found:
            return found
    if _is_width_mismatch(data, error):
        return f"{_shapes(data)}: was the model built for that many features?"
    usual = "(x, edge_index)" if isinstance(data, Data) else "(x_dict, edge_index_dict)"
    return f"{_shapes(data)}. If it takes other arguments than {usual}, pass forward=lambda model, data: …"


def _is_width_mismatch(data: Data | HeteroData, error: Exception) -> bool:
    """Whether a layer met rows as wide as the node features and was built for another width."""
    widths = {str(store.x.size(-1)) for store in data.node_stores if _is_matrix(store.get("x"))}
    found = (pattern.search(str(error)) for pattern in WIDTHS)
    return any(match and widths & set(match.groups()) for match in found)


def _is_matrix(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 1


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


def _arguments(model: nn.Module, data: Data | HeteroData, error: Exception) -> str:
    """A model whose `forward` takes other arguments than it was given."""
    text = str(error)
    if not isinstance(error, TypeError) or f"{type(model).__name__}.forward()" not in text:
        return ""
    named = parameters(model.forward)
    if len(named) == 1 and "positional argument" in text:
        return f"Its forward takes {named[0]} alone: pass forward=lambda model, data: model(data)"
    found = MISSING.search(text)
    if found is None:
        return ""
    missing = re.findall(r"'(\w+)'", found[1])
    values = {name: _value(data, name) for name in missing}
    absent = [name for name in missing if name not in data]
    if isinstance(data, HeteroData) or None in values.values():
        how = HOW
    else:
        first = "data.adj_t" if "edge_index" not in data else "data.edge_index"
        given = ", ".join(f"{name}={value}" for name, value in values.items())
        how = f"pass forward=lambda model, data: model(data.x, {first}, {given})"
    if isinstance(data, Data) and absent == missing and set(missing) <= set(EXTRAS):
        lines = "; ".join(f"data.{name} = {value or '…'}" for name, value in values.items())
        how = f"set {lines}, or {how}"
    lacks = f" data has no {' and no '.join(absent)}" if absent else " data has it"
    held = ", ".join(map(str, data.keys()))
    return f"Its forward needs {', '.join(missing)};{lacks} (it has {held}): {how}"


def _value(data: Data | HeteroData, name: str) -> str | None:
    """How to get an argument from what a graph has; None where the graph does not show it."""
    if name in data:
        return f"data.{name}"
    if name == "batch":
        return "data.edge_index.new_zeros(data.num_nodes)"
    given = (
        data.get({"edge_attr": "edge_weight"}.get(name, "edge_attr")) if name in EXTRAS else None
    )
    if not isinstance(given, Tensor):
        return None
    if name == "edge_attr":
        return "data.edge_weight.view(-1, 1)"
    if name == "edge_type" and (given.is_floating_point() or given.numel() != len(given)):
        return None
    return "data.edge_attr.view(-1)" if given.numel() == len(given) else "data.edge_attr[:, 0]"


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
