"""A case as a script that needs nothing of this package."""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch_geometric.nn as pyg
import torch_geometric.utils as tools
from torch import Tensor

from fuzz import custom, grammar, question, typed
from fuzz.question import Case, Posed, pose
from fuzz.trial import judge


def script(case: Case) -> str:
    """Model, graph and call as source, with what the definition says beside them."""
    posed, asked, spec = pose(case), case["question"], case["model"]
    with_types = case["kind"] == "hetero"
    model = typed.typed_source(spec) if with_types else grammar.source(spec)
    dtype = case["graph"]["dtype"]
    if with_types:
        lines = ["data = HeteroData()", *_typed_data(posed.data)]
    else:
        lines = [f"data = Data({_fields(posed.data, _words(model))})"]
    lines += [f"torch.manual_seed({spec['seed']})", "model = Model()"]
    if spec.get("kind") == "to_hetero":
        lines[-1] = (
            f'model = to_hetero(Model(), data.metadata(), aggr="{spec["layers"][0]["aggr"]}")'
        )
        lines += ["with torch.no_grad():", "    model(data.x_dict, data.edge_index_dict)"]
    mode = "train" if asked["train"] else "eval"
    lines += [f"model = settle(model, {spec['seed']}).to(torch.{dtype}).{mode}()"]
    if not with_types:
        lines += [f"model.{k} = {v!r}" for k, v in grammar.limits(spec, posed.data).items()]
    call = "" if posed.forward is None else f"forward={grammar.call_source(spec)}, "
    targets = "" if posed.targets is None else f"targets={posed.targets}, "
    given = f"task={_task(posed, asked)}, {call}{targets}"
    if "Decoder(" in given:
        lines.append(f"torch.manual_seed({_width(posed)})")
    lines += _calls(posed, asked, given)
    body = "\n".join([model, inspect.getsource(grammar.settle), *lines])
    outcome = judge(case)
    reply = f"# seed {case['seed']}, {outcome.category}: {outcome.detail}"
    return "\n".join([reply, *_imports(body), "", body, ""])


def _calls(posed: Posed, asked: Case, given: str) -> list[str]:
    """The questions, each with its true answer."""
    options = "".join(f"{key}={asked[key]!r}, " for key in ("backend", "workers", "memory"))
    nodes = "" if asked["all nodes"] else f"nodes={posed.nodes}, "
    ask = f'nora.influence(model, data, "exact", {given}{nodes}{options}progress=False).scores'
    ids = [posed.line(node) for node in posed.nodes]
    lines = [f"print({ask}[{ids}])  # {[_true(posed, [node]) for node in posed.nodes]}"]
    if asked["brute"]:
        lines.append(lines[0].replace('"exact"', '"brute"').replace(options, ""))
    if asked["effects"]:
        for removed in posed.groups:
            reply = f"nora.what_if(model, data, {removed}, {given})"
            lines.append(f"print({reply}.total)  # {_true(posed, removed)}")
    if asked["top"]:
        k = min(asked["top"], len(posed.everyone))
        reply = f"nora.top(model, data, {k}, {given}budget={asked['budget']}, progress=False)"
        lines.append(f"print({reply}.to_frame())")
        lines.append(f"# {[(node, _true(posed, [node])) for node in posed.everyone]}")
    return lines


def _true(posed: Posed, removed: list[Any]) -> Any:
    try:
        return round(posed.oracle.total(removed), 12)
    except Exception as error:
        return f"raises {type(error).__name__}"


def _task(posed: Posed, asked: Case) -> str:
    oracle = posed.oracle
    if asked["task"] == "node":
        kind = f", node_type={oracle.kinds[0]!r}" if oracle.kinds else ""
        kind += f", mode={oracle.mode!r}" if oracle.mode else ""
        return f"nora.NodeClassification({oracle.return_type!r}, {oracle.classes}{kind})"
    kinds = f", node_types={oracle.kinds}" if oracle.kinds else ""
    decoder = {
        "dot": "",
        "probs": ", decoder=lambda z, p: (z[p[0]] * z[p[1]]).sum(-1).sigmoid()",
        "mixed": ", decoder=lambda z, p: (z[p[0]] * z[p[1]].flip(-1)).sum(-1) - z[p[1]][:, 0]",
        "distance": ", decoder=lambda z, p: 1 - (z[p[0]] - z[p[1]]).square().sum(-1)",
        "module": f", decoder=Decoder({_width(posed)}).eval()",
    }[asked["decoder"]]
    reply = f", return_type={oracle.return_type!r}{kinds}"
    return f"nora.LinkPrediction({_literal(oracle.pairs)}{decoder}{reply})"


def _width(posed: Posed) -> int:
    """The width of the model's output."""
    found = posed.oracle.before()
    return (found[posed.oracle.kinds[0]] if posed.oracle.kinds else found).size(-1)


def _words(text: str) -> set[str]:
    return set(re.findall(r"(?<!\.)\b[A-Za-z_]\w*\b", text))


def _literal(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    if not value.numel():
        return f"torch.empty({list(value.shape)}, dtype={value.dtype})"
    kind = f", dtype={value.dtype}" if value.is_floating_point() else ""
    return f"torch.tensor({value.tolist()}{kind})"


def _fields(data: Any, words: set[str]) -> str:
    """Those fields of a graph that a model names, as arguments; all that are needed to count it."""
    wanted = {"x", "edge_index", "num_nodes"} | words
    return ", ".join(
        f"{key}={_literal(value)}" for key, value in data.to_dict().items() if key in wanted
    )


def _typed_data(data: Any) -> list[str]:
    lines = []
    for kind in (*data.node_types, *data.edge_types):
        for key, value in data[kind].items():
            lines.append(f"data[{kind!r}].{key} = {_literal(value)}")
    return lines


def _imports(body: str) -> list[str]:
    """What the body needs: imports, and the source of our own layers."""
    words = _words(body)
    own = [
        value
        for key, value in vars(custom).items()
        if inspect.isclass(value) and value.__module__ == custom.__name__ and key in words
    ]
    own += [question.Decoder] if "Decoder" in words else []
    classes = [inspect.getsource(one) for one in own]
    words |= _words("\n".join(classes))
    layers = sorted(word for word in words if word[:1].isupper() and hasattr(pyg, word))
    layers += sorted(word for word in words if word.startswith("global_") or word == "to_hetero")
    functions = sorted(word for word in words if hasattr(tools, word) and word not in layers)
    lines = ["import math", "", "import nora", "import torch", "import torch.nn.functional as F"]
    lines += ["from torch import Tensor, nn", "from torch.utils.checkpoint import checkpoint"]
    lines += ["from torch_geometric.data import Data, HeteroData"]
    lines += [f"from torch_geometric.nn import {', '.join(layers)}"] if layers else []
    lines += [f"from torch_geometric.utils import {', '.join(functions)}"] if functions else []
    if "gcn_norm" in words:
        lines.append("from torch_geometric.nn.conv.gcn_conv import gcn_norm")
    return [*lines, "", *classes]
