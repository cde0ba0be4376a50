"""What the tests do not reach: the total, and the ten files with the lowest share of lines and branches.

    make coverage            # runs all tests, then this

Reads the data that `pytest --cov` has left, and writes `.ci/coverage.md`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SHOWN = 10


def summary() -> dict:
    """Coverage's own report, as data."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        subprocess.run(
            [sys.executable, "-m", "coverage", "json", "--quiet", "-o", path], check=True
        )
        return json.loads(path.read_text(encoding="utf-8"))


def told(found: dict) -> list[str]:
    """The total, and a row of a table for each of the lowest files."""
    total = found["totals"]
    lines = [
        f"{total['percent_covered']:.1f} % of {total['num_statements']:,} lines and "
        f"{total['num_branches']:,} branches",
        "",
        "| reached | file | lines that are not |",
        "|---:|---|---|",
    ]
    files = [
        (about["summary"]["percent_covered"], name, about["missing_lines"])
        for name, about in found["files"].items()
    ]
    for percent, name, missing in sorted(files)[:SHOWN]:
        not_reached = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        lines.append(f"| {percent:.1f} % | `{name}` | {not_reached or '–'} |")
    return lines


def main() -> None:
    """Print the total and the lowest files, and keep them beside this file."""
    lines = told(summary())
    print("\n".join(lines))
    head = ["# What the tests reach", "", "Written by `make coverage`; lowest files first.", ""]
    text = "\n".join([*head, *lines]) + "\n"
    Path(__file__).with_name("coverage.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
