"""`python -m soak`: rough use at random, counted; status 1 when anything was lost, wrong, hung or crashed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import nora
from nora.cli import app
from nora.results import checkpoint
from soak.child import End, ended, start
from soak.errands import (
    ERRANDS,
    Errand,
    finished_parts,
    inputs,
    left_over,
    make_source,
)

KILLED = ("run", "train", "rank", "tune", "reproduce")
# Finished nodes are otherwise on disk within ten seconds, which is longer than these errands take.
checkpoint.SECONDS_PER_SHARD = 0.005


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long at most")
    parser.add_argument("--kills", type=int, help="so many kills, and no other mishaps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file with the counts")
    return parser.parse_args(arguments)


class Soak:
    """Places in a folder of their own, what has come of them, and what should have."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.right: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        make_source(folder)
        for errand in ERRANDS:
            # Here once, so that children find everything imported; then as they do it.
            place = self._place(errand, f"first-{errand.name}")
            CliRunner().invoke(app, [str(arg) for arg in errand.command(place)])
            place = self._place(errand, f"right-{errand.name}")
            end = self._whole(errand, place)
            if end.status != 0:
                raise RuntimeError(f"{errand.name} does not work at all: {end.told}")
            self.right[errand.name] = errand.facts(place)
            self.seconds[errand.name] = end.seconds

    def _place(self, errand: Errand, name: str) -> Path:
        place = self.folder / name
        place.mkdir()
        errand.prepare(self.folder, place)
        return place

    def _whole(self, errand: Errand, place: Path, *more: str) -> End:
        log = place.with_suffix(".log")
        return ended(start([*errand.command(place), *more], log, None, None), log)

    def trial(self, number: int, errand: Errand, mishap: str) -> None:
        """One command with a mishap, then the same again, which must end well."""
        place, log = self._place(errand, f"{number}"), self.folder / f"{number}.log"
        given, draw = inputs(place), self.random
        label = f"{number} {errand.name} {mishap}"
        limit = draw.choice([0, 200, 2000, 20_000]) if mishap == "full disk" else None
        clock = draw.uniform(-1e8, 1e8) if mishap == "clock" else None
        moment = draw.uniform(0, 1.1) * self.seconds[errand.name] if mishap == "kill" else None
        command = errand.command(place)
        children = [start(command, log, limit, clock)]
        if mishap == "two at once":
            second = place.with_suffix(".second.log")
            time.sleep(draw.uniform(0, 0.5) * self.seconds[errand.name])
            children.append(start(command, second, None, None))
            self._judge(label, ended(children.pop(), second))
        first = ended(children.pop(), log, moment)
        self._judge(label, first)
        self.counts[f"{mishap}: {'ended before it' if first.status == 0 else 'hit'}"] += 1
        done, kept = errand.result(place).exists(), finished_parts(place)
        if done:
            self._check(label, "what is there is whole", errand, place)
        again = self._whole(errand, place, *(["--force"] if done else []))
        if again.status != 0 and not done and "--force" in again.told:
            # Killed between two files of one result: the message says how to go on.
            self.counts["second start asked for --force"] += 1
            again = self._whole(errand, place, "--force")
        self._judge(label + ", again", again)
        if again.status != 0:
            self.problems.append(f"{label}: a second start failed: {again.told[-300:]}")
        else:
            self._check(label, "a second start ends well", errand, place)
        if lost := {
            file for file, digest in kept.items() if finished_parts(place).get(file) != digest
        }:
            self.problems.append(f"{label}: finished work is gone: {sorted(lost)[:3]}")
        if {file: digest for file, digest in inputs(place).items() if file in given} != given:
            self.problems.append(f"{label}: an input has changed")
        self.counts["trials"] += 1
        self.counts["left half written, under names nobody reads"] += left_over(place)
        shutil.rmtree(place)

    def _judge(self, label: str, end: End) -> None:
        if end.status == -1:
            self.problems.append(f"{label}: hung")
        elif end.status not in (None, 0, 2) or "Traceback" in end.told:
            self.problems.append(f"{label}: crashed ({end.status}): {end.told[-500:]}")
        elif end.status == 2:
            self.counts["refused in one line"] += 1
            if end.told.count("error: ") != 1:
                self.problems.append(f"{label}: refused in other words: {end.told[-300:]}")

    def _check(self, label: str, what: str, errand: Errand, place: Path) -> None:
        try:
            facts = errand.facts(place)
        except Exception as error:
            self.problems.append(f"{label}: {what}? {error!r}")
            return
        if facts != self.right[errand.name]:
            self.problems.append(f"{label}: {what}, but the numbers differ")
        else:
            self.counts[what] += 1


def main(arguments: list[str] | None = None) -> int:
    """Do all that, print the counts, and tell whether all is well."""
    given = parsed(arguments)
    warnings.simplefilter("ignore")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        soak = Soak(Path(folder), given.seed)
        number = 0
        most = float("inf") if given.kills is None else given.kills
        # A few in any case: on a busy machine the preparations alone may take the time.
        while number < most and (number < 3 or time.monotonic() - begun < 60 * given.minutes):
            if given.kills is not None:
                name, mishap = KILLED[number % len(KILLED)], "kill"
                errand = next(one for one in ERRANDS if one.name == name)
            else:
                errand = soak.random.choice(ERRANDS)
                mishap = soak.random.choice(["kill", "full disk", "clock", "two at once", "none"])
            soak.trial(number, errand, mishap)
            number += 1
    asked = f"--minutes {given.minutes:g}" + (f" --kills {given.kills}" if given.kills else "")
    document = {
        "command": f"python -m soak {asked} --seed {given.seed}",
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "nora": nora.__version__,
        "python": platform.python_version(),
        "seconds": {name: round(value, 2) for name, value in soak.seconds.items()},
        "counts": dict(sorted(soak.counts.items())),
        "problems": soak.problems,
    }
    text = json.dumps(document, indent=1)
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n", encoding="utf-8")
    return bool(soak.problems)


if __name__ == "__main__":
    raise SystemExit(main())
