"""What is found out about a model before any long work, by running it a few times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import N_KEYS

from nora.graph.edge_sets import Kind, Rewriting, node_counts, rewrite
from nora.graph.removal import isolate_nodes, kept
from nora.model.foreign import check_structure, clear_caches, clear_misfits, watched
from nora.model.hetero import HeteroForward
from nora.model.misfit import advice, told
from nora.model.precomputed import precomputed
from nora.model.preserve import CheckedRemoval, Snapshot, another_random_state
from nora.model.reading import Reading
from nora.model.tasks.link_prediction import LinkPrediction
from nora.stacklevel import warn

if TYPE_CHECKING:
    from nora.model.problem import Problem

# What a model that does not fit its input may raise.
MISFIT = (RuntimeError, LookupError, ValueError, TypeError, AttributeError, AssertionError)


def check_model(problem: Problem, again: bool = True) -> Problem:
    """Run the model: it must accept the graph, fit the task, and be deterministic.

    Args:
        problem: The question.
        again: Whether to run it a second time here, to see that it is deterministic; a method that runs it
            on `G` once more anyway compares that pass itself (`check_same`).

    Returns:
        The problem, with the output it has now been seen to have, and with what removing a node means
        for this model.
    """
    if any(isinstance(p, UninitializedParameter) for p in problem.model.parameters()):
        raise ValueError(
            f"the model {type(problem.model).__name__} has layers that have not seen data yet (in_channels "
            "-1): run it once, and train it, before asking"
        )
    with problem.evaluating(), torch.no_grad():
        first, reading = _first_output(problem)
        if problem.direct:
            assert isinstance(problem.task, LinkPrediction)
            problem.task.check_pairs(problem.num_nodes)
            problem.task.check_scores(first, "the model")
        else:
            _check_labels(problem, first)
            problem.task.check(first, problem.num_nodes, _telling_rows(problem))
        problem = replace(problem, original=first)
        reading = clear_caches(problem, first, reading)
        check_structure(problem, reading)
        if again:
            check_deterministic(problem)
        reason = _by_id(problem)
        if reason:
            warn(
                f"the model {type(problem.model).__name__} {reason}: a removed node keeps its id and "
                "loses its edges (it is isolated), instead of being deleted. Keep what belongs to "
                "the nodes in the data (data.x, or data.n_id to look it up) to have them deleted",
                RuntimeWarning,
            )
            problem = replace(problem, by_id=True)
        _check_rows(problem, reading.read_by(first))
        _check_precomputed(problem, reading.read_by(first))
        if not reading.reads_edges(first) and _ignores_graph(problem):
            raise ValueError(
                f"the model {type(problem.model).__name__} does not read the edges of this graph: without "
                "any of them it predicts the same, and every influence would be 0. Structure that was "
                "computed beforehand (SIGN's x1, x2, a propagated feature) needs transform=…, which "
                "computes it again without the removed node; edges that the model keeps itself must be "
                "read from data"
            )
    return problem


def _check_rows(problem: Problem, read: set[str]) -> None:
    """Raise where a graph has as many edges as nodes, and it is not said whose rows a tensor holds."""
    if not isinstance(problem.data, Data) or problem.edge_index.size(1) != problem.num_nodes:
        return
    for name, value in problem.data.items():
        clear = "edge" in name or "node" in name or name in N_KEYS | {"y", "adj_t"}
        rows = isinstance(value, Tensor) and value.dim() and len(value) == problem.num_nodes
        if f"data.{name}" in read and rows and not clear and not name.endswith("_mask"):
            raise ValueError(
                f"the graph has {problem.num_nodes} nodes and as many edges, so that data.{name} may hold "
                f"rows of either: rename it node_{name} or edge_{name}"
            )


def _check_precomputed(problem: Problem, read: set[str]) -> None:
    """Warn of structure that was computed before the model sees the graph; refuse it if asked to."""
    if problem.transform is not None:
        return
    for what, transform in precomputed(problem.data, read):
        message = (
            f"{what}: it was computed from the whole graph, and stays as it is when a node is removed. "
            f"Influences then lack that part. Keep the graph without it in data, and pass "
            f"transform={transform}, which computes it again without the removed node"
        )
        if problem.strict:
            raise ValueError(message)
        warn(message, RuntimeWarning)


def _first_output(problem: Problem) -> tuple[Tensor, Reading]:
    """The output on `G` and what the pass has read, or an error that says how the model is called."""
    try:
        try:
            first, reading = watched(problem)
        except MISFIT:
            if not clear_misfits(problem):
                raise
            first, reading = watched(problem)
    except MISFIT as error:
        if "writes into its parameter" in str(error):
            raise
        raise ValueError(
            f"the model {type(problem.model).__name__} could not be run on this graph: "
            f"{told(error)}. {advice(problem, error)}"
        ) from error
    if not isinstance(first, Tensor):
        raise TypeError(
            f"the model returned {type(first).__name__}, expected one tensor; pass "
            "forward=lambda model, data: … that picks it"
        )
    return first, reading


def _wanted(problem: Problem) -> str | None:
    """The type of the nodes that are classified, where nodes have types."""
    forward = problem.forward
    wanted = forward.wanted if isinstance(forward, HeteroForward) else ()
    return wanted[0] if wanted and problem.task.item == "node" else None


def _telling_rows(problem: Problem) -> Tensor | None:
    """Mask `[N]` of the output's rows that are predictions; None for all."""
    wanted = _wanted(problem)
    return None if wanted is None else problem.node_index.mask(wanted).to(problem.device)


def _check_labels(problem: Problem, output: Tensor) -> None:
    """Raise when the graph's labels speak against the task."""
    wanted = _wanted(problem)
    y = (problem.data if wanted is None else problem.data[wanted]).get("y")
    if isinstance(y, Tensor):
        problem.task.check_labels(y, output)


def check_deterministic(problem: Problem) -> None:
    """Raise when a second pass over the same graph predicts something else."""
    with another_random_state():
        output = problem.run(problem.asked(problem.data, problem.task))
    check_same(problem, output)


def check_same(problem: Problem, output: Tensor) -> None:
    """Raise when the output of another pass over the same graph predicts something else."""
    again, before = problem.predicted(output, problem.task), problem.predict()
    difference = (before.float() - again.float()).abs()
    # Scatter on several threads may add in another order: allow rounding, nothing more.
    allowed = max(1e-4, 4 * torch.finfo(before.dtype).eps) * problem.task.scale(before)
    if difference.numel() and not float(difference.max()) <= allowed:
        raise ValueError(
            f"the model {type(problem.model).__name__} is not deterministic in eval mode: two "
            f"passes over the same graph differ by {float(difference.max()):.3g}. Is dropout called with "
            "training=True, or a random state drawn in forward?"
        )


def _by_id(problem: Problem) -> str:
    """Why the model has weights by node id; empty where it has none."""
    if problem.num_nodes < 2:
        return ""
    held = _held_rows(problem)
    if held and not _follows(problem) and _follow_with(problem, held):
        return (
            "has weights by node id (it predicts otherwise when the nodes are numbered otherwise)"
        )
    node = _harmless(problem)
    if node is None:
        return ""
    task, _ = problem.task.survivors(kept(node.to(problem.device), problem.num_nodes))
    start = time.perf_counter()
    try:
        found = problem.run(problem.asked(problem.without(node), task))
        wrong = problem.wrong_rows(found, task, problem.num_nodes - 1)
    except MISFIT as error:
        wrong = told(error).strip() or type(error).__name__
    if not wrong:
        problem.checked_removals[int(node)] = CheckedRemoval(found, time.perf_counter() - start)
        return ""
    if _runs_without_another(problem, node):
        return ""  # it is that node which cannot be spared; whoever removes it is told so
    isolated = replace(problem, by_id=True)
    try:
        found = isolated.run(isolated.asked(isolated.without(node), problem.task))
    except MISFIT:
        return ""
    if problem.wrong_rows(found, problem.task, problem.num_nodes):
        return ""
    return f"cannot be run on a graph with fewer nodes ({wrong.splitlines()[0]})"


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
            if _follows(problem, data):
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


def relabelled(data: Data | HeteroData, seed: int = 0) -> tuple[Data | HeteroData, Tensor]:
    """The graph with its nodes numbered otherwise, and the old global id of each node.

    The order of the edges stays.
    """
    random = torch.Generator().manual_seed(seed)
    rows: dict[Kind, Tensor] = {}
    ids: dict[Kind, Tensor] = {}
    parts, passed = [], 0
    for kind, count in node_counts(data).items():
        rows[kind] = torch.randperm(count, generator=random)
        ids[kind] = rows[kind].argsort()
        parts.append(rows[kind] + passed)
        passed += count
    return rewrite(data, Rewriting(rows, [ids])), torch.cat(parts)


def _follows(problem: Problem, given: Data | HeteroData | None = None) -> bool:
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
    found, expected = found.double(), expected.double()
    # Sums may be added in another order: allow rounding, which grows with the depth of a model.
    rounding = max(1e-3, 8 * torch.finfo(problem.output().dtype).eps)
    if problem.output().dtype == torch.double:
        rounding = 1e-6
    return bool((found - expected).abs().max() <= rounding * expected.abs().max())


def _ignores_graph(problem: Problem) -> bool:
    """Whether the model predicts the same without any edge, and without either half of the nodes."""
    source, target = problem.edge_index
    if not bool((source != target).any()):
        return False
    nodes = torch.arange(problem.num_nodes)
    bare = isolate_nodes(problem.data, nodes)
    try:
        if not torch.equal(problem.run(problem.asked(bare, problem.task)), problem.output()):
            return False
        for half in (nodes[::2], nodes[1::2]):  # it may read something of all nodes, if no edges
            found, survivors = problem.predict_without(half)
            if not torch.allclose(found, problem.predict()[survivors], equal_nan=True):
                return False
    except Exception:  # a model may need edges, or most of its nodes
        return False
    return True
