"""One trial: a case by its seed, asked of the product in several ways, judged by the definition.

Categories, the worse one wins where several questions are asked:

    equal      the definition's numbers
    fallback   the same, by brute force, as a warning says
    refused    a ValueError or TypeError that the product raises on purpose, and explains
    both-fail  the model cannot be run on this graph, or on what is left of it, by anybody
    wrong      other numbers than the definition's, or things not left as found
    crash      any other exception
"""

from __future__ import annotations

import copy
import linecache
import math
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import nora
from by_hand import fresh
from fuzz.habits import STATE
from fuzz.question import Case, Posed, new_case, pose
from fuzz.truth import Truth
from nora.engine import verify as verification

# The graphs are so small that `exact` would leave them to brute force; here the engine is asked.
verification.PREPARING_SHARE = math.inf
CATEGORIES = ("equal", "fallback", "refused", "both-fail", "wrong", "crash")
BAD = ("wrong", "crash")
FALLBACK = "exact falls back to brute force: "


@dataclass
class Outcome:
    """What became of a case.

    Attributes:
        seed: The case's seed.
        category: See the module.
        detail: The first thing to know about it.
        largest: The largest true influence: a trial in which nothing changes says little.
        undefined: For how many removals the model cannot be run.
        excused: How many numbers were off where the truth itself has no more digits.
        seconds: How long it took.
        pieces: What the model is made of.
    """

    seed: int
    category: str = "equal"
    detail: str = ""
    largest: float = 0.0
    undefined: int = 0
    excused: int = 0
    seconds: float = 0.0
    pieces: list[str] = field(default_factory=list)

    def worsen(self, category: str, detail: str) -> None:
        """Keep the worst that was found."""
        if CATEGORIES.index(category) > CATEGORIES.index(self.category):
            self.category, self.detail = category, detail

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def run(seed: int, kind: str = "all") -> Outcome:
    """The trial of a seed."""
    return judge(new_case(seed, kind))


def judge(case: Case) -> Outcome:
    """The trial of a case."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    outcome = Outcome(case["seed"], pieces=_pieces(case["model"]))
    # Neither PyG's warnings nor numba's are of interest; the product's own are caught below.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            posed = pose(case)
        except Exception as error:
            outcome.worsen("both-fail", f"not made: {_message_of(error)}")
        else:
            _ask(case, posed, outcome)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _pieces(spec: Case) -> list[str]:
    if "kind" in spec:
        inside = [step["piece"] for layer in spec["layers"] for step in layer["steps"]]
        return [spec["kind"], *inside]
    return [spec["start"], *(step["piece"] for step in spec["steps"]), spec["end"]]


def _ask(case: Case, posed: Posed, outcome: Outcome) -> None:
    asked, model = case["question"], case["model"]
    truth = Truth(posed, case["graph"]["dtype"] == "float32")
    try:
        truth.oracle.before()
    except Exception as error:
        truth.error = error
    try:
        task = _task(posed, asked["task"])
    except Exception as error:
        return outcome.worsen("crash", f"task: {_message_of(error)}")
    totals = [truth.total([node]) for node in posed.nodes] if truth.error is None else []
    given = {"task": task, "targets": posed.targets, "forward": posed.forward}
    tidy = model["start"] not in ("bare",) if "start" in model else True
    tidy &= not set(outcome.pieces) & set(STATE)
    finite = [one for one in totals if one is not None and math.isfinite(one)]
    outcome.largest = max(finite, default=0.0)
    outcome.undefined = sum(one is None for one in totals)

    def scores(method: str, **options: Any) -> None:
        everyone = asked["all nodes"] and method == "exact"
        nodes = None if everyone else posed.nodes
        model, data = fresh(posed.model), copy.deepcopy(posed.data)
        dice = torch.get_rng_state()
        found = nora.influence(
            model, data, method, nodes=nodes, progress=False, **given, **options
        ).scores
        for node, true in zip(posed.nodes, totals, strict=False):
            _compare(truth, [node], float(found[posed.line(node)]), true, outcome, method)
        if tidy:
            _left_as_found(posed, model, data, dice, outcome)

    def effect(removed: list[Any]) -> None:
        true = truth.changes(removed)
        model, data = fresh(posed.model), copy.deepcopy(posed.data)
        found = nora.what_if(model, data, removed, **given)
        _compare(truth, removed, found.total, truth.total(removed), outcome, "what_if")
        if true is None or outcome.category in BAD:
            return
        change = found.change
        if posed.starts and asked["task"] == "node":
            begin = posed.starts[posed.oracle.kinds[0]]
            change = change[begin : begin + len(true)]
        gap = float((change.double() - true).abs().nan_to_num(0.0).max()) if len(true) else 0.0
        if gap > truth.allowed() and not truth.steep(removed, gap):
            outcome.worsen("wrong", f"what_if {removed}: an item is off by {gap:.3g}")

    def best(k: int) -> None:
        true = {node: truth.total([node]) for node in posed.everyone}
        model, data = fresh(posed.model), copy.deepcopy(posed.data)
        k = min(k, len(posed.everyone))
        found = nora.top(model, data, k, budget=asked["budget"], progress=False, **given)
        if any(one is None or not math.isfinite(one) for one in true.values()):
            return
        last = sorted(true.values(), reverse=True)[k - 1]
        for at, (node, score) in enumerate(zip(found.nodes, found.scores, strict=True)):
            _compare(truth, [node], score, true[node], outcome, "top")
            short = last - true[node]
            if at < found.certified and short > truth.allowed() and not truth.steep([node], short):
                outcome.worsen(
                    "wrong", f"top: {node} is certified, {short:.3g} short of the {k} best"
                )

    options = {key: asked[key] for key in ("backend", "workers", "memory")}
    _guarded(truth, outcome, "exact", lambda: scores("exact", **options))
    if asked["brute"]:
        _guarded(truth, outcome, "brute", lambda: scores("brute"))
    if asked["effects"]:
        for removed in posed.groups:
            if truth.error is None:
                _guarded(truth, outcome, "what_if", lambda removed=removed: effect(removed))
    if asked["top"] and truth.error is None:
        _guarded(truth, outcome, "top", lambda: best(asked["top"]))
    outcome.excused = truth.excused


def _task(posed: Posed, name: str) -> Any:
    oracle = posed.oracle
    if name == "node":
        kind = oracle.kinds[0] if oracle.kinds else None
        mode = {} if oracle.mode is None else {"mode": oracle.mode}
        return nora.NodeClassification(oracle.return_type, oracle.classes, kind, **mode)
    decoder = {} if oracle.decoder is None else {"decoder": copy.deepcopy(oracle.decoder)}
    kinds = oracle.kinds or None
    return nora.LinkPrediction(
        oracle.pairs, return_type=oracle.return_type, node_types=kinds, **decoder
    )


def _guarded(truth: Truth, outcome: Outcome, what: str, ask: Any) -> None:
    """Ask, and put what is raised or warned of into the outcome."""
    with warnings.catch_warnings(record=True) as received:
        warnings.simplefilter("always")
        try:
            ask()
        except Exception as error:
            outcome.worsen(_failure(error, truth), f"{what}: {_message_of(error)}")
            return
    if truth.error is not None and not truth.known:
        outcome.worsen("wrong", f"{what}: numbers, but the model raises {_message_of(truth.error)}")
    fell = [str(one.message) for one in received if FALLBACK in str(one.message)]
    if fell:
        # Falling back is decided before the first number; a step that fails later is a defect.
        broken = "a step failed" in fell[0]
        outcome.worsen("crash" if broken else "fallback", fell[0].partition(FALLBACK)[2])


def _failure(error: Exception, truth: Truth) -> str:
    """Whether an exception is a refusal, or the model's own, or a crash."""
    if truth.error is not None and (
        not truth.known or _message_of(error) == _message_of(truth.error)
    ):
        return "both-fail"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = Path(nora.__file__).parent in Path(frame.filename).parents
    on_purpose = linecache.getline(frame.filename, frame.lineno or 0).strip().startswith("raise")
    reply = len(str(error).split()) > 3
    refusal = isinstance(error, ValueError | TypeError) and ours and on_purpose and reply
    if refusal:
        return "refused" if truth.error is None else "both-fail"
    return "crash"


def _message_of(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200] if text else ''}"


def _compare(
    truth: Truth, removed: list[Any], found: float, true: float | None, outcome: Outcome, what: str
) -> None:
    """One number against the definition's."""
    if true is None:
        return
    error = abs(found - true)
    if math.isnan(true) or math.isinf(true):
        off = not (math.isnan(found) or found == true)
    else:
        off = not error <= truth.allowed()
    if off and not (math.isfinite(error) and truth.steep(removed, error)):
        outcome.worsen("wrong", f"{what} {removed}: {found:.9g}, by the definition {true:.9g}")


def _left_as_found(posed: Posed, model: Any, data: Any, dice: Tensor, outcome: Outcome) -> None:
    """The caller's model, graph and random state must be as they were."""
    pairs = zip(model.state_dict().items(), posed.model.state_dict().values(), strict=True)
    moved = [name for (name, now), was in pairs if not torch.equal(now, was)]
    modes = zip(model.modules(), posed.model.modules(), strict=True)
    moved += ["training"] * any(now.training != was.training for now, was in modes)
    for now, was in zip(data.stores, posed.data.stores, strict=True):
        if set(now.keys()) != set(was.keys()):
            moved.append(f"keys of data: {sorted(set(now.keys()) ^ set(was.keys()))}")
            continue
        moved += [
            f"data.{key}"
            for key, value in was.items()
            if isinstance(value, Tensor)
            and not torch.equal(now[key].nan_to_num(), value.nan_to_num())
        ]
    moved += ["random state"] * (not torch.equal(dice, torch.get_rng_state()))
    if moved:
        outcome.worsen("wrong", f"not left as found: {', '.join(moved[:4])}")
