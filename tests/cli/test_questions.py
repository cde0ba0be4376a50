"""`nora what-if --remove-edge`, `nora group`, `nora who`: what they print, write and refuse."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import nora
from nora.cli.parameters import parse_edges
from shell import document, ok, refused


class TestParseEdges:
    NAMES = ("ann", "jean-luc", "luc", "ann-jean", "x7", "@a,b")

    @pytest.mark.parametrize(
        ("text", "edge"),
        [
            ("0-3", (0, 3)),
            ("ann-luc", (0, 2)),
            ("luc - ann", (2, 0)),
            ("jean-luc-ann", (1, 0)),
            ("ann-jean-x7", (3, 4)),
            ("jean-luc-jean-luc", (1, 1)),
            ("@a,b-2", (5, 2)),
            ("5-ann-jean", (5, 3)),
        ],
    )
    def test_hyphens_in_names_are_distinguished(self, text: str, edge: tuple[int, int]) -> None:
        assert parse_edges([text], self.NAMES, 6) == [edge]

    def test_what_can_be_read_in_two_ways_is_refused(self) -> None:
        with pytest.raises(
            ValueError,
            match=r"'ann' and 'jean-luc'.*'luc'",
        ):
            parse_edges(["ann-jean-luc"], self.NAMES, 6)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("17", "edge '17' is not of the form A-B, e.g. 3-17"),
            ("0-6", "edge '0-6': node 6.*graph has 6 nodes"),
            ("an-luc", "named 'an'. Did you mean 'ann'"),
            ("jean-lucy-0", "hyphen or comma has a node.*sides"),
            ("3-", "no node is named ''"),
        ],
    )
    def test_what_is_no_edge_is_refused(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            parse_edges([text], self.NAMES, 6)

    def test_where_names_are_numbers_a_number_is_a_name(self) -> None:
        assert parse_edges(["7-ann"], ("ann", "7"), 2) == [(1, 0)]
        with pytest.raises(ValueError, match="no node is named '1'"):
            parse_edges(["1-ann"], ("ann", "7"), 2)

    def test_without_names_there_are_ids_only(self) -> None:
        assert parse_edges(["2-1", "0-0"], None, 3) == [(2, 1), (0, 0)]
        with pytest.raises(ValueError, match="nodes have no names"):
            parse_edges(["a-1"], None, 3)


class TestWhatIf:
    def test_edges_are_removed_together(self, karate: Path, tmp_path: Path) -> None:
        out = tmp_path / "changes.csv"
        found = document(
            "what-if", karate, "--remove-edge", "33-32", "--remove-edge", "0-1", "--out", out
        )
        trained = nora.load_run(karate)
        truth = nora.what_if(trained.model, trained.data, remove_edges=[(0, 1), (32, 33)])
        assert found["total"] == pytest.approx(truth.total)
        assert found["removed"] == []
        assert found["removed_edges"] == [[0, 1], [32, 33]]
        assert len(pd.read_csv(out)) == 34

    def test_nodes_and_edges_by_name(self, karate: Path) -> None:
        one = document("what-if", karate, "--remove", "5", "--remove-edge", "0-1")
        other = document(
            "what-if", karate, "--remove", "member 6", "--remove-edge", "member 2-member 1"
        )
        assert one == other
        assert one["removed"] == [5]
        printed = ok("what-if", karate, "--remove", 5, "--remove-edge", "0-1")
        assert "Without member 6, the edge member 1 – member 2: " in printed

    def test_a_link_run_loses_an_edge_too(self, links: Path) -> None:
        source, target = nora.load_run(links).data.edge_index[:, 0].tolist()
        assert document("what-if", links, "--remove-edge", f"{source}-{target}")["total"] > 0


class TestWhatIfMore:
    def test_edges_come_and_features_change(self, karate: Path, tmp_path: Path) -> None:
        trained = nora.load_run(karate)
        table = tmp_path / "features.csv"
        table.write_text("node,feature,value\nmember 3,0,5\n2,1,-1\n7,3,1\n", encoding="utf-8")
        found = document("what-if", karate, "--add-edge", "0-33", "--set", table)
        rows = {node: trained.data.x[node].clone() for node in (2, 7)}
        rows[2][0], rows[2][1], rows[7][3] = 5, -1, 1
        truth = nora.what_if(
            trained.model, trained.data, add_edges=[(0, 33)], features=rows, method="brute"
        )
        assert found["total"] == pytest.approx(truth.total, rel=1e-4)
        assert (found["added_edges"], found["changed_features"]) == ([[0, 33]], [2, 7])
        printed = ok("what-if", karate, "--remove", 5, "--add-edge", "0-33", "--set", table)
        caught = "member 1 – member 34, changed features of member 3"
        assert caught in printed

    def test_whole_rows_of_features(self, karate: Path, tmp_path: Path) -> None:
        trained = nora.load_run(karate)
        row = trained.data.x[4] + 1
        names = [f"f{at}" for at in range(len(row))]
        frame = pd.DataFrame([[4, *row.tolist()]], columns=["node", *names])
        frame.to_csv(tmp_path / "rows.csv", index=False)
        found = document("what-if", karate, "--set", tmp_path / "rows.csv")
        truth = nora.what_if(trained.model, trained.data, features={4: row}, method="brute")
        assert found["total"] == pytest.approx(truth.total, rel=1e-4)

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("node,a\n3,1\n", "2 columns: give a node and its 34 features"),
            ("node,feature,value\n", "has no rows"),
            ("node,feature,value\n3,99,1\n", "feature 99 is not one of 0 … 33"),
            ("node,feature,value\n3,1,much\n", "line 2: features are numbers, got 'much'"),
            ("node,feature,value\n3,1,\n", "line 2: features are numbers, got ''"),
            ("node,feature,value\n3,1,2\n4,1\n", "line 3: 2 columns, which is too few"),
            ("node,feature,value\nmissing,1,1\n", "no node is named 'missing'"),
        ],
    )
    def test_what_is_no_table_of_features_is_refused(
        self, text: str, says: str, karate: Path, tmp_path: Path
    ) -> None:
        table = tmp_path / "features.csv"
        table.write_text(text, encoding="utf-8")
        assert says in refused("what-if", karate, "--set", table)


class TestFlip:
    def test_it_is_what_python_finds(self, karate: Path, tmp_path: Path) -> None:
        trained, out = nora.load_run(karate), tmp_path / "edits.json"
        hanging = trained.session().fragile(by="edges", progress=False).sort()
        sizes = set()
        for node in (int(hanging["node"][0]), int(hanging["node"][33])):
            found = document(
                "flip", karate, node, "--by", "edges", "--at-most", 2, "--out", out, "--force"
            )
            truth = trained.session().flip(node, by="edges", at_most=2, progress=False)
            assert (found["size"], found["proof"]) == (truth.size, truth.proof)
            assert [tuple(edge) for edge in found["removed"]] == list(truth.removed)
            sizes.add(truth.size)
            printed = ok("flip", karate, f"member {node + 1}", "--by", "edges", "--at-most", 2)
            assert f"member {node + 1}" in printed
            assert truth.proof[1:30] in printed
            if truth.size:
                edits = nora.Edits.load(found["out"])
                assert len(edits.remove_edges) == truth.size
        assert sizes - {0}


class TestGroup:
    def test_it_is_what_python_finds(self, karate: Path, tmp_path: Path) -> None:
        out = tmp_path / "group.parquet"
        found = document("group", karate, "--size", 3, "--out", out)
        trained = nora.load_run(karate)
        truth = nora.best_group(trained.model, trained.data, 3, progress=False)
        assert found["nodes"] == list(truth.nodes)
        assert found["total"] == pytest.approx(truth.total)
        assert found["alone"] == pytest.approx(truth.alone)
        assert [row["total"] for row in found["group"]] == pytest.approx(truth.totals)
        assert found["evaluations"] == truth.evaluations
        assert pd.read_parquet(out)["name"].tolist() == [row["name"] for row in found["group"]]

    def test_people_get_a_table(self, karate: Path) -> None:
        printed = ok("group", karate, "--size", 2)
        assert "Together these 2 change the others by" in printed
        assert "member" in printed

    def test_candidates_and_targets(self, karate: Path) -> None:
        found = document(
            "group", karate, "--size", 2, "--candidates", "member 1,1,2", "--targets", "3,7"
        )
        assert set(found["nodes"]) < {0, 1, 2}

    def test_links(self, links: Path) -> None:
        found = document("group", links, "--size", 2, "--targets", "0,1,2,3,4,5")
        assert found["task"] == "link"


class TestWho:
    def test_it_is_what_python_finds(self, karate: Path) -> None:
        found = document("who", karate, "--node", "member 17", "--top", 4)
        trained = nora.load_run(karate)
        truth = nora.influencers(trained.model, trained.data, 16, 4, progress=False)
        assert found["node"] == 16
        assert [row["node"] for row in found["top"]] == truth["node"].tolist()
        assert [row["influence"] for row in found["top"]] == pytest.approx(truth["influence"])
        assert found["top"][0]["name"] == f"member {truth['node'][0] + 1}"

    def test_people_get_a_table(self, karate: Path) -> None:
        printed = ok("who", karate, "--node", 16)
        assert "prediction of member 17 most" in printed

    def test_another_measure_is_named(self, karate: Path) -> None:
        printed = ok("who", karate, "--node", 16, "--measure", "class:1")
        assert "by the measure class:1" in printed
        found = document("group", karate, "--size", 2, "--measure", "flips")
        trained = nora.load_run(karate)
        truth = trained.session().best_group(2, measure="flips", progress=False)
        assert found["nodes"] == list(truth.nodes)

    def test_links(self, links: Path) -> None:
        assert document("who", links, "--node", 0)["task"] == "link"


class TestRankEdges:
    def test_it_is_what_python_finds(self, karate: Path, tmp_path: Path) -> None:
        out = tmp_path / "edges.csv"
        found = document("rank", karate, "--edges", "--top", 4, "--out", out)
        trained = nora.load_run(karate)
        truth = nora.edge_influence(trained.model, trained.data, progress=False)
        assert (found["num_edges"], found["scored"], found["method"]) == (78, 78, "exact")
        assert [row["source"] for row in found["top"]] == truth.top(4)["source"].tolist()
        assert found["top"][0]["source_name"].startswith("member ")
        assert nora.EdgeInfluence.load(out)[0, 1] == pytest.approx(truth[0, 1])
        assert "78 of 78 edges scored" in ok("rank", karate, "--edges", "--top", 2)

    def test_shards_merge(self, karate: Path, tmp_path: Path) -> None:
        for part in (1, 2):
            folder = tmp_path / str(part)
            ok("rank", karate, "--edges", "--shard", f"{part}/2", "--checkpoint", folder)
        out = tmp_path / "edges.parquet"
        found = document("merge", tmp_path / "1", tmp_path / "2", "--out", out)
        assert found["scored"] == 78
        assert len(nora.EdgeInfluence.load(out)) == 78

    def test_measures_and_groups(self, karate: Path) -> None:
        asked = ("--measure", "flips", "--measure", "accuracy:test", "--by", "y")
        found = document("rank", karate, *asked, "--top", 3)
        assert found["measure"] == "flips"
        first = found["top"][0]
        assert {"accuracy:test", "flips of 0", "accuracy:test of 3"} < set(first)
        groups = [value for name, value in first.items() if name.startswith("flips of ")]
        assert first["influence"] == sum(groups)
        assert "flips" in ok("rank", karate, "--measure", "flips", "--top", 2)


class TestTop:
    def test_is_what_rank_certifies(self, karate: Path, tmp_path: Path) -> None:
        out = tmp_path / "top.csv"
        found = document("top", karate, "--top", 3, "--measure", "flips", "--out", out)
        old = document("rank", karate, "--certify", "--top", 3, "--measure", "flips")
        assert found["top"] == old["top"] and found["certificate"] == old["certificate"]
        truth = nora.load_run(karate).session().top(3, measure="flips", progress=False)
        assert [row["node"] for row in found["top"]] == list(truth.nodes)
        assert nora.Top.load(out).nodes == truth.nodes

    def test_counts_targets_only(self, karate: Path) -> None:
        found = document("top", karate, "--top", 2, "--targets", "4,5", "--targets", "member 7")
        truth = nora.load_run(karate).session(targets=[4, 5, 6]).top(2, progress=False)
        assert [row["node"] for row in found["top"]] == list(truth.nodes)


class TestFragile:
    @pytest.mark.parametrize("by", ["nodes", "edges"])
    def test_lists_predictions_that_one_removal_flips(
        self, by: str, karate: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "flips.parquet"
        found = document("fragile", karate, "--by", by, "--top", 3, "--out", out)
        truth = nora.load_run(karate).session().fragile(by=by, progress=False)
        assert (found["flips"], found["removals"]) == (len(truth.flips), truth.removals)
        assert found["share"] == pytest.approx(truth.share)
        assert [row["node"] for row in found["top"]] == truth.top(3)["node"].tolist()
        assert len(nora.Fragile.load(out).flips) == len(truth.flips)
        hang = int((truth.counts > 0).sum())
        assert f"{hang} of 34 predictions flip by removing a single {by[:-1]}" in ok(
            "fragile", karate, "--by", by
        )


def test_what_if_counts_the_targets_alone(karate: Path) -> None:
    run = nora.load_run(karate)
    found = document("what-if", karate, "--remove", "33", "--targets", "0,1,2")
    true = nora.what_if(run.model, run.data, 33, targets=[0, 1, 2])
    assert found["total"] == pytest.approx(true.total, rel=1e-6)
