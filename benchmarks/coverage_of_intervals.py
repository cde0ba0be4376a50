"""Do the error bars of estimates hold what they promise?

    python benchmarks/coverage_of_intervals.py                 # the graphs that show it, about five minutes
    python benchmarks/coverage_of_intervals.py --graphs show   # those that have been looked at since
    python benchmarks/coverage_of_intervals.py --graphs design # those that the method was made on
    python benchmarks/coverage_of_intervals.py --only citeseer # settings whose name starts so

Per model, graph and tolerance, with the truth of every node known by `exact`: the share of 95 % intervals
that hold the truth, over all estimated nodes and over the 20 most influential, of which most are exact; the
mean bias, `Σ estimate / Σ truth − 1` and the mean of the relative errors; the median relative error;
Spearman's correlation; and the largest error in standard errors. Nodes that were computed exactly (for
calibration, because nothing was left to chance, or because they come first) have an error of 0; the coverage
over all nodes leaves them out.

The method was made on the graphs of `design`, and its present form chosen on these and those of `show`. The
graphs of `fresh` have other generators, other seeds and other real graphs. They were run once, after the
last change of the method. Truths are kept in a folder (`--truths`), so that another version of the code is
compared with the same ones.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE
from torch_geometric.utils import barabasi_albert_graph, coalesce, subgraph, to_undirected

import nora
from estimates import labelled
from nora.results.agreement import spearman

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "coverage_of_intervals.json"
MODELS: dict[str, Any] = {"gcn": GCN, "sage": GraphSAGE, "gat": GAT, "gin": GIN}
TOP, CLASSES = 20, 8
Graph = Callable[[], tuple[Tensor, int]]


def star_like(nodes: int = 1600, hubs: int = 3, seed: int = 0) -> tuple[Tensor, int]:
    """Leaves of a few hubs, and a sparse random graph between all of them."""
    chance = np.random.default_rng(seed)
    leaves = np.arange(hubs, nodes)
    spokes = np.stack([leaves, chance.choice(hubs, len(leaves), p=_falling(hubs))])
    others = chance.integers(0, nodes, (2, nodes // 4))
    return to_undirected(torch.from_numpy(np.concatenate([spokes, others], 1)).long()), nodes


def _falling(count: int) -> np.ndarray:
    share = 1 / np.arange(1, count + 1)
    return share / share.sum()


def bipartite(nodes: int = 1600, seed: int = 1) -> tuple[Tensor, int]:
    """Members of one side tied to some of the other, whose popularity falls like a power law."""
    chance = np.random.default_rng(seed)
    side = nodes // 4
    member = np.repeat(np.arange(side, nodes), 4)
    found = chance.choice(side, len(member), p=_falling(side))
    return to_undirected(torch.from_numpy(np.stack([member, found])).long()), nodes


def grown(nodes: int = 2000, ties: int = 4) -> tuple[Tensor, int]:
    """Preferential attachment."""
    torch.manual_seed(2)
    np.random.seed(2)
    return barabasi_albert_graph(nodes, ties), nodes


def wheel_of_stars(nodes: int = 1500, hubs: int = 12, seed: int = 31) -> tuple[Tensor, int]:
    """Stars of geometric sizes whose centres form a ring, each leaf tied to the next in its star."""
    ids = np.arange(hubs, nodes)
    sizes = np.geomspace(1, 40, hubs)
    chance = np.random.default_rng(seed)
    star = np.sort(chance.choice(hubs, len(ids), p=sizes / sizes.sum()))
    ring = np.stack([np.arange(hubs), (np.arange(hubs) + 1) % hubs])
    beside = np.stack([ids[:-1:2], ids[1::2]])
    both = np.concatenate([np.stack([ids, star]), ring, beside], axis=1)
    return to_undirected(torch.from_numpy(both).long()), nodes


def of_networkx(graph: nx.Graph) -> tuple[Tensor, int]:
    """A NetworkX graph, both directions of every edge."""
    plain = nx.convert_node_labels_to_integers(nx.Graph(graph))
    plain.remove_edges_from(list(nx.selfloop_edges(plain)))
    edges = torch.tensor(list(plain.edges)).t()
    return to_undirected(edges), plain.number_of_nodes()


def configuration(nodes: int = 2500, seed: int = 32) -> tuple[Tensor, int]:
    """Degrees of a Pareto distribution, tied at random."""
    degrees = 2 + np.random.default_rng(seed).pareto(1.3, nodes).clip(max=400).astype(int)
    degrees[0] += degrees.sum() % 2
    return of_networkx(nx.configuration_model(degrees.tolist(), seed=seed))


def affiliation(nodes: int = 1800, seed: int = 33) -> tuple[Tensor, int]:
    """People and clubs (NetworkX's preferential attachment between two sides)."""
    people = [1 + i % 5 for i in range(nodes * 2 // 3)]
    return of_networkx(nx.bipartite.preferential_attachment_graph(people, 0.7, seed=seed))


def camps(seed: int = 34) -> tuple[Tensor, int]:
    """Six camps of unequal sizes (stochastic block model)."""
    sizes = [900, 400, 250, 150, 60, 40]
    chances = np.full((6, 6), 0.0004) + np.diag([0.006, 0.012, 0.02, 0.04, 0.1, 0.15])
    return of_networkx(nx.stochastic_block_model(sizes, chances.tolist(), seed=seed))


def small_world(nodes: int = 2000, seed: int = 35) -> tuple[Tensor, int]:
    """A ring with shortcuts: no hubs at all."""
    return of_networkx(nx.connected_watts_strogatz_graph(nodes, 12, 0.2, seed=seed))


def clustered(nodes: int = 1800, seed: int = 36) -> tuple[Tensor, int]:
    """Power law with triangles (Holme and Kim)."""
    return of_networkx(nx.powerlaw_cluster_graph(nodes, 6, 0.6, seed=seed))


def citations(name: str) -> Graph:
    """A real citation graph, without its features: these differ in width."""

    def load() -> tuple[Tensor, int]:
        data = nora.load_dataset(name).data
        return data.edge_index, int(data.num_nodes)

    return load


def friends(nodes: int = 3000) -> tuple[Tensor, int]:
    """The users of P_20_50 with most ties, and who of them follows whom: directed, dense."""
    whole = nora.load_dataset("p-20-50-partial").data
    edges = next(whole[kind].edge_index for kind in whole.edge_types if "friend" in kind[1])
    degree = torch.bincount(edges.flatten(), minlength=int(whole.num_nodes))
    some = degree.topk(nodes).indices.sort().values
    edges, _ = subgraph(some, coalesce(edges), relabel_nodes=True, num_nodes=int(whole.num_nodes))
    return edges, nodes


def internet(nodes: int = 2000, seed: int = 71) -> tuple[Tensor, int]:
    """Autonomous systems of the internet (Elmokashfi et al.): a few providers, many customers."""
    return of_networkx(nx.random_internet_as_graph(nodes, seed=seed))


def dual(nodes: int = 1800, seed: int = 72) -> tuple[Tensor, int]:
    """Preferential attachment with one tie or eight."""
    return of_networkx(nx.dual_barabasi_albert_graph(nodes, 1, 8, 0.6, seed=seed))


def geometric(nodes: int = 2000, seed: int = 73) -> tuple[Tensor, int]:
    """Points of the unit square, tied to those near them."""
    return of_networkx(nx.random_geometric_graph(nodes, 0.035, seed=seed))


def families(seed: int = 74) -> tuple[Tensor, int]:
    """Cliques of 15 with some ties moved to others (relaxed caveman)."""
    return of_networkx(nx.relaxed_caveman_graph(120, 15, 0.15, seed=seed))


def copying(nodes: int = 1600, seed: int = 75) -> tuple[Tensor, int]:
    """Duplication and divergence, as proteins: a new node copies an old one's ties."""
    return of_networkx(nx.duplication_divergence_graph(nodes, 0.4, seed=seed))


def ball(nodes: int = 2500, seed: int = 91) -> tuple[Tensor, int]:
    """The papers of PubMed that are nearest to one of them."""
    data = nora.load_dataset("pubmed").data
    graph = nx.Graph(data.edge_index.t().tolist())
    around = nx.bfs_tree(graph, int(np.random.default_rng(seed).integers(data.num_nodes)))
    return of_networkx(graph.subgraph(list(around)[:nodes]))


def benchmark_communities(nodes: int = 1800, seed: int = 92) -> tuple[Tensor, int]:
    """Power laws of degrees and of sizes of communities (Lancichinetti, Fortunato and Radicchi)."""
    return of_networkx(
        nx.LFR_benchmark_graph(
            nodes, 2.6, 1.6, 0.2, average_degree=7, max_degree=120, min_community=25, seed=seed
        )
    )


def navigable(side: int = 42, seed: int = 93) -> tuple[Tensor, int]:
    """A grid with shortcuts that seldom lead far (Kleinberg)."""
    return of_networkx(nx.navigable_small_world_graph(side, p=1, q=2, r=1.8, seed=seed))


def followers(nodes: int = 1600, seed: int = 94) -> tuple[Tensor, int]:
    """Everyone follows six others, whom others follow already: directed, preferential."""
    graph = nx.DiGraph(nx.random_k_out_graph(nodes, 6, 0.5, self_loops=False, seed=seed))
    return torch.tensor(list(graph.edges)).t().contiguous(), nodes


def replies(nodes: int = 2200) -> tuple[Tensor, int]:
    """The users of P_20_50 who reply most and get most replies: directed."""
    whole = nora.load_dataset("p-20-50-partial").data
    edges = next(whole[kind].edge_index for kind in whole.edge_types if "reply" in kind[1])
    edges = coalesce(edges[:, edges[0] != edges[1]])
    degree = torch.bincount(edges.flatten(), minlength=int(whole.num_nodes))
    some = degree.topk(nodes).indices.sort().values
    edges, _ = subgraph(some, edges, relabel_nodes=True, num_nodes=int(whole.num_nodes))
    return edges, nodes


def dense(nodes: int = 700, seed: int = 95) -> tuple[Tensor, int]:
    """Groups of about forty who mostly know each other, and others now and then."""
    return of_networkx(nx.gaussian_random_partition_graph(nodes, 40, 8, 0.4, 0.01, seed=seed))


def streets(side: int = 45, seed: int = 96) -> tuple[Tensor, int]:
    """A grid of which a fifth of the edges is missing, and what still hangs together."""
    graph = nx.grid_2d_graph(side, side)
    edges = sorted(graph.edges)
    lost = np.random.default_rng(seed).choice(len(edges), len(edges) // 5, replace=False)
    graph.remove_edges_from([edges[at] for at in lost])
    return of_networkx(graph.subgraph(sorted(max(nx.connected_components(graph), key=len))))


GRAPHS: dict[str, dict[str, Graph]] = {
    "design": {
        "star": star_like,
        "bipartite": bipartite,
        "grown": grown,
        "stars": wheel_of_stars,
        "configuration": configuration,
        "affiliation": affiliation,
        "camps": camps,
        "small-world": small_world,
        "clustered": clustered,
        "citeseer": citations("citeseer"),
        "friends": friends,
    },
    "show": {
        "internet": internet,
        "dual": dual,
        "geometric": geometric,
        "families": families,
        "copying": copying,
        "cora": citations("cora"),
    },
    "fresh": {
        "pubmed-ball": ball,
        "communities": benchmark_communities,
        "navigable": navigable,
        "followers": followers,
        "replies": replies,
        "dense": dense,
        "streets": streets,
    },
}
# Models with their layers, and tolerances, of every graph.
ASKED = [
    (model, layers, tolerance)
    for model, layers in (("gat", 2), ("sage", 3), ("gin", 3), ("gcn", 3), ("gat", 3))
    for tolerance in (0.03, 0.1)
]


def fitted(name: str, layers: int, data: Data, epochs: int = 30) -> torch.nn.Module:
    """A model of PyG's, trained for a little on all labels."""
    torch.manual_seed(0)
    # Sums of sums grow beyond what training bears unless they are normalised.
    norm = "batch_norm" if name == "gin" else None
    model = MODELS[name](data.x.size(1), 32, layers, CLASSES, norm=norm)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        optimizer.zero_grad()
        F.cross_entropy(model(data.x, data.edge_index), data.y).backward()
        optimizer.step()
    return model.eval()


def settings(
    graphs: str,
) -> Iterator[tuple[str, Callable[[], tuple[torch.nn.Module, Data]], list[float]]]:
    """Name, how model and graph are made, and the tolerances, of a set of graphs."""
    for graph, make in GRAPHS[graphs].items():
        for model, layers in dict.fromkeys((m, n) for m, n, _ in ASKED):

            def made(make: Graph = make, model: str = model, layers: int = layers) -> Any:
                data = labelled(*make(), classes=CLASSES)
                return fitted(model, layers, data), data

            tolerances = [t for m, n, t in ASKED if (m, n) == (model, layers)]
            yield f"{graph}-{model}{layers}", made, tolerances


def truth_of(name: str, model: torch.nn.Module, data: Data, folder: Path) -> Tensor:
    """Every node's influence by `exact`, computed once."""
    path = folder / f"{name}.pt"
    if path.exists():
        return torch.load(path)
    found = nora.influence(model, data, "exact", progress=False).scores.double()
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(found, path)
    return found


def measured(found: nora.Influence, truth: Tensor) -> dict[str, Any]:
    """What is said of one setting; None of what no node was estimated for."""
    assert found.stderr is not None
    scores, error = found.scores.double().numpy(), found.stderr.double().numpy()
    true = truth.numpy()
    off, estimated = scores - true, error > 0
    # float32 has its own noise, which is no matter of drawing.
    noise = 1e-6 + 1e-4 * true
    within = np.abs(off) <= 1.96 * error + noise
    top = np.argsort(-true, kind="stable")[:TOP]
    drawn_top = top[estimated[top]]
    seen = (true > 1e-6) & estimated
    beyond = np.maximum(np.abs(off) - noise, 0)[estimated] / error[estimated]
    large = seen & (true >= np.median(true[seen])) if seen.any() else seen
    return {
        "nodes": len(true),
        "estimated": int(estimated.sum()),
        "covered": float(within[estimated].mean()) if estimated.any() else None,
        "covered_top": float(within[top].mean()),
        "estimated_top": len(drawn_top),
        "bias": float(scores[estimated].sum() / true[estimated].sum() - 1) if seen.any() else None,
        "bias_top": float(scores[top].sum() / true[top].sum() - 1),
        "mean_relative_error": float((off[large] / true[large]).mean()) if seen.any() else None,
        "median_error": float(np.median(np.abs(off[seen]) / true[seen])) if seen.any() else 0.0,
        "median_stderr": float(np.median(error[seen] / true[seen])) if seen.any() else 0.0,
        "spearman": spearman(scores, true),
        "largest": float(beyond.max()) if len(beyond) else 0.0,
        "beyond_five": int((beyond > 5).sum()),
        "seconds": found.seconds,
        "told": found.details["estimated"],
    }


def show(name: str, tolerance: float, row: dict[str, Any]) -> None:
    """One line."""
    if not row["estimated"]:
        print(f"{name:22} {tolerance:5} all exact  {row['cpu']:.1f} s", flush=True)
        return
    print(
        f"{name:22} {tolerance:5} covered {row['covered']:.3f} "
        f"top {row['covered_top']:.2f} ({row['estimated_top']:2})  "
        f"bias {100 * row['bias']:+6.1f}% mean rel {100 * row['mean_relative_error']:+6.1f}% "
        f"top {100 * row['bias_top']:+6.1f}%  median {100 * row['median_error']:5.1f}% "
        f"se {100 * row['median_stderr']:5.1f}%  spearman {row['spearman']:.3f}  "
        f"largest {row['largest']:6.1f} ({row['beyond_five']})  {row['cpu']:.1f} s",
        flush=True,
    )


def write(path: Path, part: str, name: str, row: Any) -> None:
    """Put a row into the results, as soon as it is there."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept |= {
        "command": "python benchmarks/coverage_of_intervals.py",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "cores": os.cpu_count(),
    }
    kept.setdefault(part, {})[name] = row
    path.write_text(json.dumps(kept, indent=1) + "\n")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--graphs", choices=list(GRAPHS), default="fresh")
    parser.add_argument("--only", nargs="*", default=[""], help="settings whose name starts so")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws")
    parser.add_argument("--truths", type=Path, default=HERE / ".cache" / "truths")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name, make, tolerances in settings(given.graphs):
        if not any(name.startswith(prefix) for prefix in given.only):
            continue
        model, data = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            truth = truth_of(name, model, data, given.truths)
            for tolerance in tolerances:
                start = time.process_time()
                found = nora.influence(
                    model, data, "exact", tolerance=tolerance, seed=given.seed, verify=0,
                    workers=1, progress=False,
                )  # fmt: skip
                row = {**measured(found, truth), "cpu": time.process_time() - start}
                write(given.out, given.graphs, f"{name} {tolerance:g}", row)
                show(name, tolerance, row)


if __name__ == "__main__":
    main()
