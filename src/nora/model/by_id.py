"""Whether a model knows nodes by their ids: it has weights by node id, or edges that are not in the graph.

When the nodes are numbered otherwise, predictions move along with them. Where they do not, the model may have
rows of its own for the nodes (an embedding): then predictions move along if these rows are moved too. Or it
knows nodes by numbers in lists, constants or loops. If nodes then depend on each other in a graph without any
edges, the model has edges of its own, and is refused.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

from nora.graph.edge_sets import Kind, Rewriting, node_counts, rewrite
from nora.graph.removal import disjoint_pieces, isolate_nodes, kept
from nora.model.hetero import HeteroForward
from nora.model.input_watcher import REMEDY, InputWatcher
from nora.model.misfit import MISFIT, message_of, transform_failure
from nora.model.preserve import CheckedRemoval, Snapshot
from nora.model.tasks.link_prediction import LinkPrediction

if TYPE_CHECKING:
    from nora.model.problem import Problem


def by_id(problem: Problem, reading: InputWatcher, runs_on_part: bool = False) -> str:
    """Why the model needs nodes to keep their ids; empty where it does not.

    Args:
        problem: The question.
        reading: What a pass has read.
        runs_on_part: Whether the model was seen to run on a graph with fewer nodes.

    Raises:
        ValueError: When it has edges of its own.
    """
    if problem.num_nodes < 2:
        return ""
    held = _held_rows(problem)
    elsewhere = reading.numbers + reading.picked + reading.rows
    if (held or elsewhere) and not follows(problem):
        if held and _follow_with(problem, held):
            return (
                "has weights by node id (it predicts otherwise when the nodes are numbered "
                "otherwise)"
            )
        if elsewhere and not _in_order(problem):
            where = " and ".join(dict.fromkeys(str(line) for line in elsewhere[:3]))
            if _without_edges(problem, isolate_nodes(problem.data, _all_nodes(problem))):
                raise ValueError(_of_its_own(reading, where))
            if reading.numbers:
                return (
                    f"knows nodes by their numbers, from outside of the graph's tensors at {where}"
                )
    node = None if runs_on_part else _harmless(problem)
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
            "the model reads edges that are not in data: without any edge in data, nodes still "
            "depend on each other, and node ids or a matrix of nodes come from elsewhere, at "
            f"{where}. A removal would leave them as they are. {REMEDY}"
        )
    return (
        "the model reads edges that are not in data, or takes a node by its place: without any edge in data, "
        f"nodes still depend on each other, and rows are picked by numbers in the code, at {where}. After a "
        "removal these numbers are of other nodes. Put edges into data.edge_index, and mark a node that is "
        "special in data.x"
    )


def _runs_without_another(problem: Problem, node: Tensor) -> bool:
    """Whether the model can be run without some other node, so that fewer nodes are not the trouble."""
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
    """A node to remove `[1]`, one without which a model that scores pairs still has some.

    A neighbour of the node with most edges, if there is one: its removal is then worth a comparison.
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
    near = nodes[torch.isin(nodes, beside) & (nodes != hub)]
    return near[:1] if near.numel() else nodes[:1] if nodes.numel() else None


def _held_rows(problem: Problem) -> list[Tensor]:
    """Tensors of the model, or that the call brings along, that are as long as the nodes of a type."""
    counts = {*node_counts(problem.data).values(), problem.num_nodes}
    held = Snapshot(problem.model, getattr(problem.task, "decoder", None))
    tensors = [parameter for _, parameter in held.parameters] + held.buffers
    tensors += list(_captured(problem.forward)) + list(_captured(problem.transform))
    return [
        tensor
        for tensor in {id(tensor): tensor for tensor in tensors}.values()
        if tensor.layout == torch.strided and any(size in counts for size in tensor.shape)
    ]


def _follow_with(problem: Problem, held: list[Tensor]) -> bool:
    """Whether the predictions move with the nodes if rows that the model holds move along.

    An order that the model itself puts on the nodes (`roll`, `cumsum`) is not undone by that.
    """
    for chosen in [held, *([tensor] for tensor in held if len(held) > 1)]:
        copies = [tensor.detach().clone() for tensor in chosen]
        data, _ = relabelled(problem.data)
        try:
            with torch.no_grad():
                for tensor, copied in zip(chosen, copies, strict=True):
                    tensor.copy_(_moved(copied, problem))
            if follows(problem, data):
                return True
        finally:
            with torch.no_grad():
                for tensor, copied in zip(chosen, copies, strict=True):
                    tensor.copy_(copied)
    return False


def _moved(tensor: Tensor, problem: Problem) -> Tensor:
    """A tensor with its rows by node id in the order that `relabelled` puts the nodes in."""
    _, order = relabelled(problem.data)
    orders = {problem.num_nodes: order}
    passed = 0
    for count in node_counts(problem.data).values():
        orders[count] = order[passed : passed + count] - passed
        passed += count
    for axis, size in enumerate(tensor.shape):
        if size in orders:
            tensor = tensor.index_select(axis, orders[size].to(tensor.device))
    return tensor


def _captured(function: Any, depth: int = 3) -> Iterator[Tensor]:
    """Tensors that a function brings along: in its closure, its defaults, or as an attribute."""
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


def _all_nodes(problem: Problem) -> Tensor:
    return torch.arange(problem.num_nodes)


def _in_order(problem: Problem) -> bool:
    """Whether predictions depend on the order of the nodes (`roll`, `cumsum`), whatever ids the model knows.

    A second copy of the graph is beyond all ids that it may know: when nodes of this copy alone are numbered
    otherwise, predictions move along, unless their order matters.
    """
    every = _all_nodes(problem)
    counts = torch.tensor(list(node_counts(problem.data).values()))
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)  # of each node's type
    first = every + starts
    places = torch.stack([first, first + counts.repeat_interleave(counts)]).to(problem.device)
    twice = disjoint_pieces(problem.data, [every, every])
    moved, old = relabelled(twice, second_half=True)
    task = moved_task = problem.task
    if problem.direct:
        assert isinstance(task, LinkPrediction)
        pairs = torch.cat([places[0][task.pairs], places[1][task.pairs]], dim=1)
        task = replace(task, pairs=pairs)
        moved_task = replace(task, pairs=old.to(pairs.device).argsort()[pairs])
    try:
        before = problem.run(problem.asked(twice, task))
        after = problem.run(problem.asked(moved, moved_task))
    except MISFIT:
        return False
    if len(before) != 2 * len(problem.output()):
        return False
    expected = before if problem.direct else before[old.to(before.device)]
    return not _same_rows(after, expected)


def _without_edges(problem: Problem, bare: Any) -> bool:
    """Whether nodes depend on others in a graph without edges: some features change, rows of others do.

    Any two nodes differ in a bit of their ids: of every pair, each one is changed without the other once.

    Args:
        problem: The question.
        bare: A graph without edges.
    """
    dice = torch.Generator().manual_seed(0)
    ids = torch.arange(int(bare.num_nodes or 0))
    try:
        before = problem.run(problem.asked(bare, problem.task))
        for bit in range(max(len(ids) - 1, 1).bit_length()):
            for side in (0, 1):
                some = (ids >> bit) & 1 == side
                after = problem.run(problem.asked(_otherwise(bare, some, dice), problem.task))
                others = (
                    ~some if not problem.direct else ~some[problem.task.pairs.cpu()].any(dim=0)  # type: ignore[attr-defined]
                )
                if len(others) != len(before) or before.shape != after.shape:
                    return False
                off = (after - before).abs()[others.to(after.device)]
                if off.numel() and not float(off.max()) <= 1e-4 * float(before.abs().max()):
                    return True
    except MISFIT:
        pass
    return False


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
    data: Data | HeteroData, seed: int = 0, second_half: bool = False
) -> tuple[Data | HeteroData, Tensor]:
    """The graph with its nodes numbered otherwise, and the old global id of each node.

    All nodes of a type are on one cycle: no group of them keeps its ids. The order of the edges stays.

    Args:
        data: The graph.
        seed: Of the new order.
        second_half: Whether the first half of the nodes of each type keep their ids.
    """
    random = torch.Generator().manual_seed(seed)
    rows: dict[Kind, Tensor] = {}
    ids: dict[Kind, Tensor] = {}
    parts, passed = [], 0
    for kind, count in node_counts(data).items():
        stay = count // 2 if second_half else 0
        order = stay + torch.randperm(count - stay, generator=random)
        rows[kind] = torch.arange(count)
        rows[kind][order] = order.roll(1)
        ids[kind] = rows[kind].argsort()
        parts.append(rows[kind] + passed)
        passed += count
    return rewrite(data, Rewriting(rows, [ids])), torch.cat(parts)


def follows(problem: Problem, given: Data | HeteroData | None = None) -> bool:
    """Whether the predictions move with the nodes when these are numbered otherwise."""
    data, old = relabelled(problem.data)
    data = data if given is None else given
    old = old.to(problem.device)
    task, expected = problem.task, problem.output()
    if isinstance(task, LinkPrediction) and problem.direct:
        task = replace(task, pairs=old.argsort()[task.pairs])
    elif not problem.direct:
        expected = expected[old]
    try:
        found = problem.run(problem.asked(data, task))
    except MISFIT:
        return False
    if found.shape != expected.shape or expected.numel() == 0:
        return found.shape == expected.shape
    return _same_rows(found, expected)


def _same_rows(found: Tensor, expected: Tensor) -> bool:
    """Whether rows are equal but for rounding, which grows with the depth of a model."""
    rounding = 1e-6 if expected.dtype == torch.double else 1e-3
    rounding = max(rounding, 8 * torch.finfo(expected.dtype).eps)
    found, expected = found.double(), expected.double()
    return bool((found - expected).abs().max() <= rounding * expected.abs().max())
