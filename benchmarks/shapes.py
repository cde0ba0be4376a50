"""Models of the shapes that public repositories have: does `exact` follow them, and how much faster is it?

Sixty models in our words (`tests/public_shapes`). On a small graph every node is removed once by the
engine and once by a full pass, in float64, and predictions are compared. On a large one some removals
are timed both ways, in CPU seconds of one thread.

    python benchmarks/shapes.py                    # all, writes results/shapes.json; minutes
    python benchmarks/shapes.py Jacobi Diffusion   # some, printed only
    python benchmarks/shapes.py --nodes 0          # without the timing
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from nora.engine.engine import Engine  # noqa: E402
from nora.engine.exec.kernels import vectorised  # noqa: E402
from nora.engine.ops.whole import WholeGraphOp  # noqa: E402
from nora.engine.unsupported import UnsupportedError  # noqa: E402
from nora.graph.edit_batch import EditBatch  # noqa: E402
from nora.model import build_problem  # noqa: E402
from nora.model.checks import check_model  # noqa: E402
from public_shapes import FAMILY, SHAPES, asked_of  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "shapes.json"
SMALL, NARROW = 120, (6, 8, 3)
WIDE = (32, 64, 8)
# Where PyG's own transform, or the model itself, computes in single precision.
SINGLE = ("Precomputed", "HalfPrecision")
# Full passes and removals that are timed: so many of these as take about so many seconds.
PASSES, FEWEST, MOST, SECONDS = 3, 16, 512, 1.5


@dataclass
class Row:
    """What became of one shape.

    Attributes:
        name, family: Which, and of what kind.
        how: `engine`, `brute`, or `refused`.
        why: Why not the engine.
        difference: Largest difference of a prediction to a full pass.
        full_passes: Removals that get a full pass all the same.
        everything: Operations that are done on all rows again for every removal.
        reached: The share of all nodes whose predictions a removal changes on the large graph, in the mean.
        brute, engine: CPU seconds per removal on the large graph.
        ratio: How many times faster the engine is there.
    """

    name: str
    family: str
    how: str = "engine"
    why: str = ""
    difference: float | None = None
    full_passes: int = 0
    everything: int = 0
    reached: float | None = None
    brute: float | None = None
    engine: float | None = None
    ratio: float | None = None


def followed(name: str, n: int = SMALL) -> Row:
    """One shape on the small graph: every removal by the engine and by a full pass."""
    row = Row(name, FAMILY[name])
    dtype = torch.float if name in SINGLE else torch.double
    model, data = asked_of(name, n, NARROW, dtype)
    try:
        problem = check_model(build_problem(model, data))
    except Exception as error:
        row.how, row.why = "refused", f"{type(error).__name__}: {error}".splitlines()[0]
        return row
    with problem.evaluating(), torch.no_grad():
        try:
            engine = Engine.prepare(problem, vectorised)
        except UnsupportedError as reason:
            row.how, row.why = "brute", without_lines(str(reason))
            return row
        row.everything = sum(isinstance(op, WholeGraphOp) for op in engine.program.ops)
        row.difference = 0.0
        for node in torch.arange(problem.num_nodes).split(1):
            truth, left = problem.predict_without(node)
            off = (
                (engine.effect_of(EditBatch.remove_nodes(node))[left] - truth)
                .abs()
                .nan_to_num(torch.inf)
            )
            row.difference = max(row.difference, float(off.max()))
        row.full_passes = engine.tally.full_passes
    return row


def timed(row: Row, n: int) -> None:
    """Time removals on a large graph, in CPU seconds: the engine's between two halves of the full passes."""
    model, data = asked_of(row.name, n, WIDE, torch.float)
    problem = check_model(build_problem(model, data))
    nodes = torch.randperm(n, generator=torch.Generator().manual_seed(0))[: MOST + FEWEST]

    def engine_seconds(some: torch.Tensor) -> float:
        start = time.process_time()
        list(engine.by_chunks(engine.influences, some, 2**30, 1))
        return (time.process_time() - start) / len(some)

    def pass_seconds(node: torch.Tensor) -> float:
        start = time.process_time()
        problem.predict_without(node)
        return time.process_time() - start

    with problem.evaluating(), torch.no_grad():
        engine = Engine.prepare(problem, kernels())
        few, rest = nodes[:FEWEST], nodes[FEWEST:]
        engine_seconds(few)  # loops are compiled on first use
        pass_seconds(few[:1])
        count = int(min(MOST, max(FEWEST, SECONDS / engine_seconds(few))))
        passes = [pass_seconds(few[:1])]
        row.engine = engine_seconds(rest[:count])
        passes += [pass_seconds(node) for node in few[1:PASSES].split(1)]
        row.brute = sorted(passes)[PASSES // 2]
        changed = engine.changed_output(EditBatch.remove_nodes(few))
        row.reached = round(len(changed.node) / (len(few) * n), 6)
    row.ratio = round(row.brute / row.engine, 1)


def kernels():
    """The compiled kernels."""
    from nora.engine.exec.kernels import compiled

    return compiled


def without_lines(text: str) -> str:
    """A reason without the lines it names, which are another file's."""
    return re.sub(r",? at \S+:\d+ \(\w+\)", "", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--nodes", type=int, default=20_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = []
    for name in options.names or SHAPES:
        row = followed(name)
        if options.nodes and row.how == "engine":
            try:
                timed(row, options.nodes)
            except Exception as error:
                row.why = f"on the large graph: {type(error).__name__}: {error}".splitlines()[0]
        rows.append(row)
        more = f"{row.difference:.0e}, all rows {row.everything}" if row.how == "engine" else ""
        reached = "" if row.reached is None else f"{row.reached:.3%}"
        print(
            f"{name:22} {row.how:8} {row.ratio or '':>8} {reached:>9} {row.why or more}", flush=True
        )
    print({how: sum(r.how == how for r in rows) for how in ("engine", "brute", "refused")})
    if not options.names:
        found = {"nodes": options.nodes, "rows": [asdict(row) for row in rows]}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print("python benchmarks/pyg_coverage.py --page writes the table into docs/coverage.md")


if __name__ == "__main__":
    main()
