"""Outcomes per seed, frozen: a change of the engine must not make any of them worse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

# From best to worst. A model that fails in PyG too says nothing about the engine.
LETTERS = {
    "equal": "e",
    "both-fail": "b",
    "fallback": "f",
    "refused": "r",
    "crash": "c",
    "wrong": "w",
}
RANK = {letter: rank for rank, letter in enumerate(LETTERS.values())}


def write(path: Path, kind: str, outcomes: Mapping[int, str], versions: Mapping[str, str]) -> None:
    """Write one letter per seed; seeds must be consecutive."""
    first, last = min(outcomes), max(outcomes)
    letters = "".join(LETTERS[outcomes[seed]] for seed in range(first, last + 1))
    record = {
        "kind": kind,
        "first_seed": first,
        "letters": {letter: name for name, letter in LETTERS.items()},
        "versions": dict(versions),
        "outcomes": [letters[start : start + 100] for start in range(0, len(letters), 100)],
    }
    path.write_text(json.dumps(record, indent=1) + "\n")


def worse(path: Path, kind: str, outcomes: Mapping[int, str]) -> list[str]:
    """One line for each seed whose outcome is worse than in the file at `path`."""
    record = json.loads(path.read_text())
    if record["kind"] != kind:
        raise ValueError(f"{path} has trials of kind {record['kind']}, not {kind}")
    before = dict(enumerate("".join(record["outcomes"]), record["first_seed"]))
    names = record["letters"]
    return [
        f"seed {seed}: {names[before[seed]]} before, {outcomes[seed]} now"
        for seed in sorted(outcomes.keys() & before.keys())
        if RANK[LETTERS[outcomes[seed]]] > RANK[before[seed]]
    ]
