"""Count words that make readers stumble; fail where a package or page has more of them than before.

    python .ci/words.py           # compare with words.json
    python .ci/words.py --write   # after a clean-up: lower the counts

Counted are code, comments, messages and pages: identifiers are words, too. `words.json` has the counts that
remain, by package; a package that is not listed must have none.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNTS = Path(__file__).with_suffix(".json")
# What to write instead: "reports", "shows", "lists"; "again"; "no node"; "default: 60"; "is NaN", "invalid".
WORDS = re.compile(
    r"(?<![a-z])(?:told|anew|nobody|somebody|whoever|unsaid|unasked|heard|alike)(?![a-z])"
    r"|\b(?:is|are|be|was|were|been) said\b|\bsaid of\b"
    r"|(?<!there )\b(?:is|are) no (?!longer\b|more\b)(?=\w)"
    r"|\bwhat is known of\b|\b(?:is|are) taken for\b|\bdone again\b|\bto be had\b|\bfor quantities\b",
    re.IGNORECASE,
)
PLACES = (
    "src/nora/**/*.py",
    "web/src/**/*.js",
    "docs/*.md",
    "docs/pictures/*.py",
    "docs/hooks/*.py",
    "examples/*.py",
    "tests/**/*.py",
    "benchmarks/*.md",
    "results/**/*.md",
    "*.md",
)


def package(path: str) -> str:
    """What a file is counted with: its package of `nora`, its folder, or itself at the top."""
    parts = path.split("/")
    depth = 3 if parts[0] == "src" and len(parts) > 3 else 1 if len(parts) > 1 else 0
    return "/".join(parts[:depth]) or path


def found(text: str) -> list[str]:
    """The words in a text, wherever its lines end."""
    return [" ".join(one.split()).lower() for one in WORDS.findall(" ".join(text.split()))]


def counts() -> dict[str, int]:
    """How many there are, by package."""
    total: Counter[str] = Counter()
    for place in PLACES:
        for path in sorted(ROOT.glob(place)):
            name = path.relative_to(ROOT).as_posix()
            total[package(name)] += len(found(path.read_text(encoding="utf-8")))
    return {name: count for name, count in sorted(total.items()) if count}


def main(arguments: list[str]) -> int:
    """Exit status: 1 where there are more than before."""
    now = counts()
    if "--write" in arguments:
        COUNTS.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return 0
    allowed = json.loads(COUNTS.read_text(encoding="utf-8"))
    for name in sorted(now.keys() | allowed.keys()):
        here, before = now.get(name, 0), allowed.get(name, 0)
        if here > before:
            print(f"{name}: {here} words of {COUNTS.with_suffix('.py').name}, {before} allowed:")
            for place in PLACES:
                for path in sorted(ROOT.glob(place)):
                    where = path.relative_to(ROOT).as_posix()
                    if package(where) == name and (words := found(path.read_text("utf-8"))):
                        print(f"  {where}: {', '.join(words)}")
        elif here < before:
            print(f"{name}: {here} left of {before}; python .ci/words.py --write lowers the count")
    return int(any(here > allowed.get(name, 0) for name, here in now.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
