"""What is prepared is that of before: has the model, the graph or the task changed since?"""

from __future__ import annotations

from typing import Any

from nora.engine.lower.inputs import tensors_of
from nora.model import Problem
from nora.model.fingerprint import fingerprint


class Stamp:
    """Digests of all that an answer depends on, piece by piece; what cannot be read is left out.

    Args:
        problem: The question as it was given.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._then = self._content()

    def _content(self) -> dict[str, Any]:
        return fingerprint(self._problem, "", {}, key="session")

    def check(self) -> None:
        """Raise when the model, the graph or the task is not what it was."""
        now = self._content()
        changed = [piece for piece in ("model", "graph", "task") if now[piece] != self._then[piece]]
        if changed:
            raise RuntimeError(
                f"the {' and the '.join(changed)} has changed since this session was made, and what is "
                "prepared is that of before: make a new nora.Session(model, data)"
            )


class Untouched(Stamp):
    """The same for a graph that is mapped from a folder: it is not read again for every question.

    Whether one of its tensors was written to is told by torch, which counts that.
    """

    def _content(self) -> dict[str, Any]:
        found = fingerprint(self._problem, "", {}, key="session", graph="in a folder")
        tensors = tensors_of(self._problem.data)
        found["graph"] = [(name, id(one), one._version) for name, one in tensors.items()]
        return found
