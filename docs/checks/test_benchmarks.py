"""Figures in `benchmarks/README.md` are those that its commands measured."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RESULTS = BENCHMARKS / "results"
README = (BENCHMARKS / "README.md").read_text(encoding="utf-8")


def test_figures_of_files_were_measured_by_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    files = importlib.import_module("files")
    report = json.loads((BENCHMARKS / "results" / "files.json").read_text(encoding="utf-8"))
    assert set(report) <= {*files.PARTS, "command", "cores", "size"}
    for case in report["large"].values():
        assert "stopped" in case or set(case["seconds"]) == set(
            case["computing_seconds"] or case["seconds"]
        )
    monkeypatch.delitem(sys.modules, "files")


def test_figures_of_engines_on_disk_were_measured_by_its_command() -> None:
    measured = json.loads((BENCHMARKS / "results" / "prepared.json").read_text(encoding="utf-8"))
    reply = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    large, sharing = measured["large"], measured["sharing"]
    prepared, asked = large["prepared"], large["asked"]
    assert prepared["peak_bytes"] < 8e9
    assert asked["finite"] == 1000
    for figure in (
        f"{prepared['cpu']:.0f} CPU seconds",
        f"{prepared['peak_bytes'] / 1e9:.1f} GB resident",
        f"{prepared['engine_bytes'] / 1e9:.1f} GB on disk",
        f"{asked['opening']['cpu']:.1f} CPU seconds",
        f"{asked['peak_bytes'] / 1e9:.1f} GB resident",
        f"| {sharing['threads']['cpu']:.1f} |",
        *(
            f"{sharing[who]['cpu']:.1f} ({sharing[f'efficiency of {who}, CPU seconds']:.0%})".replace(
                "%", " %"
            )
            for who in ("pool", "ray")
        ),
    ):
        assert figure in reply, figure
    for opened in measured.get("opening", {}).values():
        assert opened["times_quicker"] >= 10
        assert f"{opened['opening_cpu_seconds']:.2f} CPU seconds" in reply
        assert f"{opened['times_quicker']:.0f} times" in reply
    plan = BENCHMARKS.parent / "docs" / "hundred-million-nodes.md"
    rows = plan.read_text(encoding="utf-8").splitlines()
    for edges, found in measured["growth"]["measured"].items():
        (row,) = (row for row in rows if row.startswith(f"| {int(edges):,} |"))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[1] == f"{found['bytes'] / 1e6:.1f} MB"
        assert cells[3] == f"{found['prepare_cpu']:.1f} s"
        assert cells[5] == f"{found['removal_cpu'] * 1e3:.2f} ms"


@pytest.mark.parametrize("executor", ["pool", "ray"])
def test_figures_of_kills_were_counted(executor: str) -> None:
    found = json.loads((BENCHMARKS / "results" / f"kills_{executor}.json").read_text())
    counts, reply = found["counts"], (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert found["problems"] == []
    assert counts["a last start ends well"] == found["trials"]
    drivers, workers = (counts[f"kill -9 of a {whom}"] for whom in ("driver", "worker"))
    row = f"| {executor} | {drivers} | {workers} | {found['trials']} | 0 |"
    assert row in reply, row


def test_figures_of_estimates_were_measured() -> None:
    """Every row of the table of estimates is one of the results."""
    found = json.loads((RESULTS / "estimates.json").read_text("utf-8"))["settings"]
    rows = re.findall(
        r"^\| (\S+-\S+) \| (drop )?([\d.]+) \| ([\d.]+)× \| ([\d.]+) \|", README, re.M
    )
    assert len(rows) > 30
    for setting, dropped, tolerance, cheaper, pearson in rows:
        one = found[setting]["dropped" if dropped else "tolerances"][tolerance]
        assert (f"{one['cheaper']:.1f}", f"{one['pearson']:.4f}") == (cheaper, pearson), setting


def test_figures_of_relations_were_measured() -> None:
    """Every setting with relations has its row."""
    found = json.loads((RESULTS / "relational.json").read_text("utf-8"))["cases"]
    for name, one in found.items():
        ratio = f"{one['ratio']:,.0f}" if one["ratio"] >= 10 else f"{one['ratio']:.1f}"
        assert f"| {name} | {ratio}× |" in README
