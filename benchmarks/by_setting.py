"""Benchmarks of several settings: some of them by name, each written as it is done."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def run_settings(
    script: str,
    about: str | None,
    settings: Iterable[str],
    measured: Callable[..., dict[str, Any]],
    **numbers: int,
) -> None:
    """Measure the settings asked for on the command line; those measured earlier stay in the file.

    Args:
        script: The benchmark's name, and that of its file of results.
        about: What its help says.
        settings: The names of all settings.
        measured: From a setting's name and the numbers to its row.
        **numbers: Options that are numbers, with their defaults.
    """
    names = list(settings)
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path, default=RESULTS / f"{script}.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    given = {name: getattr(arguments, name) for name in numbers}
    results = json.loads(arguments.out.read_text())["settings"] if arguments.out.exists() else {}
    chosen = [name for name in names if any(name.startswith(prefix) for prefix in arguments.only)]
    if not chosen:
        sys.exit(f"no such setting; there are: {', '.join(names)}")
    for name in chosen:
        results[name] = measured(name, **given)
        told = {
            "command": " ".join(
                [f"python benchmarks/{script}.py", *(f"--{key} {n}" for key, n in given.items())]
            ),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cores": os.cpu_count(),
            "settings": dict(sorted(results.items())),
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(told, indent=1) + "\n")
