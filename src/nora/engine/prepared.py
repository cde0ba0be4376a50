"""Values that are prepared once for a model and a graph, and shared by all questions."""

from __future__ import annotations

from typing import Any

from nora.engine import verify as verification
from nora.engine.engine import Engine
from nora.engine.exec.kernels.choice import BackendName, pick_backend
from nora.engine.store.array_store import ArrayStore
from nora.engine.trace.trace import Trace
from nora.engine.unsupported import UnsupportedError
from nora.engine.verify import is_worth_preparing, removals_to_verify, verify_engine
from nora.model import Problem


class Prepared:
    """The exact engine of one model and graph: made when it is first needed, then kept.

    Questions share it that differ in the nodes removed, the predictions and classes that count, or the
    known influences. Why a model cannot be followed is kept, too, so that this is found out once.

    Args:
        engine: An engine that is there already.
        facts: What comparing it with the definition has shown.

    Attributes:
        preparations: How often an engine was made: 0 or 1.
        array_store: Collects the arrays of an engine, to save them.
        first_trace: The trace of the first pass over a large graph, until an engine is made of it.
    """

    def __init__(self, engine: Engine | None = None, facts: dict[str, Any] | None = None) -> None:
        self.preparations = 0
        self.array_store: ArrayStore | None = None
        self.first_trace: Trace | None = None
        self._engine = engine
        self._refusal: UnsupportedError | None = None
        self._facts: dict[str, Any] = dict(facts or {})
        self._passed = self._expected = 0

    @property
    def ready(self) -> bool:
        """Whether asking costs nothing any more: the engine is there, or known not to be possible."""
        return self._engine is not None or self._refusal is not None

    @property
    def refusal(self) -> str:
        """Why the model cannot be followed; empty where it can, or before a first try."""
        return "" if self._refusal is None else str(self._refusal)

    def expect(self, removals: int) -> None:
        """At least so many more removals will be asked for, however few at a time.

        A caller that knows what will come announces it: a page of a thousand small questions is then worth an
        engine from the first one on.
        """
        self._expected = max(self._expected, removals)

    def pays(self, problem: Problem, removals: int) -> bool:
        """Whether so many removals more, and those that are expected, are worth an engine.

        Unexpected full passes of before count in full: once they have taken as long as preparing would,
        more of the same is to be expected.
        """
        coming = max(removals, self._expected) + self._passed / verification.PREPARING_SHARE
        return self.ready or is_worth_preparing(problem, coming)

    def count_passes(self, removals: int) -> None:
        """Note that so many removals get a full pass each; see `pays`."""
        self._passed += max(removals - self._expected, 0)
        self._expected = max(self._expected - removals, 0)

    def engine(self, problem: Problem, backend: BackendName = "auto", removals: int = 1) -> Engine:
        """The engine for this question.

        Raises:
            UnsupportedError: When the model cannot be followed, with the reason.
        """
        functions = pick_backend(backend, problem, removals)
        if self._refusal is not None:
            raise self._refusal
        if self._engine is None:
            self.preparations += 1
            try:
                self._engine = Engine.prepare(
                    problem, functions, self.array_store, self.first_trace, removals
                )
            except UnsupportedError as reason:
                self._refusal = reason
                raise
            finally:
                self.first_trace = None
        # The same question may come again, in parts: what was computed for it is kept.
        self._engine = self._engine.asked(problem, functions)
        return self._engine

    def verify(
        self, engine: Engine, count: int | None, seed: int, removals: int | None = None
    ) -> dict[str, Any]:
        """Compare removals with the definition, unless as many have been compared before.

        Args:
            engine: The engine.
            count: How many to compare, by full passes; None for what becomes so many removals.
            seed: Seed of those that are compared.
            removals: How many will be asked for; by default all of the question's.

        Raises:
            UnsupportedError: When they differ.
        """
        wanted = removals_to_verify(engine.problem, removals) if count is None else count
        if not self._facts or self._facts.get("verified", 0) < wanted:
            try:
                self._facts = verify_engine(engine, wanted, seed, fully=count is not None)
            except UnsupportedError as reason:
                self._refusal = reason
                raise
        return self._facts
