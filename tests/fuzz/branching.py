"""Trials of models that branch on sizes, in every question; judged by passes on graphs cut by hand."""

from __future__ import annotations

import copy
import itertools
import math
import random
import time
import warnings
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

import nora
from by_hand import without
from fuzz.branches import BRANCHES, KEEPS, LAYERS, Branching, Keeps, relational, with_odd_names
from fuzz.trial import FALLBACK, Outcome
from nora.engine import verify as verification

QUESTIONS = ("influence", "top", "flip", "fragile", "edge_influence", "live", "group")
verification.PREPARING_SHARE = math.inf


def call(model: Any, data: Any) -> Tensor:
    """How every model here is called."""
    return model(data)


class Definition:
    """Predictions after any edit, by hand, each by a fresh copy of the model without what it has cached."""

    def __init__(self, model: Any, data: Any) -> None:
        self.data, self.nodes = data, list(range(data.num_nodes))
        self._model = copy.deepcopy(model)
        if isinstance(model, Keeps):
            self._model.cache, self._model.kept = None, {}

    @cached_property
    def before(self) -> dict[int, Tensor]:
        """Probabilities on the graph as it is."""
        return self.after(())

    @torch.no_grad()
    def after(self, removed: tuple[int, ...], edges: tuple[int, ...] = ()) -> dict[int, Tensor]:
        """Probabilities of every node that is left, by its id; `edges` are columns."""
        keep = torch.ones(self.data.edge_index.size(1), dtype=torch.bool)
        keep[list(edges)] = False
        cut = Data(x=self.data.x, flag_mask=self.data.flag_mask)
        cut.edge_index, cut.edge_type = self.data.edge_index[:, keep], self.data.edge_type[keep]
        left, stays = without(cut, removed)
        rows = copy.deepcopy(self._model)(left).softmax(dim=-1)
        return dict(zip(stays.nonzero().flatten().tolist(), rows, strict=True))

    def total(self, removed: tuple[int, ...], edges: tuple[int, ...] = ()) -> float:
        """`F` of an edit."""
        after = self.after(removed, edges)
        return sum(float((row - self.before[node]).abs().sum()) for node, row in after.items())


def run(seed: int) -> Outcome:
    """The trial of a seed."""
    dice, start = random.Random(seed), time.monotonic()
    torch.manual_seed(seed)
    data = relational(seed, nodes=dice.randint(6, 22), edges=dice.randint(12, 80))
    keeps = dice.random() < 0.25
    name = dice.choice(list(KEEPS if keeps else BRANCHES))
    layer = dice.choice(list(LAYERS))
    question = dice.choice(QUESTIONS)
    outcome = Outcome(seed, pieces=[name, layer, question])
    if keeps:
        data = with_odd_names(data)
        model: Any = Keeps(data, name)
        if dice.random() < 0.5:
            with torch.no_grad():
                model.double()(data)  # what it caches is there already
    else:
        model = Branching(BRANCHES[name], LAYERS[layer])
    accepted = not keeps or KEEPS[name]
    asked(question, model.double().eval(), data, outcome, dice, accepted)
    outcome.seconds = time.monotonic() - start
    return outcome


def asked(
    question: str,
    model: Any,
    data: Any,
    outcome: Outcome,
    dice: random.Random,
    accepted: bool = True,
) -> None:
    """Ask a question, and put answers, refusals and fallbacks into the outcome.

    Args:
        question: One of `QUESTIONS`.
        model: In evaluation mode.
        data: The graph.
        outcome: Takes what becomes of it.
        dice: Where choices come from.
        accepted: Whether the model must be answered; else it must be refused.
    """
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _ask(question, model, data, outcome, dice)
        fell = [str(one.message) for one in caught if str(one.message).startswith(FALLBACK)]
        if fell:
            outcome.worsen("crash" if "the lowering of" in fell[0] else "fallback", fell[0][:160])
    except ValueError as error:
        outcome.worsen("refused", f"{question}: {error}"[:160])
        if accepted:
            outcome.worsen("crash", f"{outcome.pieces[0]} is refused: {error}"[:200])
    except Exception as error:  # whatever it is, it should not be
        outcome.worsen("crash", f"{question}: {type(error).__name__}: {error}"[:200])
    else:
        if not accepted:
            outcome.worsen("wrong", f"{outcome.pieces[0]} is accepted")


def _ask(question: str, model: Any, data: Any, outcome: Outcome, dice: random.Random) -> None:
    truth = Definition(model, data)
    if question == "live":
        _live(nora.Live(model, data, forward=call), truth, outcome, dice)
        return
    globals()[f"_{question}"](nora.Session(model, data, forward=call), truth, outcome, dice)


def _close(outcome: Outcome, what: str, found: float, true: float) -> None:
    outcome.largest = max(outcome.largest, true)
    if not abs(found - true) <= 1e-8 + 1e-6 * abs(true):
        outcome.worsen("wrong", f"{what}: {found:.6g}, truth {true:.6g}")


def _influence(session: Any, truth: Definition, outcome: Outcome, dice: random.Random) -> None:
    backend = dice.choice(["vectorised", "compiled"])
    found = session.influence("exact", backend=backend, progress=False)
    for node in truth.before:
        _close(outcome, f"node {node}", float(found.scores[node]), truth.total((node,)))


def _group(session: Any, truth: Definition, outcome: Outcome, dice: random.Random) -> None:
    for _ in range(5):
        some = tuple(sorted(dice.sample(truth.nodes, 2)))
        found = session.what_if(remove=list(some))
        _close(outcome, f"nodes {some}", float(found.total), truth.total(some))


def _top(session: Any, truth: Definition, outcome: Outcome, dice: random.Random) -> None:
    best = session.top(3, budget=dice.choice([1e-9, 10.0]), progress=False)
    true = {node: truth.total((node,)) for node in truth.before}
    for node, score in zip(best.nodes, best.scores, strict=True):
        _close(outcome, f"node {node}", score, true[node])
    for node in best.nodes[: best.certified]:
        ahead = sum(value > true[node] + 1e-9 for value in true.values())
        if ahead >= 3:
            outcome.worsen("wrong", f"node {node} is certified, and {ahead} are ahead of it")


def _flip(session: Any, truth: Definition, outcome: Outcome, dice: random.Random) -> None:
    node = dice.choice(truth.nodes)
    found = session.flip(node, at_most=2, progress=False)
    now = int(truth.before[node].argmax())
    others = [other for other in truth.before if other != node]

    def flips(some: tuple[int, ...]) -> bool:
        return int(truth.after(some)[node].argmax()) != now

    if found.size and not flips(tuple(found.removed)):
        outcome.worsen("wrong", f"node {node} does not flip without {found.removed}")
    singles = any(flips((other,)) for other in others)
    if singles and found.size != 1:
        outcome.worsen("wrong", f"node {node}: one removal flips it, found {found.size}")
    if not singles and found.size != 2 and found.proof:
        for pair in itertools.combinations(others, 2):
            if flips(pair):
                outcome.worsen("wrong", f"node {node}: without {pair} it flips ({found.proof})")
                return
    outcome.largest = 1.0


def _fragile(session: Any, truth: Definition, outcome: Outcome, dice: random.Random) -> None:
    found = session.fragile(progress=False)
    flips = {
        (node, other)
        for node in truth.before
        for other, row in truth.after((node,)).items()
        if int(row.argmax()) != int(truth.before[other].argmax())
    }
    fragile = {other for _, other in flips}
    outcome.largest = float(bool(fragile))
    caught_warnings = set((found.counts > 0).nonzero().flatten().tolist())
    if caught_warnings != fragile:
        outcome.worsen("wrong", f"fragile: {sorted(caught_warnings)}, truth {sorted(fragile)}")


def _edge_influence(session: Any, truth: Definition, outcome: Outcome, dice: random.Random) -> None:
    found = session.edge_influence(progress=False, method="exact")
    pairs = [tuple(pair) for pair in truth.data.edge_index.t().tolist()]
    ends = zip(found.edges["source"].tolist(), found.edges["target"].tolist(), strict=True)
    for at, pair in enumerate(ends):
        columns = tuple(column for column, other in enumerate(pairs) if other == pair)
        _close(outcome, f"edge {pair}", float(found.scores[at]), truth.total((), columns))


def _live(live: Any, truth: Definition, outcome: Outcome, dice: random.Random) -> None:
    gone: tuple[int, ...] = ()
    for _ in range(3):
        gone = (*gone, dice.choice([node for node in truth.nodes if node not in gone]))
        live.apply(nora.Edits(remove=gone[-1]))
        for node, row in truth.after(gone).items():
            off = float((live.predictions[node] - row).abs().max())
            _close(outcome, f"node {node} without {gone}", off, 0.0)
    outcome.largest = 1.0
