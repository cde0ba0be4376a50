"""Detect models that depend on node ids: they have weights per node id, or edges that are not in the graph.

If the nodes are renumbered, the predictions should be permuted in the same way. If they are not, the model
may store one row per node (an embedding); then permuting these rows as well restores the predictions. Or it
contains node ids in lists, constants or loops. If nodes then depend on each other in a graph without any
edges, the model contains edges itself, and is rejected.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

from nora.graph.edge_sets import Kind, Rewriting, by_kind, node_counts, rewrite
from nora.graph.removal import disjoint_pieces, kept
from nora.model.hetero import HeteroForward
from nora.model.input_watcher import REMEDY, InputWatcher
from nora.model.misfit import MISFIT, message_of, transform_failure
from nora.model.preserve import CheckedRemoval, Snapshot
from nora.model.tasks.link_prediction import LinkPrediction

if TYPE_CHECKING:
    from nora.model.problem import Problem

# Of the graph, to tell ids from places: with two, the first half of the nodes would be the first copy.
COPIES = 3


def by_id(problem: Problem, reading: InputWatcher, moves: bool, runs_on_part: bool = False) -> str:
    """The reason why the model needs nodes to keep their ids; empty if it does not.

    Args:
        problem: The question.
        reading: What a forward pass has read.
        moves: Whether predictions move along when nodes are renumbered.
        runs_on_part: Whether the model was seen to run on a graph with fewer nodes.

    Raises:
        ValueError: When the model contains edges itself.
    """
    if problem.num_nodes < 2:
        return ""
    reason = "" if moves else _ids_in_model(problem, reading)
    return reason or ("" if runs_on_part else _needs_every_node(problem))


def _ids_in_model(problem: Problem, reading: InputWatcher) -> str:
    """How a model whose predictions do not move along with the nodes depends on ids; empty if it does not.

    It may depend on the order of the nodes instead (`roll`, `cumsum`, `x[-1]`), or treat the first one as
    special, whichever it is (`x - x[0]`): a removal then means what the model makes of the smaller graph.
    """
    if _follow_with(problem):
        return "has weights per node id (its predictions change when the nodes are renumbered)"
    if _in_order(problem) or follows(problem, relabelled(problem.data, stays="first")):
        return ""
    where = ", ".join(dict.fromkeys(map(str, reading.numbers + reading.picked + reading.rows)))
    if _without_edges(problem):
        raise ValueError(_of_its_own(reading, where))
    return "uses node ids that do not come from the graph's tensors" + (where and f", at {where}")


def _needs_every_node(problem: Problem) -> str:
    """Why the model cannot be run without a node, but can be where the node is isolated; empty if it can."""
    node = _harmless(problem)
    if node is None:
        return ""
    task, _ = problem.task.survivors(kept(node.to(problem.device), problem.num_nodes))
    start = time.perf_counter()
    try:
        found = problem.run(problem.asked(problem.without(node), task))
        wrong = problem.wrong_rows(found, task, problem.num_nodes - 1)
    except MISFIT as error:
        wrong = transform_failure(error) or message_of(error)
    if not wrong:
        problem.checked_removals[int(node)] = CheckedRemoval(found, time.perf_counter() - start)
        return ""
    if _runs_without_another(problem, node):
        return ""  # a removal of that node is refused with the reason
    isolated = replace(problem, by_id=True)
    try:
        found = isolated.run(isolated.asked(isolated.without(node), problem.task))
    except MISFIT:
        return ""
    if problem.wrong_rows(found, problem.task, problem.num_nodes):
        return ""
    return f"cannot be run on a graph with fewer nodes ({wrong.splitlines()[0]})"


def _of_its_own(reading: InputWatcher, where: str) -> str:
    """The message about a model in which nodes depend on each other without any edge."""
    if reading.numbers or reading.rows:
        return (
            "the model reads edges that are not in data: nodes depend on each other without any "
            "edge between them, and node ids or a matrix of nodes come from elsewhere, at "
            f"{where}. A removal would not change them. {REMEDY}"
        )
    at = where and f" (rows are selected by constant ids at {where})"
    return (
        "the model reads edges that are not in data, or selects nodes by ids in its code or in an attribute "
        f"of the nodes: nodes depend on each other by their ids, without any edge between them{at}. After a "
        "removal these ids belong to other nodes. Put edges into data.edge_index, and mark special nodes in "
        "data.x"
    )


def _runs_without_another(problem: Problem, node: Tensor) -> bool:
    """Whether the model runs without some other node, so that the number of nodes is not the cause."""
    others = torch.arange(problem.num_nodes)
    for other in others[others != node.cpu()][[0, -1]].split(1):
        task, _ = problem.task.survivors(kept(other.to(problem.device), problem.num_nodes))
        try:
            found = problem.run(problem.asked(problem.without(other), task))
        except MISFIT:
            continue
        if not problem.wrong_rows(found, task, problem.num_nodes - 1):
            return True
    return False


def _harmless(problem: Problem) -> Tensor | None:
    """A node to remove `[1]`, so that a model that scores pairs still has some pairs to score.

    A neighbour of the node with most edges if possible, because its removal changes predictions.
    """
    nodes = problem.nodes if problem.nodes.numel() else torch.arange(problem.num_nodes)
    if problem.direct:
        assert isinstance(problem.task, LinkPrediction)
        pairs = problem.task.pairs.cpu()
        touching = torch.bincount(pairs.flatten(), minlength=problem.num_nodes)
        nodes = nodes[touching[nodes] < pairs.size(1)]
    edges = problem.edge_index.cpu()
    hub = torch.bincount(edges.flatten(), minlength=problem.num_nodes).argmax()
    beside = torch.cat([edges[1][edges[0] == hub], edges[0][edges[1] == hub]])
    adjacent = nodes[torch.isin(nodes, beside) & (nodes != hub)]
    return adjacent[:1] if adjacent.numel() else nodes[:1] if nodes.numel() else None


def _follow_with(problem: Problem) -> bool:
    """Whether predictions are permuted with the nodes if rows that the model stores are permuted too.

    Tensors of the model, or of `forward`, that are as long as the nodes of a type are permuted together,
    then each alone; without node types, also longer ones, as an embedding with rows to spare.
    """
    counts = {*node_counts(problem.data).values(), problem.num_nodes}
    held = Snapshot(problem.model, getattr(problem.task, "decoder", None))
    tensors = [parameter for _, parameter in held.parameters] + held.buffers
    tensors += list(_captured(problem.forward)) + list(_captured(problem.transform))
    tensors = [
        tensor
        for tensor in {id(tensor): tensor for tensor in tensors}.values()
        if tensor.layout == torch.strided
        and tensor.dim()
        and (counts & set(tensor.shape) or (len(counts) == 1 and len(tensor) > problem.num_nodes))
        and 0 not in tensor.stride()
        and not tensor.is_inference()
    ]
    exact = [tensor for tensor in tensors if counts & set(tensor.shape)]
    data, old = relabelled(problem.data)
    for chosen in [exact] * (len(exact) > 1) + [[tensor] for tensor in tensors]:
        copies = [tensor.detach().clone() for tensor in chosen]
        try:
            with torch.no_grad():
                for tensor, copied in zip(chosen, copies, strict=True):
                    tensor.copy_(_moved(copied, problem))
            if follows(problem, (data, old)):
                return True
        finally:
            with torch.no_grad():
                for tensor, copied in zip(chosen, copies, strict=True):
                    tensor.copy_(copied)
    return False


def _moved(tensor: Tensor, problem: Problem) -> Tensor:
    """A tensor with a row for every node, and maybe more, permuted as `relabelled` permutes the nodes."""
    _, order = relabelled(problem.data)
    orders = {problem.num_nodes: order}
    passed = 0
    for count in node_counts(problem.data).values():
        orders[count] = order[passed : passed + count] - passed
        passed += count
    if not orders.keys() & set(tensor.shape):
        rows = torch.cat([order, torch.arange(len(order), len(tensor))])
        return tensor.index_select(0, rows.to(tensor.device))
    for axis, size in enumerate(tensor.shape):
        if size in orders:
            tensor = tensor.index_select(axis, orders[size].to(tensor.device))
    return tensor


def _captured(function: Any, depth: int = 3) -> Iterator[Tensor]:
    """Tensors of a function: in its closure, its defaults, or its attributes."""
    if isinstance(function, Tensor):
        yield function
    elif isinstance(function, nn.Module):
        yield from function.parameters()
        yield from function.buffers()
    elif isinstance(function, Data | HeteroData):
        yield from (v for store in function.stores for v in store.values() if isinstance(v, Tensor))
    if depth == 0 or isinstance(function, Tensor | nn.Module | Data | HeteroData):
        return
    code = getattr(function, "__code__", None)
    known = getattr(function, "__globals__", {})
    found = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    found += [known[name] for name in getattr(code, "co_names", ()) if name in known]
    found += getattr(function, "__defaults__", None) or ()
    found += list((getattr(function, "keywords", None) or {}).values())
    found += getattr(function, "args", None) or ()
    if isinstance(function, list | tuple):
        found += list(function)
    elif isinstance(function, dict):
        found += list(function.values())
    elif isinstance(function, HeteroForward):
        found += [function.call]
    for value in found:
        if isinstance(value, Tensor | list | tuple | dict | Data | HeteroData) or callable(value):
            yield from _captured(value, depth - 1)


def _in_order(problem: Problem) -> bool:
    """Whether predictions depend on the order of the nodes (`roll`, `cumsum`, halves), apart from ids.

    Two more copies of the graph are added, whose ids the model cannot contain. If only their nodes are
    renumbered, predictions are permuted accordingly, unless the order matters.
    """
    every = torch.arange(problem.num_nodes)
    counts = torch.tensor(list(node_counts(problem.data).values()))
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)  # of each node's type
    copies = disjoint_pieces(problem.data, [every] * COPIES)
    moved, old = relabelled(copies, stays="a copy")
    task = moved_task = problem.task
    if problem.direct:
        assert isinstance(task, LinkPrediction)
        first = every + (COPIES - 1) * starts
        places = [first + copy * counts.repeat_interleave(counts) for copy in range(COPIES)]
        pairs = torch.cat([place[task.pairs.cpu()] for place in places], dim=1).to(problem.device)
        task = replace(task, pairs=pairs)
        moved_task = replace(task, pairs=old.to(pairs.device).argsort()[pairs])
    try:
        before = problem.run(problem.asked(copies, task))
        after = problem.run(problem.asked(moved, moved_task))
    except MISFIT:
        return False
    if len(before) != COPIES * len(problem.output()):
        return False
    expected = before if problem.direct else before[old.to(before.device)]
    return _difference(after, expected) > rounding(expected.dtype)


def _without_edges(problem: Problem) -> bool:
    """Whether nodes depend on each other without any edge between them.

    Edges between two halves of the nodes are removed, features of one half change, and predictions of the
    other must not. The halves are given by one bit of the node ids after the other, so that every pair of
    nodes is separated once.
    """
    dice, ids = torch.Generator().manual_seed(0), torch.arange(problem.num_nodes)
    for bit in range(max(len(ids) - 1, 1).bit_length()):
        half = (ids >> bit) & 1 == 1
        apart = _apart(problem.data, half)
        try:
            before = problem.run(problem.asked(apart, problem.task))
            for some in (half, ~half):
                after = problem.run(problem.asked(_otherwise(apart, some, dice), problem.task))
                others = (
                    ~some if not problem.direct else ~some[problem.task.pairs.cpu()].any(dim=0)  # type: ignore[attr-defined]
                )
                if len(others) != len(before) or before.shape != after.shape:
                    return False
                there = others.to(after.device)
                if _difference(after[there], before[there]) > 1e-4:
                    return True
        except MISFIT:
            continue
    return False


def _apart(data: Data | HeteroData, half: Tensor) -> Data | HeteroData:
    """The graph without the edges between one half of the nodes `[N]` and the other."""
    halves = by_kind(data, half)
    every = {kind: torch.arange(len(part)) for kind, part in halves.items()}
    ids = [
        {kind: torch.where(part == side, every[kind], -1) for kind, part in halves.items()}
        for side in (True, False)
    ]
    return rewrite(data, Rewriting(every, ids, sorts=True))


def _otherwise(data: Data | HeteroData, some: Tensor, dice: torch.Generator) -> Data | HeteroData:
    """The graph with other features at some nodes `[N]`."""
    new, passed = copy.copy(data), 0
    for kind, count in node_counts(data).items():
        here = some[passed : passed + count]
        old = data if kind is None else data[kind]
        store = new if kind is None else new[kind]
        passed += count
        for name, value in list(old.items() if kind is not None else data._store.items()):
            rows = isinstance(value, Tensor) and value.dim() and len(value) == count
            if rows and "edge" not in name:
                store[name] = value.clone()
                others = value[torch.randperm(count, generator=dice)]
                noise = torch.rand(value.shape, generator=dice).to(value)
                others = others + noise if value.is_floating_point() else others
                store[name][here] = others[here]
    return new


def relabelled(
    data: Data | HeteroData, seed: int = 0, stays: str = ""
) -> tuple[Data | HeteroData, Tensor]:
    """The graph with renumbered nodes, and the old global id of each node.

    The permutation is one cycle over all nodes of a type, so no group of nodes keeps its ids. The edges
    of each node stay in their order.

    Args:
        data: The graph.
        seed: Of the new order.
        stays: Which nodes of each type keep their ids: the first `a copy` of several, or the `first` node
            alone, where others are left to exchange; none by default.
    """
    random = torch.Generator().manual_seed(seed)
    rows: dict[Kind, Tensor] = {}
    ids: dict[Kind, Tensor] = {}
    parts, passed = [], 0
    for kind, count in node_counts(data).items():
        stay = int(count > 2) if stays == "first" else count // COPIES if stays else 0
        order = stay + torch.randperm(count - stay, generator=random)
        rows[kind] = torch.arange(count)
        rows[kind][order] = order.roll(1)
        ids[kind] = rows[kind].argsort()
        parts.append(rows[kind] + passed)
        passed += count
    return rewrite(data, Rewriting(rows, [ids], sorts=True)), torch.cat(parts)


def follows(problem: Problem, renumbered: tuple[Data | HeteroData, Tensor] | None = None) -> bool:
    """Whether predictions are permuted with the nodes when these are renumbered (see `relabelled`)."""
    return moved_by_numbers(problem, renumbered) <= rounding(problem.output().dtype)


def moved_by_numbers(
    problem: Problem, renumbered: tuple[Data | HeteroData, Tensor] | None = None
) -> float:
    """How far predictions are from being permuted with the nodes, relative to the largest one."""
    data, old = relabelled(problem.data) if renumbered is None else renumbered
    old = old.to(problem.device)
    task, expected = problem.task, problem.output()
    if isinstance(task, LinkPrediction) and problem.direct:
        task = replace(task, pairs=old.argsort()[task.pairs])
    elif not problem.direct:
        expected = expected[old]
    try:
        found = problem.run(problem.asked(data, task))
    except MISFIT:
        return math.inf
    return _difference(found, expected) if found.shape == expected.shape else math.inf


def rounding(dtype: torch.dtype) -> float:
    """Which relative difference is rounding, which grows with the depth of a model."""
    return max(1e-6 if dtype == torch.double else 1e-4, 8 * torch.finfo(dtype).eps)


def _difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest number; infinite for NaN on one side alone."""
    found, expected = found.double(), expected.double()
    same = (found == expected) | (found.isnan() & expected.isnan())
    error = (found - expected).abs().masked_fill(same, 0)
    if not error.numel() or not bool(error.any()):
        return 0.0
    size = expected[expected.isfinite()].abs()
    return (
        float(error.nan_to_num(math.inf).max() / size.max().clamp(min=1e-30))
        if size.numel()
        else math.inf
    )
