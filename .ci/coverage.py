"""What the tests do not reach: the total, and the ten files with the lowest share of lines and branches.

    make coverage            # runs all tests, then this

Reads the data that `pytest --cov` has left.
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


def main() -> None:
    """Print the total and the lowest files."""
    found = summary()
    total = found["totals"]
    print(
        f"{total['percent_covered']:.1f} % of {total['num_statements']:,} lines and "
        f"{total['num_branches']:,} branches"
    )
    files = [
        (about["summary"]["percent_covered"], name, about["missing_lines"])
        for name, about in found["files"].items()
    ]
    for percent, name, missing in sorted(files)[:SHOWN]:
        lines = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        print(f"{percent:6.1f} %  {name}  lines {lines or '–'}")


if __name__ == "__main__":
    main()
