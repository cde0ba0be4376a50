"""A plan's steps in order: what each is given, what is handed on, and what nobody reads any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nora.engine.changed import Changed
from nora.engine.sampling import folded, unweighted
from nora.engine.steps.following import Following, following
from nora.engine.steps.mixers import mixers
from nora.engine.steps.mixture import Mixer, Mixture
from nora.engine.steps.moves import really_changed
from nora.engine.steps.step import Chunk, Step, Value


@dataclass(frozen=True, eq=False)
class Course:
    """How chunks of removals go through the steps.

    Attributes:
        steps: The steps.
        output: What they make.
        following: Row-wise steps that are done with the one before them, by its id.
        mixers: Steps whose output moves as a whole, by their id.
        finished: For every step, the values nobody reads after it.
    """

    steps: Sequence[Step]
    output: Value
    following: dict[int, Following]
    mixers: dict[int, Mixer]
    finished: list[list[int]]

    @staticmethod
    def of(steps: Sequence[Step], output: Value) -> Course:
        """Look at the steps once, for all chunks."""
        last = {id(value): at for at, step in enumerate(steps) for value in step.inputs}
        last[id(output)] = len(steps)
        ends: list[list[int]] = [[] for _ in range(len(steps) + 1)]
        for key, at in last.items():
            ends[at].append(key)
        return Course(steps, output, following(steps, output), mixers(steps), ends[:-1])

    def run(
        self,
        chunk: Chunk,
        given: dict[int, Changed],
        edited: bool = False,
        seen: dict[int, Changed] | None = None,
    ) -> Changed:
        """Changed rows of the output.

        Args:
            chunk: The removals.
            given: Rows that are known to change, by the id of their value.
            edited: Whether what no removal changes may have changed.
            seen: Filled with the changed rows of every value.
        """
        nothing = chunk.nothing()
        rows: dict[int, Changed | Mixture] = dict(given)

        def spread(value: Value) -> Changed:
            """A value's changed rows; of one that moves as a whole all, made once."""
            found = rows.get(id(value), nothing)
            if isinstance(found, Mixture):
                found = all_rows[id(value)] = all_rows.get(id(value)) or found.spread(chunk)
            return found

        all_rows: dict[int, Changed] = {}
        done: set[int] = set()
        for step, finished in zip(self.steps, self.finished, strict=True):
            if id(step) not in done and (edited or not step.output.static):
                inputs = [rows.get(id(value), nothing) for value in step.inputs]
                if seen is None and (mixture := self._mixture(chunk, step, inputs)):
                    rows[id(step.output)] = mixture
                else:
                    then = self.following.get(id(step)) if seen is None else None
                    values, made = _made(chunk, step, [spread(v) for v in step.inputs], then)
                    done |= {id(one) for one in (then.steps if then else ())}
                    for value, changed in zip(values, made, strict=True):
                        rows[id(value)] = changed
                        if seen is not None:
                            seen[id(value)] = changed
            for key in finished:
                rows.pop(key, None)
                all_rows.pop(key, None)
        return spread(self.output)

    def _mixture(
        self, chunk: Chunk, step: Step, inputs: Sequence[Changed | Mixture]
    ) -> Mixture | None:
        """The step's output as one that moves as a whole, where it does."""
        mixer = self.mixers.get(id(step))
        if mixer is None or not mixer.can(chunk):
            return None
        mixed = [
            c if isinstance(c, Mixture) else Mixture.of_changed(one, folded(c, one.value))
            for one, c in zip(mixer.inputs, inputs, strict=True)
        ]
        made = mixer.mixed(chunk, mixed)
        chunk.tally.bytes += made.apart.rows.nbytes + 4 * made.apart.node.nbytes
        return made


def _made(
    chunk: Chunk, step: Step, inputs: Sequence[Changed], then: Following | None
) -> tuple[Sequence[Value], Sequence[Changed]]:
    """What a step makes, or what follows it makes of that: the values, and their changed rows."""
    if chunk.draws is not None and not step.samples:
        inputs = list(unweighted(step, inputs))
    if then is None:
        values: Sequence[Value] = (step.output,)
        made: Sequence[Changed] = [step.changed(chunk, inputs)]
    else:
        values = then.made
        made = step.passed_on(chunk, inputs, then) or [chunk.nothing()] * len(values)
    made = [
        really_changed(value, changed) if value.space.global_ and len(changed) else changed
        for value, changed in zip(values, made, strict=True)
    ]
    for changed in made:
        chunk.tally.bytes += changed.rows.nbytes + 4 * changed.node.nbytes
    return values, made
