"""`python -m soak`: rough use at random, counted; status 1 when anything was lost, wrong, hung or crashed."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from nora.cli import app
from nora.results import checkpoint
from soak.child import End, ended, start
from soak.counts import Counts
from soak.errands import ERRANDS, Errand, finished_parts, inputs, left_over, make_source

KILLED = ("run", "train", "rank", "tune", "reproduce")
MISHAPS = ("kill", "full disk", "clock", "two at once", "none")
# Finished nodes are otherwise on disk within ten seconds, which is longer than these errands take.
checkpoint.SECONDS_PER_SHARD = 0.005


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long, if not by --kills")
    parser.add_argument("--kills", type=int, help="until so many kills have hit; no other mishaps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, help="a JSON file with the counts, which a later start goes on with"
    )
    parser.add_argument("--batch", type=int, help="stop after so many trials, to go on later")
    return parser.parse_args(arguments)


class Soak:
    """Places in a folder of their own, what has come of them, and what should have."""

    def __init__(self, folder: Path, found: Counts) -> None:
        self.folder, self.found = folder, found
        self.right: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        make_source(folder)

    def _undisturbed(self, errand: Errand) -> None:
        """What comes of a command, and how long it takes; done before its first mishap."""
        # Here once, so that children find everything imported; then as they do it.
        place = self._place(errand, f"first-{errand.name}")
        CliRunner().invoke(app, [str(arg) for arg in errand.command(place)])
        place = self._place(errand, f"right-{errand.name}")
        end = self._whole(errand, place)
        if end.status != 0:
            raise RuntimeError(f"{errand.name} does not work at all: {end.reply}")
        self.right[errand.name] = errand.facts(place)
        self.seconds[errand.name] = end.seconds

    def _place(self, errand: Errand, name: str) -> Path:
        place = self.folder / name
        place.mkdir()
        errand.prepare(self.folder, place)
        return place

    def _whole(self, errand: Errand, place: Path, *more: str) -> End:
        return ended(start([*errand.command(place), *more]))

    def trial(self, errand: Errand, mishap: str, draw: random.Random) -> None:
        """One command with a mishap, then the same again, which must end well."""
        found = self.found
        if errand.name not in self.right:
            self._undisturbed(errand)
        place = self._place(errand, f"{found.trials}")
        given, usual = inputs(place), self.seconds[errand.name]
        label = f"{found.trials} {errand.name} {mishap}"
        limit = draw.choice([0, 200, 2000, 20_000]) if mishap == "full disk" else None
        clock = draw.uniform(-1e8, 1e8) if mishap == "clock" else None
        moment = draw.uniform(0, 1.1) * usual if mishap == "kill" else None
        command = errand.command(place)
        child = start(command, limit, clock)
        if mishap == "two at once":
            time.sleep(draw.uniform(0, 0.5) * usual)
            self._judge(label, ended(start(command)))
        first = ended(child, moment)
        self._judge(label, first)
        if mishap == "kill":
            hit = first.status is None
            found.counts["kill -9: hit" if hit else "kill -9: ended before it"] += 1
            found.counts[f"kill -9 of {errand.name}"] += hit
        else:
            found.counts[f"{mishap}: {'ended well' if first.status == 0 else 'refused'}"] += 1
        done, kept = errand.result(place).exists(), finished_parts(place)
        if done:
            self._check(label, "what is there is whole", errand, place)
        again = self._whole(errand, place, *(["--force"] if done else []))
        if again.status != 0 and not done and "--force" in again.reply:
            # Killed between two files of one result: the message says how to go on.
            found.counts["second start asked for --force"] += 1
            again = self._whole(errand, place, "--force")
        self._judge(label + ", again", again)
        if again.status != 0:
            found.problems.append(f"{label}: a second start failed: {again.reply[-300:]}")
        else:
            self._check(label, "a second start ends well", errand, place)
        if lost := {
            file for file, digest in kept.items() if finished_parts(place).get(file) != digest
        }:
            found.problems.append(f"{label}: finished work is gone: {sorted(lost)[:3]}")
        if {file: digest for file, digest in inputs(place).items() if file in given} != given:
            found.problems.append(f"{label}: an input has changed")
        found.counts["left half written, under names that are not read"] += left_over(place)
        found.trials += 1
        shutil.rmtree(place)

    def _judge(self, label: str, end: End) -> None:
        problems = self.found.problems
        if end.status == -1:
            problems.append(f"{label}: hung")
        elif end.status not in (None, 0, 2) or "Traceback" in end.reply:
            problems.append(f"{label}: crashed ({end.status}): {end.reply[-500:]}")
        elif end.status == 2:
            self.found.counts["refused in one line"] += 1
            if end.reply.count("error: ") != 1:
                problems.append(f"{label}: refused in other words: {end.reply[-300:]}")

    def _check(self, label: str, what: str, errand: Errand, place: Path) -> None:
        try:
            facts = errand.facts(place)
        except Exception as error:
            self.found.problems.append(f"{label}: {what}? {error!r}")
            return
        if facts != self.right[errand.name]:
            self.found.problems.append(f"{label}: {what}, but the numbers differ")
        else:
            self.found.counts[what] += 1


def main(arguments: list[str] | None = None) -> int:
    """Do all that, print the counts, and tell whether all is well."""
    given = parsed(arguments)
    warnings.simplefilter("ignore")
    asked = f"--kills {given.kills}" if given.kills else f"--minutes {given.minutes:g}"
    where = f" --out {given.out}" if given.out else ""
    found = Counts(f"python -m soak {asked} --seed {given.seed}{where}", given.out)
    first = found.trials

    def goes_on() -> bool:
        if given.batch is not None and found.trials - first >= given.batch:
            return False
        if given.kills:
            return found.counts["kill -9: hit"] < given.kills
        # A few in any case: on a busy machine the preparations alone may take the time.
        return found.trials < 3 or found.minutes < given.minutes

    if not goes_on():
        print(found.keep())
        return bool(found.problems)
    found.begin()
    errands = tuple(one for one in ERRANDS if not given.kills or one.name in KILLED)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        soak = Soak(Path(folder), found)
        while goes_on():
            draw = random.Random(f"{given.seed} {found.trials}")
            # Kills take turns, so that every command gets its share of them.
            errand = errands[found.trials % len(errands)] if given.kills else draw.choice(errands)
            soak.trial(errand, "kill" if given.kills else draw.choice(MISHAPS), draw)
            found.keep()
    print(found.keep())
    return bool(found.problems)


if __name__ == "__main__":
    raise SystemExit(main())
