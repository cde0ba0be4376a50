"""Node mask: which nodes' messages, dampened together, change the predictions most?

A mask `m ∈ [0,1]^N` multiplies every node's messages to others, in every message-passing layer; the
model is fixed. Gradient descent minimises

    −Σ ‖p(G) − p(G, m)‖₁ + α‖m‖₁ + β‖1 − m‖₁,

`m` is clamped to [0, 1] after every step, and the mask that changes the predictions most is kept.
The score is `1 − m`; nodes that send no messages keep `m = 1`.

Two choices were made by measurement (one cycle of Cora, Pearson against `exact`):
- steps along the gradient itself. Adam, which divides each node's step by the size of its own
  gradient, moves all nodes by the same amount and loses their differences (GCN, L1 penalties: 0.48 against
  0.84); `optimizer="adam"` does so all the same;
- messages rather than layer inputs: an input also carries a node's message to itself, and its own
  prediction does not count (SAGE: 0.74 against 0.85). `where="inputs"` masks the inputs.

Steps are relative: the first moves the most influential node by `lr`.

`as_published=True` does what the paper's scripts do, which differs from its text: the model is in train mode
(dropout on, which is why the L1 change has a gradient at `m = 1`), the loss is `−mean |p(G) − p(G, m)| +
β (1 − mean m)`, `α` is Adam's weight decay, and the mask after the step with the lowest loss on the first
items, as many as 10 % of the nodes, is kept. Nodes differ far less than all masks drift, which Pearson does
not mind.

Reference: a baseline of Fast Inference of Removal-Based Node Influence, WWW 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear

from nora.methods import METHODS, MethodFacts
from nora.model import Problem
from nora.model.message_passing import Ends, LayerInputs, message_edges, message_passing
from nora.model.preserve import seeded
from nora.model.task import item_change
from nora.options import option

Where = Literal["messages", "inputs"]
Optimizer = Literal["gradient", "adam"]
SPACE = {
    "lr": (0.003, 0.01, 0.03),
    "alpha": (0.0, 0.1, 1.0),
    "beta": (0.0, 0.1, 1.0, 10.0),
    "epochs": (10, 25, 50),
}
# Of the items, those whose change decides which mask is kept, with `as_published`.
FIRST = 0.1
# The L1 change has no gradient where nothing has changed yet: the mask starts just below 1.
START = 1e-3


@METHODS.register(
    "mask", "baseline: optimise a mask on all nodes' messages", MethodFacts(space=SPACE)
)
def mask(
    problem: Problem,
    *,
    lr: float = 0.01,
    alpha: float = 0.1,
    beta: float = 1.0,
    epochs: int = 25,
    where: Where = "messages",
    optimizer: Optimizer = "gradient",
    as_published: bool = False,
    seed: int = 0,
) -> Tensor:
    """Scores `[N]` in [0, 1].

    Args:
        problem: The question.
        lr: How far the first step moves the most influential node (with Adam: every node).
        alpha: Weight of `‖m‖₁`, which moves all masks down.
        beta: Weight of `‖1 − m‖₁`, which moves all masks up: nodes whose messages matter less than
            `beta − alpha` end at score 0.
        epochs: Number of steps.
        where: Mask the `messages` to others, or the `inputs` of the layers.
        optimizer: Step along the `gradient`, or with `adam` as the paper does.
        as_published: Do what the paper's scripts do; `where` and `optimizer` are then theirs.
        seed: Seed of the dropout, which is on with `as_published` alone.
    """
    if where not in ("messages", "inputs"):
        raise ValueError(f"where is {where!r}; it must be 'messages' or 'inputs'")
    if optimizer not in ("gradient", "adam"):
        raise ValueError(f"optimizer is {optimizer!r}; it must be 'gradient' or 'adam'")
    if not lr > 0 or epochs < 1:
        raise ValueError(f"lr must be positive and epochs at least 1, got {lr} and {epochs}")
    if not (alpha >= 0 and beta >= 0):
        raise ValueError(f"alpha and beta must not be negative, got {alpha} and {beta}")
    for parameter in problem.model.parameters():  # restored by the caller, as is the mode
        parameter.requires_grad_(False)
    with _features_mapped_once(problem), seeded(seed):
        if as_published:
            return _published(problem, lr, alpha, beta, epochs)
        return _descended(problem, lr, alpha, beta, epochs, where, optimizer)


def _descended(
    problem: Problem,
    lr: float,
    alpha: float,
    beta: float,
    epochs: int,
    where: Where,
    optimizer: Optimizer,
) -> Tensor:
    """Scores by descent along the gradient, or with Adam; see the module."""
    before = problem.predict().detach()
    m = torch.full((problem.num_nodes,), 1 - START, dtype=before.dtype, device=before.device)
    best, kept = -1.0, m
    descent: torch.optim.Optimizer | None = None
    for _ in range(epochs + 1):
        m.requires_grad_()
        with torch.enable_grad():
            change = _change(problem, before, m, where)
            penalty = alpha * m.abs().sum() + beta * (1 - m).abs().sum()
            (m.grad,) = torch.autograd.grad(penalty - change, m)
        if float(change.detach()) > best:
            best, kept = float(change.detach()), m.detach().clone()
        if descent is None:
            most = max(float(m.grad.abs().max()), torch.finfo(m.dtype).tiny)
            descent = (
                torch.optim.SGD([m], lr=lr / most)
                if optimizer == "gradient"
                else torch.optim.Adam([m], lr=lr)
            )
        descent.step()
        with torch.no_grad():
            m.clamp_(0, 1)
    if best <= 0:  # nothing that counts hangs on any message
        return torch.zeros_like(kept)
    sends = torch.zeros_like(kept, dtype=torch.bool)
    edges = message_edges(problem)
    sends[edges[0, edges[0] != edges[1]]] = True
    return torch.where(sends, 1 - kept, torch.zeros_like(kept))


def _published(problem: Problem, lr: float, alpha: float, beta: float, epochs: int) -> Tensor:
    """Scores by the paper's scripts; see the module."""
    before = problem.predict().detach()
    m = torch.ones(problem.num_nodes, dtype=before.dtype, device=before.device)
    first = round(FIRST * problem.num_nodes)
    descent = torch.optim.Adam([m], lr=lr, weight_decay=alpha)
    best, kept = float("inf"), m
    problem.model.train()
    for _ in range(epochs):
        m.requires_grad_()
        with torch.enable_grad(), _masked_messages(problem, m):
            change = (problem.items(problem.data, problem.task) - before).abs()
            if problem.targets is not None:
                change = change[problem.targets]
            (m.grad,) = torch.autograd.grad(beta * (1 - m.mean()) - change.mean(), m)
        judged = -float(change[:first].detach().mean())
        descent.step()
        with torch.no_grad():
            m.clamp_(0, 1)
        if judged < best:
            best, kept = judged, m.detach().clone()
    problem.model.eval()
    return 1 - kept


def _change(problem: Problem, before: Tensor, m: Tensor, where: Where) -> Tensor:
    """Summed L1 change of the predictions under the mask."""
    masked: AbstractContextManager[None] = (
        _masked_messages(problem, m)
        if where == "messages"
        else LayerInputs(problem, lambda h, span: h * _column(m[span], h))
    )
    with masked:
        after = problem.items(problem.data, problem.task)
    change = item_change(before, after)
    return (change if problem.targets is None else change[problem.targets]).sum()


def _column(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))


@contextmanager
def _features_mapped_once(problem: Problem) -> Iterator[None]:
    """Linear maps of what no mask changes, the features, are computed in the first pass alone."""
    changed = []
    for module in problem.model.modules():
        if type(module) in (nn.Linear, Linear) and "forward" not in vars(module):
            vars(module)["forward"] = _remembering(module.forward)
            changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            del vars(module)["forward"]


def _remembering(forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    kept: list[
        tuple[Tensor, int, Tensor]
    ] = []  # the input itself, so that no other takes its place

    def remembered(x: Tensor) -> Tensor:
        if x.requires_grad or x.is_inference():
            return forward(x)
        for given, version, found in kept:
            if x is given and x._version == version:
                return found
        kept[:] = [(x, x._version, forward(x))]
        return kept[0][2]

    return remembered


@contextmanager
def _masked_messages(problem: Problem, m: Tensor) -> Iterator[None]:
    """Every layer's messages from one node to another times the sender's `m` `[N]`."""
    ends = Ends(problem)
    about: dict[MessagePassing, tuple[slice, bool]] = {}
    factors: dict[MessagePassing, Tensor] = {}

    def before_forward(layer: MessagePassing, args: tuple, kwargs: dict[str, Any]) -> None:
        given = kwargs.get("x", args[0] if args else None)
        if isinstance(given, Mapping):
            raise ValueError(
                f"mask does not know the source nodes of {type(layer).__name__}, which takes the inputs of "
                f"all node types at once; use {option('method', 'nora')}, 'exact' or 'brute'"
            )
        first = given[0] if isinstance(given, tuple | list) else given
        kinds = ends.of(args, kwargs)
        if kinds is None and len(ends.index.types) > 1:
            raise ValueError(
                f"mask does not know the node types of {type(layer).__name__}: it gets edges "
                f"that are not those of the data; use {option('method', 'exact')} or 'brute'"
            )
        same_type = kinds is None or kinds[0] == kinds[1]
        about[layer] = ends.senders(first, args, kwargs), same_type

    def before_propagate(layer: MessagePassing, inputs: tuple[Any, ...]) -> None:
        edges = inputs[0]
        if not isinstance(edges, Tensor) or edges.layout != torch.strided:
            raise ValueError(
                f"mask needs {type(layer).__name__} to be called with an edge_index [2, E]; it got "
                "a sparse matrix"
            )
        sender = edges[0] if layer.flow == "source_to_target" else edges[1]
        span, same_type = about.get(layer, (slice(0, len(m)), True))
        factors[layer] = m[span][sender]
        if same_type:
            itself = edges[0] == edges[1]
            factors[layer] = torch.where(itself, torch.ones_like(factors[layer]), factors[layer])

    def after_message(layer: MessagePassing, _: Any, message: Any) -> Any:
        if isinstance(message, tuple):
            return tuple(after_message(layer, _, part) for part in message)
        return message * _column(factors[layer], message)

    handles = []
    for layer in message_passing(problem.model):
        handles.append(layer.register_forward_pre_hook(before_forward, with_kwargs=True))
        handles.append(layer.register_propagate_forward_pre_hook(before_propagate))
        handles.append(layer.register_message_forward_hook(after_message))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
