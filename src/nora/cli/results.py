"""The folder that `nora run` leaves: tables, graph files, a page to show, and how it all came about."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nora.cli.arguments import check_folder
from nora.cli.display import json_text

if TYPE_CHECKING:
    import pandas as pd

    from nora import Effect, Influence, Run
    from nora.training.trust import Trust

MADE_BY = "nora run"
ABOUT = "run.json"
# What a folder of results holds, in the order in which a reader may want it.
FILES = {
    "report.html": "the findings as a page; open it in a browser",
    "scores.csv": "every node with influence, rank, degree and prediction",
    "scores.csv.meta.json": "how these scores were made",
    "scores.parquet": "the same table for programs",
    "effects": "for the first nodes, who changes without them",
    "graph.graphml": "the graph with the scores, for Gephi, Cytoscape, NetworkX",
    "graph.gexf": "the same for Gephi",
    "run": "the trained model and its graph, for 'nora what-if' and 'nora rank'",
    ABOUT: "how all this came about: files, seeds, versions, notes, times",
}


@dataclass
class Times:
    """Seconds that each stage took."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure what is done inside."""
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)


@dataclass(frozen=True, eq=False)
class Answer:
    """What `nora run` has found out.

    Attributes:
        run: The trained model with its graph.
        scores: The influences, with names.
        others: Of other methods, to compare.
        effects: Of removing each of the first nodes, the first first.
        trust: How good the model is.
        notes: What was found and decided on the way.
        warnings: What a reader must know first.
        about: What else goes into `run.json`.
    """

    run: Run
    scores: Influence
    others: tuple[Influence, ...]
    effects: tuple[Effect, ...]
    trust: Trust
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    about: Mapping[str, Any]


def check_results(folder: Path, force: bool) -> None:
    """Raise unless results can go to `folder`: replacing deletes, so only ever what we have made."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder for the results")
    check_folder(folder.absolute().parent)
    if not folder.exists() or not any(folder.iterdir()):
        _try_to_write(folder)
        return
    try:
        made = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["made_by"] == MADE_BY
    except (OSError, ValueError, KeyError, TypeError):
        made = False
    if not made:
        raise FileExistsError(
            f"{folder} is not empty and was not made by 'nora run', so --force does not replace it; "
            "choose another --out"
        )
    others = sorted(file.name for file in folder.iterdir() if file.name not in FILES)
    if others:
        raise FileExistsError(
            f"{folder} holds files of yours ({', '.join(others[:3])}), so --force does not replace it"
        )
    if not force:
        raise FileExistsError(f"{folder} is not empty; choose another --out, or add --force")
    _try_to_write(folder)


def _try_to_write(folder: Path) -> None:
    """Raise when a folder cannot be made there, before hours of work show it; leave nothing."""
    parent = folder.absolute().parent
    missing = [place for place in (parent, *parent.parents) if not place.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
        Path(tempfile.mkdtemp(dir=parent, prefix=f".{folder.name}.")).rmdir()
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot write to {folder} ({reason}); choose another --out") from error
    finally:
        with suppress(OSError):  # never made, or somebody else writes there by now
            for place in missing:
                place.rmdir()


def write_results(answer: Answer, folder: Path, times: Times) -> None:
    """Write everything into `folder`, which is there complete or not at all."""
    from nora.files import folder_written_atomically
    from nora.report.page import write_report
    from nora.results.export import to_networkx, write_graph
    from nora.results.tables import write_table

    run, scores, dataset = answer.run, answer.scores, answer.run.dataset
    with folder_written_atomically(folder, replace=folder.exists()) as new:
        with times.stage("writing tables and graph"):
            run.save(new / "run")
            graph = to_networkx(
                dataset.data,
                scores,
                predictions=predictions(answer),
                names=scores.names,
                class_names=dataset.class_names,
            )
            table = scores_table(answer, dict(graph.nodes(data="degree")))
            for name in ("scores.parquet", "scores.csv"):
                write_table(table, scores.provenance(), new / name)
            (new / "effects").mkdir()
            for rank, effect in enumerate(answer.effects, start=1):
                name = effect_file(rank, scores.names or (), effect.removed[0])
                changes(effect, dataset.class_names).to_csv(new / "effects" / name, index=False)
            graph = _named(graph, scores.names or (), dataset.edge_type_names)
            for name in ("graph.graphml", "graph.gexf"):
                write_graph(graph, new / name)
        with times.stage("writing the report"):
            write_report(
                new / "report.html",
                run.model,
                run.data,
                (scores, *answer.others),
                run.task,
                names=scores.names,
                class_names=dataset.class_names,
                labels=dataset.data.y if run.task.name == "node" else None,
                title=_title(folder),
                metrics=run.metrics,
                notes=answer.notes,
                warnings=answer.warnings,
                seed=run.seed,
                graph=dataset.data,
                model_name=run.architecture["name"],
                run=str(folder / "run"),
                trust=answer.trust,
            )
        text = json_text(describe(answer, times))
        (new / ABOUT).write_text(text + "\n", encoding="utf-8")


def describe(answer: Answer, times: Times) -> dict[str, Any]:
    """What `run.json` holds."""
    trust, scores = answer.trust, answer.scores
    return {
        "made_by": MADE_BY,
        "versions": versions(),
        **answer.about,
        "notes": answer.notes,
        "warnings": answer.warnings,
        "metrics": answer.run.metrics,
        "trust": {
            "metric": trust.metric,
            "test": trust.value,
            "baseline": trust.baseline,
            "yardstick": trust.yardstick,
            "tested": trust.tested,
            "weak": trust.weak,
            "reason": trust.reason,
        },
        "method": _method(scores),
        "also": [_method(other) for other in answer.others],
        "seconds": times.seconds,
    }


def _title(folder: Path) -> str | None:
    """The page's title, by the folder's name where that says something.

    >>> _title(Path("trade-influence")), _title(Path("results"))
    ('trade: whose absence would change whose prediction?', None)
    """
    name = folder.absolute().name.removesuffix("-influence")
    if name.lower() in ("edges", "graph", "nora", "out", "output", "result", "results"):
        return None
    return f"{name}: whose absence would change whose prediction?"


def _method(scores: Influence) -> dict[str, Any]:
    return {
        "name": scores.method,
        "options": scores.options,
        "seconds": scores.seconds,
        "details": scores.details,
    }


def predictions(answer: Answer) -> Any:
    """Class probabilities `[N, C]`; None for a link task."""
    return answer.effects[0].before if answer.scores.task == "node" else None


def scores_table(answer: Answer, degree: Mapping[int, int]) -> pd.DataFrame:
    """One row per node, the most influential first: the user's `id`, then what was found.

    `node` and `name`, which `Influence.load` reads, come last.
    """
    dataset = answer.run.dataset
    table = answer.scores.to_frame()
    nodes = table["node"].tolist()
    table["degree"] = [degree[node] for node in nodes]
    found = predictions(answer)
    classes = dataset.class_names or ()
    if found is not None:
        likeliest = found.max(dim=-1)
        table["predicted"] = [classes[k] for k in likeliest.indices[nodes].tolist()]
        table["probability"] = likeliest.values[nodes].double().numpy()
    if classes:
        known = dataset.data.y[nodes].tolist()
        table["label"] = [classes[k] if k >= 0 else None for k in known]
    for scores in answer.others:
        frame = scores.to_frame().set_index("node").loc[table["node"]]
        table[f"influence_{scores.method}"] = frame["influence"].to_numpy()
        table[f"rank_{scores.method}"] = frame["rank"].to_numpy()
    table.insert(0, "id", table["name"])
    return _last(table.sort_values("rank").reset_index(drop=True), "node", "name")


def changes(effect: Effect, classes: tuple[str, ...] | None) -> pd.DataFrame:
    """Who changes, most first, under the user's ids, with names of classes.

    Nodes have the probabilities of the class before and of the class after, each with and without
    the removed node (`from_before` and `from_after`, `to_before` and `to_after`). Positions in the
    graph (`node`; `source_node`, `target_node`) come last.
    """
    frame = effect.to_frame()
    frame = frame[frame["change"] > 0].sort_values("change", ascending=False, kind="stable")
    if effect.task != "node":
        ids = {"source_name": "source", "target_name": "target"}
        frame = frame.rename(columns={"source": "source_node", "target": "target_node"})
        return _last(frame.rename(columns=ids), "source_node", "target_node")
    nodes = frame["node"].tolist()
    for column in ("from_class", "to_class"):
        of = frame[column].tolist()
        for when, found in (("before", effect.before), ("after", effect.after)):
            frame[column.replace("class", when)] = found[nodes, of].double().cpu().numpy()
        if classes:
            frame[column] = [classes[k] for k in of]
    return _last(frame.rename(columns={"name": "id"}), "node")


def _last(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The frame with these columns at its end."""
    return frame[[column for column in frame if column not in columns] + list(columns)]


def effect_file(rank: int, names: tuple[str, ...], node: int) -> str:
    """A file name that any system takes, whatever the node is called.

    >>> effect_file(3, ("../a b", "eve"), 0)
    '003-a_b.csv'
    """
    name = re.sub(r"[^\w@-]+", "_", names[node] if names else str(node)).strip("_")
    return f"{rank:03d}-{name[:40] or 'node'}.csv"


def _named(graph: Any, names: tuple[str, ...], types: tuple[str, ...] | None) -> Any:
    """The graph with the user's ids for its nodes, and names for the types of its edges."""
    import networkx as nx

    if types:
        for *_, attributes in graph.edges(data=True):
            # Several, where edges of different types join the same two nodes.
            parts = str(attributes.get("type", "")).split(", ")
            attributes["type"] = ", ".join(types[int(part)] for part in parts if part)
    return nx.relabel_nodes(graph, dict(enumerate(names))) if names else graph


def versions() -> dict[str, str]:
    """Of everything that can change a number."""
    packages = ("torch", "torch_geometric", "numpy", "scipy", "pandas", "networkx")
    from nora import __version__

    return {
        "nora": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def input_file(role: str, path: Path) -> dict[str, Any]:
    """What identifies a file that was read."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"role": role, "file": str(path), "bytes": path.stat().st_size, "sha256": digest}
