"""How a table came about: the command, the commit of the code, what the work took, and on what machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import nora
from nora import __version__
from nora.experiments.kept import kept
from nora.experiments.lab import Lab, Step
from nora.files import read_json
from nora.results.influence import Influence
from nora.tuning.tune import Tuned


def provenance(lab: Lab, plan: Sequence[Step], command: str) -> dict[str, Any]:
    """What a result says of itself.

    The commit is that of the code that wrote the table; parts that were found in the cache were made by
    the same code as far as it has a say in them (`nora.experiments.sources`), perhaps before that commit.
    Seconds are those of all parts, found or made: training, truth, tuning and scoring, each as it was timed
    when it was made.
    """
    seconds = {step.path: seconds_of(step.path) for step in plan}
    known = [one for one in seconds.values() if one is not None]
    return {
        "command": command,
        "profile": lab.profile.name,
        "protocol": lab.protocol.name,
        "cycles": lab.cycles,
        "labelled_share": lab.share,
        "seed": lab.seed,
        "nora": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit(),
        "seconds": round(sum(known, 0.0), 1),
        "machine": machine(),
    }


def seconds_of(path: Path) -> float | None:
    """What making a kept part took; None for parts that do not say, or are not there."""
    if not path.exists():
        return None
    match path.parent.name:
        case "runs":
            return float(read_json(path / "run.json")["metrics"]["seconds"])
        case "scores":
            return Influence.load(path).seconds
        case "tuned":
            return Tuned.load(path).seconds
        case "times":
            return (kept(path) or {}).get("measuring")
    return None


def commit() -> str | None:
    """The commit of this code, with `+` where it was changed since; None where it is no checkout.

    >>> commit() is None or len(commit()) > 6
    True
    """
    here = Path(nora.__file__).parent
    if not (here.parents[1] / ".git").exists():
        return None
    try:
        found = _git(here, "rev-parse", "--short=12", "HEAD").strip()
        changed = _git(here, "status", "--porcelain", "--", ".").strip()
    except (OSError, subprocess.CalledProcessError):  # no git, or not ours to ask
        return None
    return f"{found}+" if changed else found


def _git(folder: Path, *asked: str) -> str:
    found = subprocess.run(
        ["git", "-C", str(folder), *asked], check=True, capture_output=True, text=True
    )
    return found.stdout


def machine() -> dict[str, Any]:
    """Cores and memory of the machine, not what of them was used.

    >>> machine()["cores"] >= 1
    True
    """
    memory = None
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:  # not on Windows
        memory = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9)
    return {"cores": os.cpu_count(), "memory_gb": memory, "kind": platform.machine()}


def told(about: dict[str, Any]) -> str:
    """The same in one sentence, and one more for what was taken over from earlier reports.

    >>> told({"command": "nora reproduce skew", "seconds": 75.0, "commit": "ab12", "nora": "1.0",
    ...     "machine": {"cores": 2, "memory_gb": 24, "kind": "x86_64"}})
    'Made by `nora reproduce skew` (nora 1.0, commit ab12, 75 s of work, 2 cores and 24 GB).'
    """
    taken = [
        f" Taken over from an earlier report: {', '.join(one['cells'])}, made by {_made(one)}."
        for one in about.get("taken_over", ())
    ]
    return f"Made by {_made(about)}.{''.join(taken)}"


def _made(about: dict[str, Any]) -> str:
    facts = [f"nora {about['nora']}", f"commit {about['commit'] or 'unknown'}"]
    if about["seconds"] is not None:  # the first versions did not say
        facts.append(f"{about['seconds']:,.0f} s of work")
    if size := about["machine"]:
        memory = f" and {size['memory_gb']} GB" if size["memory_gb"] else ""
        facts.append(f"{size['cores']} cores{memory}")
    return f"`{about['command']}` ({', '.join(facts)})"
