"""The wheel in fresh environments: every Python that is here, with the lowest and the newest dependencies.

    python .ci/matrix.py                      # all of it, and docs/tested-versions.md anew
    python .ci/matrix.py --only 3.11-lowest   # one environment anew, and its row

"Lowest" are the lower bounds of `pyproject.toml` (or the next version that has a wheel for that Python),
"newest" what is newest today. Each environment gets the wheel, no sources, then makes a report from files and
runs the tests below. Environments are made by `uv`, which shares files between them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tested-versions.md"
PYTHONS = ("3.11", "3.12", "3.13")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
TESTS = (
    "tests/engine/test_behaviour.py",
    "tests/engine/test_relational.py",
    "tests/engine/test_rules.py",
    "tests/engine/test_without_numba.py",
    "tests/ingest/test_edge_list.py",
    "tests/models/test_models.py",
    "tests/model/test_calling.py",
    "tests/model/test_fingerprint.py",
    "tests/model/test_hetero.py",
    "tests/model/test_removal.py",
    "tests/questions/test_explainer.py",
    "tests/questions/test_questions.py",
    "tests/results/test_export.py",
)
TOLD = (
    "torch",
    "torch-geometric",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "numba",
    "networkx",
    "matplotlib",
)


def run(*command: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    """A command's output; what it said is shown where it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-4000:])
    return done


def interpreter(python: str) -> Path | None:
    """Where a version of Python is: on the path, or among pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    named = [shutil.which(f"python{python}"), *sorted(root.glob(f"versions/{python}.*/bin/python"))]
    for path in filter(None, named):
        # pyenv puts a name on the path for versions it then does not want to run.
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return Path(path)
    return None


def install(folder: Path, python: Path, resolution: str, wheel: Path) -> Path:
    """A fresh environment with the wheel and what it asks for; the path of its Python."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        raise SystemExit("no uv: pip install uv")
    run(uv, "venv", "--quiet", "--clear", "--python", python, folder)
    inside = folder / "bin" / "python"
    into = [uv, "pip", "install", "--quiet", "--python", inside]
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    # Only what is asked for directly is taken at its lowest, hence the list beside the wheel.
    run(*into, "--only-binary", ":all:", "--resolution", RESOLUTIONS[resolution], wheel, *asked)
    # What runs the tests is no dependency of ours, and comes as it is.
    run(*into, "pytest", "pytest-xdist", "hypothesis")
    return inside


def versions(inside: Path) -> dict[str, str]:
    """What was installed."""
    code = f"import json, importlib.metadata as m; print(json.dumps({{n: m.version(n) for n in {TOLD}}}))"
    return json.loads(run(inside, "-c", code).stdout)


def try_out(inside: Path, folder: Path, quick: bool, workers: int) -> str:
    """From files to a report, then the tests unless in a hurry; the last line that pytest says."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    nora, work = inside.parent / "nora", folder / "work"
    work.mkdir(exist_ok=True)
    run(nora, "example", "files", cwd=work, env=environment)
    files = ["--edges", "files/edges.csv", "--labels", "files/labels.csv", "--out", "results"]
    said = run(nora, "run", *files, "--force", cwd=work, env=environment).stderr
    if "deprecated" in said:
        raise RuntimeError(f"nora run shows what is no user's business:\n{said}")
    if not (work / "results" / "report.html").is_file():
        raise RuntimeError("nora run wrote no report")
    if quick:
        return "not run; a report was made"
    # Away from src/, so that the wheel is what is tested.
    tests = [ROOT / test for test in TESTS]
    quiet = ["-q", "-p", "no:cacheprovider", "-n", str(workers)]
    said = run(inside, "-m", "pytest", *quiet, *tests, cwd=work, env=environment).stdout
    return said.strip().splitlines()[-1].strip("= ").partition(" in ")[0]


def write_page(rows: dict[str, dict[str, str]]) -> None:
    """The table of what was installed and what the tests said, and in words what has no column in it."""
    # How often libraries warn each other's programmers says nothing of us.
    tried = [
        {**row, "tests": re.sub(r", \d+ warnings?", "", row["tests"])}
        for row in rows.values()
        if "tests" in row
    ]
    head = ["", *(f"{row['python']} {row['which']}" for row in tried)]
    lines = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head))]
    for name in (*TOLD, "tests"):
        lines.append(f"| {' | '.join((name, *(row[name] for row in tried)))} |")
    lines += [
        f"\nPython {row['python']} with the {row['which']} dependencies: {row['why']}."
        for row in rows.values()
        if "tests" not in row
    ]
    text = f"""# Tested versions

The wheel was installed without the sources into fresh environments: for every Python, once with the
lowest dependencies that `pyproject.toml` allows (or the next that have a wheel for that Python), and once
with the newest. In each environment, `nora run` made a report from files. Then, unless the last row says
otherwise, these tests ran: reading files, removals, graphs with node types, models, calling, fingerprints,
the engine's rules, working without `numba`, PyG's `Explainer`, the questions and exports.
Only {platform.system()} on {platform.machine()} was tested. `make matrix` writes this page;
`constraints.txt` lists the versions that all tests run with.

{chr(10).join(lines)}
"""
    PAGE.write_text(text, encoding="utf-8")


def main() -> int:
    """One environment after the other; 1 if any failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", help="e.g. 3.11-lowest; may be repeated")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "matrix")
    parser.add_argument(
        "--install-only", action="store_true", help="make the environments, run nothing"
    )
    parser.add_argument("--quick", action="store_true", help="make a report, run no tests")
    parser.add_argument("--workers", type=int, default=2, help="processes that run the tests")
    given = parser.parse_args()
    wheel = max((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime, default=None)
    if wheel is None:
        raise SystemExit("no wheel: make dist")
    every = [f"{python}-{which}" for python in PYTHONS for which in RESOLUTIONS]
    failed = []
    for name in given.only or every:
        python, _, which = name.partition("-")
        folder = given.folder.resolve() / name
        row, start = {"python": python, "which": which}, time.perf_counter()
        found = interpreter(python)
        if found is None:
            row["why"] = "not tried, no such Python was there"
        else:
            try:
                inside = install(folder, found, which, wheel.resolve())
                row |= versions(inside)
                if not given.install_only:
                    row["tests"] = try_out(inside, folder, given.quick, given.workers)
            except RuntimeError as error:
                failed.append(name)
                row["why"] = "failed"
                print(f"{name}: failed\n{error}", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        if not given.install_only:
            (folder / "row.json").write_text(json.dumps(row), encoding="utf-8")
        print(f"{name}: {row} in {time.perf_counter() - start:.0f} s", flush=True)
    # Of every environment that there is, also of earlier calls.
    rows: dict[str, dict[str, str]] = {}
    for name in every:
        python, _, which = name.partition("-")
        path = given.folder / name / "row.json"
        rows[name] = (
            json.loads(path.read_text(encoding="utf-8"))
            if path.is_file()
            else {"python": python, "which": which, "why": "not tried"}
        )
    if not given.install_only:
        write_page(rows)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
