"""What came of all trials, in a file that every trial adds to."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nora


def commit() -> str:
    """The commit that is tried, with "+" where code has changed since; "" without a repository."""
    root = Path(__file__).parents[2]

    def git(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=False)

    changed = git("diff", "--quiet", "HEAD", "--", "src", "tests").returncode
    return git("rev-parse", "--short", "HEAD").stdout.strip() + "+" * (changed == 1)


@dataclass
class Counts:
    """All that is known so far.

    Attributes:
        command: What was typed.
        out: The file it is kept in, if any.
        trials: How many there were.
        minutes: How long they took, over all starts.
        counts: How often what was seen.
        problems: What should not have been.
        starts: Every start: of which commit, at which trial.
    """

    command: str
    out: Path | None
    trials: int = 0
    minutes: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    starts: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begun = time.monotonic()
        if self.out is not None and self.out.exists():
            known = json.loads(self.out.read_text(encoding="utf-8"))
            if known["command"] != self.command:
                raise SystemExit(
                    f"{self.out} is of another command, {known['command']!r}: remove it"
                )
            self.trials, self.minutes = known["trials"], known["minutes"]
            self.counts.update(known["counts"])
            self.problems, self.starts = known["problems"], known["starts"]
        self._before = self.minutes

    def begin(self) -> None:
        """Note that another start adds to it."""
        self.starts.append(
            {
                "commit": commit(),
                "nora": nora.__version__,
                "python": platform.python_version(),
                "first_trial": self.trials,
            }
        )

    def keep(self) -> str:
        """Write all of it, and return what was written."""
        self.minutes = self._before + (time.monotonic() - self._begun) / 60
        document = {
            "command": self.command,
            "trials": self.trials,
            "minutes": round(self.minutes, 1),
            "counts": dict(sorted(self.counts.items())),
            "problems": self.problems,
            "starts": self.starts,
        }
        text = json.dumps(document, indent=1)
        if self.out is not None:
            fresh = self.out.with_name(f".{self.out.name}.new")
            fresh.write_text(text + "\n", encoding="utf-8")
            fresh.replace(self.out)
        return text
