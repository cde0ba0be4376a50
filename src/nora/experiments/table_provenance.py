"""How a table was made: the command, the commit of the code, the seconds of work, and the machine."""

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
from nora.experiments.cache import Step
from nora.experiments.lab import Lab


def provenance(lab: Lab, plan: Sequence[Step[Any]], command: str) -> dict[str, Any]:
    """How a result was made.

    The commit is that of the code that wrote the table; cached results were made by the same code as far as
    they depend on it (`nora.experiments.sources`), perhaps before that commit. Seconds are those of all
    steps, cached or not: training, truth, tuning and scoring, each as it was timed when it was done.
    """
    seconds = {step.path: step.took() for step in plan}
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


def commit() -> str | None:
    """The commit of this code, with `+` where it was changed since; None outside of a checkout.

    >>> commit() is None or len(commit()) > 6
    True
    """
    here = Path(nora.__file__).parent
    if not (here.parents[1] / ".git").exists():
        return None
    try:
        found = _git(here, "rev-parse", "--short=12", "HEAD").strip()
        changed = _git(here, "status", "--porcelain", "--", ".").strip()
    except (OSError, subprocess.CalledProcessError):  # no git, or a repository of another user
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


def provenance_text(about: dict[str, Any]) -> str:
    """The same in one sentence, and one more for what was taken over from earlier reports.

    >>> provenance_text({"command": "nora reproduce skew", "seconds": 75.0, "commit": "ab12", "nora": "1.0",
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
    if about["seconds"] is not None:  # the first versions did not record them
        facts.append(f"{about['seconds']:,.0f} s of work")
    if size := about["machine"]:
        memory = f" and {size['memory_gb']} GB" if size["memory_gb"] else ""
        facts.append(f"{size['cores']} cores{memory}")
    return f"`{about['command']}` ({', '.join(facts)})"
