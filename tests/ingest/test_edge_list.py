"""Edge lists: what is understood, what is noted, what is refused and on which line."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from nora.ingest import Reading, read_graph

Write = Callable[[str, str | bytes], Path]


def pairs(reading: Reading) -> set[tuple[str, str]]:
    """The stored directed edges, by name."""
    names = reading.dataset.node_names
    assert names is not None
    return {(names[i], names[j]) for i, j in reading.dataset.data.edge_index.t().tolist()}


def weights(reading: Reading) -> dict[tuple[str, str], float]:
    names = reading.dataset.node_names
    data = reading.dataset.data
    ends = data.edge_index.t().tolist()
    return {
        (names[i], names[j]): w for (i, j), w in zip(ends, data.edge_weight.tolist(), strict=True)
    }


def both(*edges: tuple[str, str]) -> set[tuple[str, str]]:
    return {*edges, *((b, a) for a, b in edges)}


class TestText:
    @pytest.mark.parametrize(
        "header",
        ["source,target", "from,to", "src,dst", "follower,followee", "Source ID,Target-ID", "u,v"],
    )
    def test_common_headers_are_recognised(self, header: str, write: Write) -> None:
        reading = read_graph(write("e.csv", f"{header}\na,b\nb,c\n"))
        assert pairs(reading) == both(("a", "b"), ("b", "c"))

    def test_columns_may_stand_in_any_order_and_others_are_noted(self, write: Write) -> None:
        reading = read_graph(write("e.csv", "since,to,from\n2001,b,a\n1999,c,b\n"), directed=True)
        assert pairs(reading) == {("a", "b"), ("b", "c")}
        assert "e.csv that are not used: since" in "\n".join(reading.notes)

    def test_a_nameless_index_column_is_no_end(self, write: Write) -> None:
        reading = read_graph(write("e.csv", ",source,target\n0,a,b\n1,b,c\n"))
        assert reading.dataset.node_names == ("a", "b", "c")

    def test_without_a_header_the_first_two_columns_are_taken(self, write: Write) -> None:
        reading = read_graph(write("e.csv", "a,b\nb,c\n"))
        assert pairs(reading) == both(("a", "b"), ("b", "c"))
        assert any("no header" in note for note in reading.notes)

    def test_a_line_that_may_be_header_or_edge_is_asked_about(self, write: Write) -> None:
        with pytest.raises(ValueError, match="line 1: is 'person', 'friend' a header"):
            read_graph(write("e.csv", "person,friend\na,b\nb,c\n"))
        with pytest.raises(ValueError, match=r"is '', 'person_a' a header .*index=False"):
            read_graph(write("e.csv", ",person_a,person_b\n0,a,b\n1,b,c\n"))

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("e.csv", "source;target\na;b\nb;c\n"),
            ("e.csv", "source\ttarget\na\tb\nb\tc\n"),
            ("e.tsv", "source\ttarget\na\tb\nb\tc\n"),
            ("e.txt", "source,target\r\na,b\r\nb,c\r\n"),
            ("e.txt", "a b\nb   c \n"),
            ("e.txt", "# made by hand\n# from to\na\tb\nb\tc\n"),
            ("e.csv", "source,target\n\na,b\n   \nb,c\n,\n\n"),
            ("e.csv", ' source , target \n a ,"b"\nb, c\n'),
        ],
    )
    def test_delimiters_blank_lines_and_comments(self, name: str, text: str, write: Write) -> None:
        assert pairs(read_graph(write(name, text))) == both(("a", "b"), ("b", "c"))

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_a_byte_order_mark_is_no_part_of_the_first_name(
        self, encoding: str, write: Write
    ) -> None:
        reading = read_graph(write("e.csv", "source,target\nä,b\nb,c\n".encode(encoding)))
        assert reading.dataset.node_names == ("ä", "b", "c")

    def test_ids_are_text_and_stay_as_they_are(self, write: Write) -> None:
        ids = (
            "007",
            "7",
            "8.0",
            "v7.0",
            "NA",
            "null",
            "<script>alert(1)</script>",
            "Smith, J.",
            "汉字 ☃",
        )
        rows = "".join(f'"{one}",hub\n' for one in ids)
        reading = read_graph(write("e.csv", f"source,target\n{rows}"))
        assert set(reading.dataset.node_names or ()) == {*ids, "hub"}

    def test_commas_in_ids_do_not_hide_semicolons(self, write: Write) -> None:
        reading = read_graph(write("e.csv", "source;target\nSmith, J;Doe, A\nDoe, A;Roe, B\n"))
        assert reading.dataset.node_names == ("Smith, J", "Doe, A", "Roe, B")


class TestParquet:
    def test_numbers_become_ids_without_a_point(self, tmp_path: Path) -> None:
        pd.DataFrame({"src": [1, 2], "dst": [2, 30]}).to_parquet(tmp_path / "e.parquet")
        assert read_graph(tmp_path / "e.parquet").dataset.node_names == ("1", "2", "30")

    def test_errors_name_the_row(self, tmp_path: Path) -> None:
        pd.DataFrame({"src": ["a", None], "dst": ["b", "c"]}).to_parquet(tmp_path / "e.parquet")
        with pytest.raises(ValueError, match=r"e\.parquet, row 2: the source id.*blank"):
            read_graph(tmp_path / "e.parquet")

    def test_another_file_under_that_name_is_refused(self, write: Write) -> None:
        with pytest.raises(ValueError, match=r"e\.parquet is not a readable Parquet file"):
            read_graph(write("e.parquet", "source,target\na,b\n"))


class TestMeaning:
    def test_undirected_edges_go_both_ways_and_directed_ones_do_not(self, edges: Path) -> None:
        assert len(pairs(read_graph(edges))) == 8
        assert pairs(read_graph(edges, directed=True)) == {
            *(("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"))
        }

    def test_duplicate_rows_are_merged_and_counted(self, write: Write) -> None:
        reading = read_graph(write("e.csv", "source,target\na,b\na,b\nb,a\na,b\nb,c\n"))
        assert reading.dataset.data.num_edges == 4
        assert "2 duplicate rows were merged" in reading.notes

    def test_self_loops_are_kept_once_and_noted(self, write: Write) -> None:
        reading = read_graph(write("e.csv", "source,target\na,a\na,b\n"))
        assert pairs(reading) == {("a", "a"), ("a", "b"), ("b", "a")}
        assert any("1 self-loop" in note for note in reading.notes)

    def test_weights_of_repeated_rows_are_added(self, write: Write) -> None:
        reading = read_graph(
            write("e.csv", "source,target,weight\na,b,2\na,b,0.5\nb,c,3\n"), directed=True
        )
        assert weights(reading) == {("a", "b"): 2.5, ("b", "c"): 3}

    def test_weights_of_both_directions_are_added(self, write: Write) -> None:
        reading = read_graph(write("e.csv", "source,target,weight\na,b,2\nb,a,5\nb,c,3\n"))
        assert weights(reading) == {
            ("a", "b"): 7,
            ("b", "a"): 7,
            ("b", "c"): 3,
            ("c", "b"): 3,
        }
        assert any("listed in both directions" in note for note in reading.notes)

    def test_a_symmetric_list_keeps_its_weights(self, write: Write) -> None:
        text = "source,target,weight\na,b,2\nb,a,2\nb,c,3\nc,b,3\nc,c,1\n"
        reading = read_graph(write("e.csv", text))
        assert weights(reading)[("a", "b")] == weights(reading)[("b", "a")] == 2
        assert weights(reading)[("c", "c")] == 1

    def test_a_decimal_comma_is_read_where_semicolons_part_the_columns(self, write: Write) -> None:
        reading = read_graph(write("e.csv", "source;target;weight\na;b;1,5\nb;c;2\n"))
        assert weights(reading)[("a", "b")] == 1.5

    def test_types_are_kept_apart_and_go_both_ways(self, write: Write) -> None:
        text = "source,target,type\na,b,likes\na,b,follows\nb,c,likes\na,b,likes\n"
        reading = read_graph(write("e.csv", text))
        data, names = reading.dataset.data, reading.dataset.edge_type_names
        assert names == ("follows", "likes")
        found = {
            (*ends, names[kind])
            for ends, kind in zip(
                data.edge_index.t().tolist(), data.edge_type.tolist(), strict=True
            )
        }
        one_way = {(0, 1, "likes"), (0, 1, "follows"), (1, 2, "likes")}
        assert found == one_way | {(j, i, kind) for i, j, kind in one_way}
        assert len(found) == data.num_edges

    def test_weights_and_types_can_be_ignored(self, write: Write) -> None:
        path = write("e.csv", "source,target,Weight,type\na,b,x,\nb,c,1,t\n")
        data = read_graph(path, ignore=["weight", "type"]).dataset.data
        assert "edge_weight" not in data
        assert "edge_type" not in data
        with pytest.raises(ValueError, match=r"'source' of e\.csv holds the ids"):
            read_graph(path, ignore=["source"])
        with pytest.raises(ValueError, match=r"column is called 'wieght'.*mean 'Weight'"):
            read_graph(path, ignore=["wieght"])

    def test_gephis_column_of_drawing_types_is_no_type(self, write: Write) -> None:
        reading = read_graph(write("e.csv", "Source,Target,Type\na,b,Undirected\nb,c,Directed\n"))
        assert reading.dataset.edge_type_names is None
        assert "edge_type" not in reading.dataset.data

    def test_200_000_edges_read_in_seconds(self, tmp_path: Path) -> None:
        random = np.random.default_rng(0)
        ends = random.integers(0, 30_000, (200_000, 2))
        pd.DataFrame(ends, columns=["source", "target"]).to_csv(tmp_path / "e.csv", index=False)
        start = time.process_time()
        reading = read_graph(tmp_path / "e.csv", encoding="degree")
        assert time.process_time() - start < 5
        names = np.array(reading.dataset.node_names)
        stored = torch.as_tensor(reading.dataset.data.edge_index).numpy()
        distinct = {(min(a, b), max(a, b)) for a, b in ends.astype(str).tolist()}
        assert {(min(a, b), max(a, b)) for a, b in names[stored].T.tolist()} == distinct


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("source,target\na,b\n,c\n", r"e\.csv, line 3: the source id.*blank"),
            ("source,target\n\n\na,b\nc,  \n", r"e\.csv, line 5: the target id.*blank"),
            ("source,target\na,b\nc\n", "line 3: 1 column, which is too few.*2"),
            ("source,target\na,b\nb,c,d\n", r"e\.csv, line 3: 3 columns.*many"),
            ("source\na\nb\n", r"e\.csv has one column"),
            ("source,target,type\na,b,x\nb,c,\n", r"line 3: the type is blank"),
            ('source,target\n"a\nx",b\nc,\n', r"e\.csv, line 4: the target id.*blank"),
            (
                "source,target\na,\x1b[31mb\n",
                r"line 2:.*target id '\\x1b\[31mb' holds a control",
            ),
            ("source,weight\na,1\n", "columns are the two ends.*edge"),
        ],
    )
    def test_with_the_files_name_and_the_line(
        self, text: str | bytes, message: str, write: Write
    ) -> None:
        with pytest.raises(ValueError, match=message):
            read_graph(write("e.csv", text))


NAMED = {"source_column": "von", "target_column": "nach"}


class TestNamedColumns:
    TEXT = "Nr,von,nach,Menge,Art\n1,a,b,2,mag\n2,b,c,0.5,kennt\n"

    def test_headers_in_any_language_are_named(self, write: Write) -> None:
        named = dict(**NAMED, weight_column="menge", type_column="Art")
        reading = read_graph(write("e.csv", self.TEXT), directed=True, **named)
        assert weights(reading) == {("a", "b"): 2.0, ("b", "c"): 0.5}
        assert reading.dataset.edge_type_names == ("kennt", "mag")
        assert "e.csv that are not used: Nr" in "\n".join(reading.notes)

    def test_frames_too_and_names_go_before_the_usual_ones(self) -> None:
        frame = pd.DataFrame({"source": [9, 9], "target": [8, 7], "a": ["x", "y"], "b": ["y", "z"]})
        reading = read_graph(frame, source_column="a", target_column="b")
        assert pairs(reading) == both(("x", "y"), ("y", "z"))

    @pytest.mark.parametrize(
        ("named", "reply"),
        [
            (dict(source_column="von"), "both source_column= and target_column="),
            (
                dict(source_column="von", target_column="nahc"),
                "called 'nahc' .target_column=.*nach",
            ),
            (dict(source_column="von", target_column="von"), "'von' cannot mean two things"),
            (dict(**NAMED, weight_column="kg"), "called 'kg' .weight_column=..*Nr, von"),
        ],
    )
    def test_a_name_that_is_not_there_is_refused(self, write: Write, named, reply: str) -> None:
        with pytest.raises(ValueError, match=reply):
            read_graph(write("e.csv", self.TEXT), **named)

    def test_a_table_without_header_has_no_such_column(self, write: Write) -> None:
        with pytest.raises(ValueError, match=r"called 'von' .*its first line is a, b"):
            read_graph(write("e.csv", "a,b\nb,c\n"), **NAMED)
